/* The products of every table against the reference, and the promises of kernel.h: a
 * column's bits do not depend on its neighbours, packed activations are the same bytes
 * everywhere, integers are exact, NaN is not lost.
 *
 * Beside the tables of this CPU there is "plain", avx2's table as a CPU without AVX-VNNI
 * would have it.
 */
#include "kernel/kernel_data.h"
#include "tolerance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

enum { MAX_N = 100, MAX_TABLES = 5, CANARY = 64 };

static const ig__kernels *tables[MAX_TABLES];
static int n_tables;

/* avx2's table without AVX-VNNI; NULL where there is no such table. */
#if defined(__x86_64__)
static const ig__kernels *plain_avx2(void)
{
    static ig__kernels plain;
    const ig__cpu cpu = {.avx2 = true};
    ig__kernels_ref(&plain);
    ig__kernels_avx2(&plain, &cpu);
    plain.isa = "plain";
    return &plain;
}
#else
static const ig__kernels *plain_avx2(void)
{
    return NULL;
}
#endif

static int make_tables(void **state)
{
    (void)state;
    const ig__kernels *known[4];
    const int n = ig__kernels_available(known);
    for (int i = 0; i < n; i++) {
        tables[n_tables++] = known[i];
        if (strcmp(known[i]->isa, "avx2") == 0)
            tables[n_tables++] = plain_avx2();
    }
    return 0;
}

/* Weights and columns of one case. */
typedef struct operands {
    ig_dtype dtype;
    int64_t k;
    uint8_t *memory; /* group lies 32 bytes in: groups are aligned to 32, not to 64 */
    const uint8_t *group;
    float *x; /* [MAX_N][K] */
} operands;

static void *new_exact(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1))
        abort();
    return p;
}

static operands operands_of_rows(ig_dtype dtype, int64_t k, const uint8_t *rows)
{
    operands o = {.dtype = dtype, .k = k};
    o.memory = new_exact(ig__packed_group_bytes(dtype, k) + 32);
    ig__pack_group(o.memory + 32, dtype, rows, file_row_bytes(dtype, k), IG_GROUP, k);
    o.group = o.memory + 32;
    o.x = new_exact((size_t)(MAX_N * k) * sizeof(float));
    return o;
}

/* d as for new_rows; x uniform in [-1, 1) times 2^e of each block, e in -range .. range. */
static operands new_operands(ig_dtype dtype, int64_t k, float d, int range, uint64_t *seed)
{
    uint8_t *rows = new_rows(dtype, IG_GROUP, k, d, seed);
    operands o = operands_of_rows(dtype, k, rows);
    free(rows);
    float factor = 1.0f;
    for (int64_t i = 0; i < MAX_N * k; i++) {
        if (i % IG_QBLOCK == 0 && range)
            factor = ldexpf(1.0f, (int)(random_u32(seed) % (2u * range + 1)) - range);
        o.x[i] = random_f32(seed) * factor;
    }
    return o;
}

static void operands_fini(operands *o)
{
    free(o->memory);
    free(o->x);
}

/* All tiles of n columns; the first is column `first` of x. */
static void *pack_columns(const ig__kernels *t, ig__acts format, const float *x, int64_t n,
                          int64_t k)
{
    char *acts = new_exact(ig__acts_bytes(format, k, n));
    for (int64_t c = 0; c < n; c++) {
        const int64_t first = c / IG_TILE * IG_TILE;
        const int64_t width = n - first < IG_TILE ? n - first : IG_TILE;
        char *tile = acts + (size_t)(c / IG_TILE) * ig__tile_bytes(format, k, IG_TILE);
        t->pack_acts[format](tile, x + c * k, c - first, width, k);
    }
    return acts;
}

/* out [n][16]; nothing is written past it or past the scratch that kernel.h grants. */
static void multiply(float *out, const ig__kernels *t, ig__acts format, const operands *o,
                     const float *x, int64_t n)
{
    const size_t out_bytes = (size_t)n * IG_GROUP * sizeof(float);
    const size_t scratch_bytes = IG_GEMM_SCRATCH(o->k);
    char *result = new_bytes(out_bytes + CANARY);
    char *scratch = new_bytes(scratch_bytes + CANARY);
    char untouched[CANARY];
    memset(untouched, 0xa5, CANARY);
    void *acts = pack_columns(t, format, x, n, o->k);
    t->gemm[format][o->dtype]((float *)(void *)result, o->group, acts, n, o->k, scratch);
    assert_memory_equal(result + out_bytes, untouched, CANARY);
    assert_memory_equal(scratch + scratch_bytes, untouched, CANARY);
    memcpy(out, result, out_bytes);
    free(acts);
    free(scratch);
    free(result);
}

/* magnitude [16]: sum over k of |w| * |x| of one column, with |w| = |d q| + |m| and with
 * what quantising x may add. */
static void magnitudes(double *magnitude, const operands *o, const float *x)
{
    float *w = new_exact((size_t)o->k * sizeof(float));
    for (int64_t r = 0; r < IG_GROUP; r++) {
        ig__unpack_row_ref(w, o->dtype, o->group, r, o->k);
        magnitude[r] = 0.0;
        for (int64_t b = 0; b < o->k / IG_QBLOCK; b++) {
            ig__codes codes = {.m = 0.0f};
            const bool is_quantised = ig_dtype_block(o->dtype) > 1;
            if (is_quantised)
                ig__unpack_codes(&codes, o->dtype, o->group, r, b);
            double largest = 0.0;
            for (int i = 0; i < IG_QBLOCK; i++)
                largest = fmax(largest, fabs((double)x[b * IG_QBLOCK + i]));
            for (int i = 0; i < IG_QBLOCK; i++) {
                const double a = is_quantised ? fabs((double)codes.d[i / 16] * codes.q[i]) +
                                                    fabs((double)codes.m)
                                              : fabs((double)w[b * IG_QBLOCK + i]);
                magnitude[r] += a * (fabs((double)x[b * IG_QBLOCK + i]) + largest / 127.0);
            }
        }
    }
    free(w);
}

static double tolerance(ig__acts format, ig_dtype dtype, int64_t k)
{
    switch (format) {
    case IG_ACTS_Q16:
        return IG_TOL_GEMM_Q16(k);
    case IG_ACTS_Q8X2:
        return IG_TOL_GEMM_Q8X2(k);
    case IG_ACTS_BF16:
        return dtype == IG_DTYPE_F16 ? IG_TOL_GEMM_BF16_F16(k) : IG_TOL_GEMM_BF16(k);
    default:
        return IG_TOL_GEMM_F32(k);
    }
}

static void fail_at(const ig__kernels *t, ig__acts format, const operands *o, int64_t n,
                    int64_t c, int64_t r, double found, double wanted)
{
    static const char *const names[] = {"q16", "q8x2", "bf16", "f32"};
    char text[200];
    snprintf(text, sizeof text, "%s %s x %s: k %d, n %d, column %d, row %d: %.9g, not %.9g",
             t->isa, ig_dtype_name(o->dtype), names[format], (int)o->k, (int)n, (int)c,
             (int)r, found, wanted);
    fail_msg("%s", text);
}

/* Every column by itself, against the reference; alone [MAX_N][16]. */
static void check_alone(float *alone, const ig__kernels *t, ig__acts format,
                        const operands *o, const float *reference, const double *magnitude)
{
    const double tol = tolerance(format, o->dtype, o->k);
    for (int64_t c = 0; c < MAX_N; c++) {
        multiply(alone + c * IG_GROUP, t, format, o, o->x + c * o->k, 1);
        for (int64_t r = 0; r < IG_GROUP; r++) {
            const int64_t at = c * IG_GROUP + r;
            const double found = (double)alone[at], wanted = (double)reference[at];
            if (!(fabs(found - wanted) <= tol * magnitude[at]))
                fail_at(t, format, o, 1, c, r, found, wanted);
        }
    }
}

/* Every column among n, bit for bit what it is alone. */
static void check_among(const float *alone, const ig__kernels *t, ig__acts format,
                        const operands *o, int64_t n)
{
    float out[MAX_N * IG_GROUP];
    multiply(out, t, format, o, o->x, n);
    for (int64_t i = 0; i < n * IG_GROUP; i++)
        if (memcmp(&out[i], &alone[i], sizeof *out) != 0)
            fail_at(t, format, o, n, i / IG_GROUP, i % IG_GROUP, (double)out[i],
                    (double)alone[i]);
}

static void check_operands(const operands *o)
{
    static const int64_t counts[] = {2,  3,  4,  5,  6,  7,  8,  9,  10, 11,   12,
                                     13, 14, 15, 16, 17, 31, 32, 33, 48, MAX_N};
    static float reference[MAX_N * IG_GROUP], alone[MAX_N * IG_GROUP];
    static double magnitude[MAX_N * IG_GROUP];
    for (int64_t c = 0; c < MAX_N; c++)
        magnitudes(magnitude + c * IG_GROUP, o, o->x + c * o->k);
    for (ig__acts format = 0; format < IG_ACTS_COUNT; format++)
        for (int t = 0; t < n_tables; t++) {
            if (!tables[t]->gemm[format][o->dtype])
                continue;
            assert_non_null(tables[0]->gemm[format][o->dtype]);
            if (t == 0)
                multiply(reference, tables[0], format, o, o->x, MAX_N);
            check_alone(alone, tables[t], format, o, reference, magnitude);
            /* The reference is slow and has one loop for every n: a few counts do. */
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i += t == 0 ? 8 : 1)
                check_among(alone, tables[t], format, o, counts[i]);
        }
}

static void test_against_reference(void **state)
{
    (void)state;
    static const int64_t widths[] = {32, 64, 96, 256, 288, 512, 544, 576, 768};
    uint64_t seed = 3;
    for (int i = 0; i < N_WEIGHT_TYPES; i++)
        for (size_t j = 0; j < sizeof widths / sizeof widths[0]; j++) {
            if (widths[j] % ig__packing_of(weight_types[i]).block)
                continue;
            operands o = new_operands(weight_types[i], widths[j], 0.1f, 0, &seed);
            memset(o.x + 2 * o.k, 0, (size_t)o.k * sizeof(float)); /* column 2 */
            check_operands(&o);
            operands_fini(&o);
        }
}

static void test_long_rows(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int i = 0; i < N_WEIGHT_TYPES; i++) {
        operands o = new_operands(weight_types[i], 1536, 0.1f, 0, &seed);
        check_operands(&o);
        operands_fini(&o);
    }
}

/* Scales of every finite f16, blocks of activations from 2^-60 to 2^60. */
static void test_extreme_scales(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < N_WEIGHT_TYPES; i++) {
        operands o = new_operands(weight_types[i], 512, 0.0f, 60, &seed);
        check_operands(&o);
        operands_fini(&o);
    }
}

/* Rows whose codes are all `fill` (or random, fill < 0) and whose scales are small whole
 * numbers; float weights are whole numbers from -128 to 127. */
static uint8_t *whole_rows(ig_dtype dtype, int64_t k, int fill, uint64_t *seed)
{
    const size_t bytes = IG_GROUP * file_row_bytes(dtype, k);
    uint8_t *rows = new_rows(dtype, IG_GROUP, k, 0.1f, seed);
    const size_t step = ig_dtype_block_bytes(dtype);
    int at[2];
    const int n_fields = half_fields(at, dtype);
    for (size_t i = 0; i < bytes; i += step) {
        if (fill >= 0 && n_fields)
            memset(rows + i, fill, step);
        for (int f = 0; f < n_fields; f++) {
            const uint16_t h = f ? 0xbc00 : 0x3c00; /* d = 1, m = -1 */
            memcpy(rows + i + at[f], &h, 2);
        }
        const float value =
            (float)((fill < 0 ? (int)(random_u32(seed) >> 24) : fill) - 128);
        const uint16_t half =
            dtype == IG_DTYPE_F16 ? ig__f32_to_f16(value) : ig__f32_to_bf16(value);
        if (step == 2)
            memcpy(rows + i, &half, 2);
        if (step == 4)
            memcpy(rows + i, &value, 4);
    }
    return rows;
}

/* One block of each column holds whole numbers up to 127, at least one of them at that end,
 * so that its scale is 1; the sums stay below 2^24. Every table is exact. */
static void whole_columns(float *x, int64_t k, uint64_t *seed)
{
    memset(x, 0, (size_t)(MAX_N * k) * sizeof(float));
    for (int64_t c = 0; c < MAX_N; c++) {
        float *block = x + c * k + c % (k / IG_QBLOCK) * IG_QBLOCK;
        for (int i = 0; i < IG_QBLOCK; i++) {
            const int random = (int)(random_u32(seed) >> 24) % 255 - 127;
            const int patterns[] = {127, -127, i % 2 ? 127 : -127, random};
            block[i] = (float)patterns[c / 8 % 4];
        }
        block[c % IG_QBLOCK] = 127.0f;
    }
}

static void test_whole_numbers_are_exact(void **state)
{
    (void)state;
    static const int fills[] = {0x00, 0xff, 0x80, 0x7f, 0x88, 0x0f, -1, -1};
    static float out[MAX_N * IG_GROUP];
    const int64_t k = 256;
    uint64_t seed = 6;
    float w[256];
    for (int i = 0; i < N_WEIGHT_TYPES * 8; i++) {
        uint8_t *rows = whole_rows(weight_types[i / 8], k, fills[i % 8], &seed);
        operands o = operands_of_rows(weight_types[i / 8], k, rows);
        whole_columns(o.x, k, &seed);
        for (int t = 0; t < n_tables; t++)
            for (ig__acts format = 0; format < IG_ACTS_COUNT; format++) {
                if (!tables[t]->gemm[format][o.dtype])
                    continue;
                multiply(out, tables[t], format, &o, o.x, MAX_N);
                for (int64_t r = 0; r < IG_GROUP; r++) {
                    ig__unpack_row_ref(w, o.dtype, o.group, r, k);
                    for (int64_t c = 0; c < MAX_N; c++) {
                        double sum = 0.0;
                        for (int64_t j = 0; j < k; j++)
                            sum += (double)w[j] * (double)o.x[c * k + j];
                        if ((double)out[c * IG_GROUP + r] != sum)
                            fail_at(tables[t], format, &o, MAX_N, c, r,
                                    (double)out[c * IG_GROUP + r], sum);
                    }
                }
            }
        operands_fini(&o);
        free(rows);
    }
}

/* Three values a column: 127, and two of whole 16ths, at any place of the same block, so
 * that its scale is 1/16 (Q16: 1/256) and both terms count. Below 2^24 16ths every table is
 * exact. */
static void test_second_terms_are_exact(void **state)
{
    (void)state;
    static const int counts[] = {1, 3, 16, 19, 48};
    static float out[MAX_N * IG_GROUP];
    const int64_t k = 256;
    uint64_t seed = 11;
    float w[256];
    for (int i = 0; i < N_WEIGHT_TYPES * 5; i++) {
        if (weight_types[i / 5] == IG_DTYPE_Q6_K)
            continue; /* scales of 8 bits on top: too large */
        uint8_t *rows = whole_rows(weight_types[i / 5], k, -1, &seed);
        operands o = operands_of_rows(weight_types[i / 5], k, rows);
        const int64_t n = counts[i % 5];
        memset(o.x, 0, (size_t)(n * k) * sizeof(float));
        for (int64_t c = 0; c < n; c++) {
            float *block = o.x + c * k + (random_u32(&seed) >> 24) % 8 * IG_QBLOCK;
            for (int j = 0; j < 2; j++) {
                const int units = (int)(random_u32(&seed) >> 16) % 4001 - 2000;
                block[(random_u32(&seed) >> 24) % IG_QBLOCK] = (float)units / 16.0f;
            }
            block[(random_u32(&seed) >> 24) % IG_QBLOCK] = c % 2 ? 127.0f : -127.0f;
        }
        for (int t = 0; t < 2 * n_tables; t++) {
            const ig__acts format = t % 2 ? IG_ACTS_Q16 : IG_ACTS_Q8X2;
            if (!tables[t / 2]->gemm[format][o.dtype])
                continue;
            multiply(out, tables[t / 2], format, &o, o.x, n);
            for (int64_t r = 0; r < IG_GROUP; r++) {
                ig__unpack_row_ref(w, o.dtype, o.group, r, k);
                for (int64_t c = 0; c < n; c++) {
                    double sum = 0.0;
                    for (int64_t j = 0; j < k; j++)
                        sum += (double)w[j] * (double)o.x[c * k + j];
                    if ((double)out[c * IG_GROUP + r] != sum)
                        fail_at(tables[t / 2], format, &o, n, c, r,
                                (double)out[c * IG_GROUP + r], sum);
                }
            }
        }
        operands_fini(&o);
        free(rows);
    }
}

static void test_zero_columns_give_zero(void **state)
{
    (void)state;
    static float out[MAX_N * IG_GROUP];
    uint64_t seed = 7;
    for (int i = 0; i < N_WEIGHT_TYPES; i++) {
        operands o = new_operands(weight_types[i], 256, 0.1f, 0, &seed);
        memset(o.x, 0, (size_t)(MAX_N * o.k) * sizeof(float));
        for (int t = 0; t < n_tables; t++)
            for (ig__acts format = 0; format < IG_ACTS_COUNT; format++) {
                if (!tables[t]->gemm[format][o.dtype])
                    continue;
                multiply(out, tables[t], format, &o, o.x, 33);
                for (int64_t j = 0; j < 33 * IG_GROUP; j++)
                    assert_true(out[j] == 0.0f);
            }
        operands_fini(&o);
    }
}

/* A value that is not finite spoils the 16 results of its column and no other. */
static void test_not_finite_is_not_lost(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static float clean[MAX_N * IG_GROUP], out[MAX_N * IG_GROUP];
    uint64_t seed = 8;
    for (int i = 0; i < N_WEIGHT_TYPES * 3; i++) {
        operands o = new_operands(weight_types[i / 3], 256, 0.1f, 0, &seed);
        const int64_t n = 19, spoilt = 5 * i % n;
        float *victim = &o.x[spoilt * o.k + 31 * i % o.k];
        for (int t = 0; t < n_tables; t++)
            for (ig__acts format = 0; format < IG_ACTS_COUNT; format++) {
                if (!tables[t]->gemm[format][o.dtype])
                    continue;
                *victim = 0.5f;
                multiply(clean, tables[t], format, &o, o.x, n);
                *victim = bad[i % 3];
                multiply(out, tables[t], format, &o, o.x, n);
                for (int64_t j = 0; j < n * IG_GROUP; j++) {
                    if (j / IG_GROUP == spoilt)
                        assert_false(isfinite(out[j]));
                    else
                        assert_memory_equal(&out[j], &clean[j], sizeof *out);
                    if (j / IG_GROUP == spoilt && (format <= IG_ACTS_Q8X2 || i % 3 == 0))
                        assert_true(isnan(out[j]));
                }
            }
        operands_fini(&o);
    }
}

/* Blocks that quantising might treat differently somewhere. */
static void fill_difficult(float *x, int64_t k, uint64_t *seed)
{
    for (int64_t i = 0; i < k; i++)
        x[i] = random_f32(seed);
    for (int64_t b = 0; b < k / IG_QBLOCK; b++) {
        float *block = x + b * IG_QBLOCK;
        switch (b % 10) {
        case 0: /* halves: ties to even */
            for (int i = 0; i < IG_QBLOCK; i++)
                block[i] = (float)(i % 2 ? i : -i) + 0.5f;
            block[7] = -127.0f;
            break;
        case 1:
            memset(block, 0, IG_QBLOCK * sizeof *block);
            break;
        case 2: /* just below the least magnitude that counts */
        case 3: /* and that magnitude */
            for (int i = 0; i < IG_QBLOCK; i++)
                block[i] *= IG_ACTS_TINY * 0.5f;
            block[19] = b % 10 == 2 ? nextafterf(IG_ACTS_TINY, 0.0f) : -IG_ACTS_TINY;
            break;
        case 4: /* subnormals */
            for (int i = 0; i < IG_QBLOCK; i++)
                block[i] *= 0x1p-130f;
            break;
        case 5:
            for (int i = 0; i < IG_QBLOCK; i++)
                block[i] *= 0x1.fffffep127f;
            break;
        case 6:
            block[random_u32(seed) % IG_QBLOCK] = INFINITY;
            break;
        case 7:
            block[random_u32(seed) % IG_QBLOCK] = -NAN;
            break;
        default:
            break;
        }
    }
}

static void test_activations_are_the_same_bytes(void **state)
{
    (void)state;
    const int64_t k = 640, n = 33;
    uint64_t seed = 9;
    float *x = new_exact((size_t)(n * k) * sizeof *x);
    for (int64_t c = 0; c < n; c++) {
        fill_difficult(x + c * k, k, &seed);
        /* A format of one scale a column sees little beside infinity or 2^127. */
        for (int64_t i = 0; i < k && c % 3; i++)
            if (!(fabsf(x[c * k + i]) <= 127.0f))
                x[c * k + i] = c % 3 == 1 ? 0.0f : 0.5f;
    }
    for (ig__acts format = 0; format < IG_ACTS_COUNT; format++)
        for (int64_t width = 1; width <= n; width++) {
            void *wanted = pack_columns(tables[0], format, x, width, k);
            for (int t = 1; t < n_tables; t++) {
                void *found = pack_columns(tables[t], format, x, width, k);
                assert_memory_equal(found, wanted, ig__acts_bytes(format, k, width));
                free(found);
            }
            free(wanted);
        }
    free(x);
}

/* What kernel.h says of a Q16 tile, on one column of every table: hi and lo together lie within half a
 * unit of x, the units are of the column's largest, sums are theirs. */
static void test_quantising_q16(void **state)
{
    (void)state;
    const int64_t k = 256, nb = k / IG_QBLOCK;
    uint64_t seed = 13;
    float x[256], scale, sum, halves[2];
    uint8_t tile[8 * 76 + 4];
    for (int round = 0; round < 400; round++) {
        const ig__kernels *t = tables[round % n_tables];
        float largest = 0.0f;
        for (int i = 0; i < k; i++) {
            x[i] = ldexpf(random_f32(&seed), i / IG_QBLOCK - 4);
            largest = fmaxf(largest, fabsf(x[i]));
        }
        t->pack_acts[IG_ACTS_Q16](tile, x, 0, 1, k);
        memcpy(&scale, tile + 76 * nb, 4);
        assert_true(scale == largest / 32512.0f);
        for (int64_t b = 0; b < nb; b++) {
            const int8_t *hi = (const int8_t *)tile + 64 * b, *lo = hi + 32;
            int32_t wanted[2] = {0};
            memcpy(&sum, tile + 64 * nb + 4 * b, 4);
            memcpy(halves, tile + 68 * nb + 8 * b, 8);
            for (int i = 0; i < IG_QBLOCK; i++) {
                const int32_t v = 256 * hi[i] + lo[i];
                assert_in_range(v + 32512, 0, 65024);
                const double units = (double)x[b * IG_QBLOCK + i] / (double)scale;
                assert_true(fabs(units - v) <= 0.51);
                wanted[i / 16] += v;
            }
            assert_true(sum == (float)(wanted[0] + wanted[1]));
            assert_true(halves[0] == (float)wanted[0] && halves[1] == (float)wanted[1]);
        }
    }
}

/* What it says of the ends: the largest value is the largest integer, a column too small to count
 * is all zeros, one value that is not finite leaves nothing but that. */
static void test_ends_of_q16(void **state)
{
    (void)state;
    static const float firsts[] = {5.0f, -5.0f, 0.9f * IG_ACTS_TINY, INFINITY, NAN};
    float x[64], scale;
    uint8_t tile[2 * 76 + 4];
    for (int i = 0; i < 5 * n_tables; i++) {
        for (int j = 0; j < 64; j++)
            x[j] = i % 5 == 2 ? 0x1p-130f : 4.0f;
        x[33] = firsts[i % 5];
        tables[i / 5]->pack_acts[IG_ACTS_Q16](tile, x, 0, 1, 64);
        const int8_t *hi = (const int8_t *)tile, *lo = hi + 32;
        memcpy(&scale, tile + 152, 4);
        if (i % 5 < 2) {
            assert_int_equal(256 * hi[65] + lo[65], i % 5 ? -32512 : 32512);
        } else {
            for (int j = 0; j < 152; j++)
                assert_int_equal(tile[j], 0);
            assert_true(i % 5 == 2 ? scale == 0.0f : isnan(scale));
        }
    }
}

/* What kernel.h says of a Q8X2 tile, on one column: hi is the nearest in units of the block's largest
 * / 127, both terms together lie within half a unit of x, sums are theirs. */
static void test_quantising_q8x2(void **state)
{
    (void)state;
    const int64_t k = 256, nb = k / IG_QBLOCK;
    uint64_t seed = 12;
    float x[256];
    uint8_t twice[8 * 88];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < k; i++)
            x[i] = ldexpf(random_f32(&seed), i / IG_QBLOCK - 4);
        tables[0]->pack_acts[IG_ACTS_Q8X2](twice, x, 0, 1, k);
        for (int64_t b = 0; b < nb; b++) {
            const int8_t *hi = (const int8_t *)twice + 64 * b, *lo = hi + 32;
            float scale, sum, largest = 0.0f;
            int32_t isum[4], wanted[4] = {0};
            memcpy(&scale, twice + 64 * nb + 4 * b, 4);
            memcpy(&sum, twice + 68 * nb + 4 * b, 4);
            memcpy(isum, twice + 72 * nb + 16 * b, 16);
            for (int i = 0; i < IG_QBLOCK; i++)
                largest = fmaxf(largest, fabsf(x[b * IG_QBLOCK + i]));
            assert_true(scale == largest / 127.0f / 16.0f);
            for (int i = 0; i < IG_QBLOCK; i++) {
                assert_int_equal(hi[i], lrintf(x[b * IG_QBLOCK + i] * (127.0f / largest)));
                assert_in_range(lo[i] + 8, 0, 16);
                const double units = (double)x[b * IG_QBLOCK + i] / (double)scale;
                assert_true(fabs(units - (16 * hi[i] + lo[i])) <= 0.51);
                wanted[i / 16] += hi[i];
                wanted[2 + i / 16] += lo[i];
            }
            assert_memory_equal(isum, wanted, sizeof isum);
            assert_true(sum == scale * (float)(16 * (wanted[0] + wanted[1]) + wanted[2] +
                                               wanted[3]));
        }
    }
}

/* Tables that promise each other's bits. */
static void test_twins_agree(void **state)
{
    (void)state;
    static const char *const twins[][2] = {{"avx2", "plain"}, {"avx512", "amx"}};
    static float a[MAX_N * IG_GROUP], b[MAX_N * IG_GROUP];
    uint64_t seed = 10;
    for (int i = 0; i < N_WEIGHT_TYPES * 2; i++) {
        const ig__kernels *pair[2] = {NULL, NULL};
        for (int t = 0; t < n_tables; t++)
            for (int j = 0; j < 2; j++)
                if (strcmp(tables[t]->isa, twins[i % 2][j]) == 0)
                    pair[j] = tables[t];
        if (!pair[0] || !pair[1])
            continue;
        static const int64_t widths[] = {1, 9, 16, 17, 24, 25, 31, 32, 41, 47, MAX_N};
        const int64_t ks[] = {ig__packing_of(weight_types[i / 2]).block, 768};
        for (int j = 0; j < 2; j++) {
            operands o = new_operands(weight_types[i / 2], ks[j], 0.1f, 3, &seed);
            for (ig__acts format = 0; format < IG_ACTS_COUNT; format++) {
                const bool is_promised = i % 2 == 0 || format != IG_ACTS_BF16;
                if (!pair[0]->gemm[format][o.dtype] || !is_promised)
                    continue;
                for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                    multiply(a, pair[0], format, &o, o.x, widths[w]);
                    multiply(b, pair[1], format, &o, o.x, widths[w]);
                    assert_memory_equal(a, b, (size_t)widths[w] * IG_GROUP * sizeof *a);
                }
            }
            operands_fini(&o);
        }
    }
}

static void test_tables_are_whole(void **state)
{
    (void)state;
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < N_WEIGHT_TYPES; i++) {
            const ig_dtype dtype = weight_types[i];
            assert_non_null(tables[t]->gemm[IG_ACTS_F32][dtype]);
            assert_non_null(tables[t]->gemm[tables[t]->acts[dtype]][dtype]);
            assert_non_null(tables[t]->pack_acts[tables[t]->acts[dtype]]);
            assert_non_null(tables[t]->unpack_row[dtype]);
        }
}

static void test_pick(void **state)
{
    (void)state;
    const ig__kernels *known[4];
    const int n = ig__kernels_available(known);
    assert_in_range(n, 1, 4);
    assert_string_equal(known[0]->isa, "ref");
    for (int i = 0; i < n; i++)
        assert_ptr_equal(ig__kernels_pick(known[i]->isa), known[i]);
    assert_ptr_equal(ig__kernels_pick(NULL), known[n - 1]);
    assert_null(ig__kernels_pick("avx"));
    assert_null(ig__kernels_pick(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pick),
        cmocka_unit_test(test_tables_are_whole),
        cmocka_unit_test(test_quantising_q16),
        cmocka_unit_test(test_quantising_q8x2),
        cmocka_unit_test(test_ends_of_q16),
        cmocka_unit_test(test_activations_are_the_same_bytes),
        cmocka_unit_test(test_whole_numbers_are_exact),
        cmocka_unit_test(test_second_terms_are_exact),
        cmocka_unit_test(test_zero_columns_give_zero),
        cmocka_unit_test(test_not_finite_is_not_lost),
        cmocka_unit_test(test_twins_agree),
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_extreme_scales),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
