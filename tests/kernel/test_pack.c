/* Packing weights: golden vectors of another implementation, every row and column of every
 * type against a direct reading of the file's blocks, and the sizes of the layouts.
 */
#include "kernel/kernel_data.h"
#include "kernel/golden_quants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return ig__f16_to_f32(h);
}

/* Element i of a Q4_K block, from the format's description. */
static float q4_k_value(const uint8_t *block, int i)
{
    const uint8_t *scales = block + 4;
    const int s = i / 32;
    int sc, mn;
    if (s < 4) {
        sc = scales[s] & 63;
        mn = scales[s + 4] & 63;
    } else {
        sc = (scales[s + 4] & 15) | (scales[s - 4] >> 6) << 4;
        mn = scales[s + 4] >> 4 | (scales[s] >> 6) << 4;
    }
    const uint8_t byte = block[16 + i / 64 * 32 + i % 32];
    const int q = i % 64 < 32 ? byte & 15 : byte >> 4;
    return half_at(block) * (float)sc * (float)q - half_at(block + 2) * (float)mn;
}

/* Element i of a Q6_K block. */
static float q6_k_value(const uint8_t *block, int i)
{
    const int half = i / 128, quarter = i % 128 / 32, l = i % 32;
    const uint8_t low = block[64 * half + 32 * (quarter & 1) + l];
    const uint8_t high = block[128 + 32 * half + l];
    const int q = (quarter < 2 ? low & 15 : low >> 4) | (high >> 2 * quarter & 3) << 4;
    const float scale = (float)(int8_t)block[192 + i / 16];
    return half_at(block + 208) * scale * (float)(q - 32);
}

/* Element i of a block. */
static float file_value(ig_dtype dtype, const uint8_t *block, int i)
{
    float f = 0.0f;
    int q;
    switch (dtype) {
    case IG_DTYPE_Q4_0:
        q = i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4;
        return half_at(block) * (float)(q - 8);
    case IG_DTYPE_Q4_1:
        q = i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4;
        return half_at(block) * (float)q + half_at(block + 2);
    case IG_DTYPE_Q5_0:
        q = i < 16 ? block[6 + i] & 15 : block[6 + i - 16] >> 4;
        q |= (block[2 + i / 8] >> i % 8 & 1) << 4;
        return half_at(block) * (float)(q - 16);
    case IG_DTYPE_Q8_0:
        return half_at(block) * (float)(int8_t)block[2 + i];
    case IG_DTYPE_Q4_K:
        return q4_k_value(block, i);
    case IG_DTYPE_Q6_K:
        return q6_k_value(block, i);
    case IG_DTYPE_F16:
        return half_at(block);
    case IG_DTYPE_BF16:
        return ig__bf16_to_f32((uint16_t)(block[0] | block[1] << 8));
    default:
        memcpy(&f, block, 4);
        return f;
    }
}

/* The same number; zeros of either sign are one. */
static void assert_same_value(float a, float b)
{
    if (a == 0.0f && b == 0.0f)
        return;
    assert_memory_equal(&a, &b, 4);
}

/* Rows of a file, packed and read back by every table, against file_value. */
static void check_rows(ig_dtype dtype, const uint8_t *rows, int64_t n_rows, int64_t k,
                       size_t row_bytes)
{
    const ig__kernels *tables[4];
    const int n_tables = ig__kernels_available(tables);
    const size_t bytes = ig__packed_group_bytes(dtype, k);
    uint8_t *group = new_bytes(bytes + 64);
    ig__pack_group(group, dtype, rows, row_bytes, n_rows, k);
    for (int i = 0; i < 64; i++)
        assert_int_equal(group[bytes + (size_t)i], 0xa5);
    float *y = new_bytes((size_t)(k + 1) * 4);
    for (int t = 0; t < n_tables; t++)
        for (int64_t r = 0; r < IG_GROUP; r++) {
            memset(y, 0xa5, (size_t)(k + 1) * 4);
            tables[t]->unpack_row[dtype](y, group, r, k);
            for (int64_t i = 0; i < k; i++) {
                const int64_t block = ig_dtype_block(dtype);
                const uint8_t *at = rows + (size_t)r * row_bytes +
                                    (size_t)(i / block) * ig_dtype_block_bytes(dtype);
                assert_same_value(y[i], r < n_rows ? file_value(dtype, at, (int)(i % block))
                                                   : 0.0f);
            }
            uint32_t beyond;
            memcpy(&beyond, y + k, 4);
            assert_int_equal(beyond, 0xa5a5a5a5);
        }
    free(y);
    free(group);
}

static void test_rows_of_every_type(void **state)
{
    (void)state;
    static const int64_t n_rows[] = {16, 1, 15, 7};
    uint64_t seed = 1;
    for (int t = 0; t < N_WEIGHT_TYPES; t++) {
        const int64_t block = ig__packing_of(weight_types[t]).block;
        for (int i = 0; i < 4; i++) {
            const int64_t k = block * (i + 1);
            /* rows apart from each other, as rows of a slice are */
            const size_t row_bytes = file_row_bytes(weight_types[t], k + block);
            uint8_t *rows = new_rows(weight_types[t], IG_GROUP, k + block, 0.0f, &seed);
            check_rows(weight_types[t], rows, n_rows[i], k, row_bytes);
            free(rows);
        }
    }
}

/* The file's blocks may start at any byte. */
static void test_unaligned_rows(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int t = 0; t < N_WEIGHT_TYPES; t++) {
        const int64_t k = ig__packing_of(weight_types[t]).block;
        const size_t row_bytes = file_row_bytes(weight_types[t], k);
        uint8_t *rows = new_rows(weight_types[t], IG_GROUP, k, 0.0f, &seed);
        uint8_t *shifted = new_bytes(16 * row_bytes + 1);
        memcpy(shifted + 1, rows, 16 * row_bytes);
        check_rows(weight_types[t], shifted + 1, IG_GROUP, k, row_bytes);
        free(shifted);
        free(rows);
    }
}

static void check_golden(ig_dtype dtype, const uint8_t *blocks, const uint32_t *values,
                         int64_t n_rows, int64_t k)
{
    uint8_t *group = new_bytes(ig__packed_group_bytes(dtype, k));
    float *y = new_bytes((size_t)k * 4);
    ig__pack_group(group, dtype, blocks, file_row_bytes(dtype, k), n_rows, k);
    for (int64_t r = 0; r < n_rows; r++) {
        ig__kernels_pick("ref")->unpack_row[dtype](y, group, r, k);
        for (int64_t i = 0; i < k; i++) {
            float wanted;
            memcpy(&wanted, &values[r * k + i], 4);
            assert_same_value(y[i], wanted);
        }
    }
    free(y);
    free(group);
}

static void test_golden_values(void **state)
{
    (void)state;
    check_golden(IG_DTYPE_Q4_0, golden_q4_0_blocks, golden_q4_0_values, GOLDEN_Q4_0_ROWS,
                 GOLDEN_Q4_0_K);
    check_golden(IG_DTYPE_Q4_1, golden_q4_1_blocks, golden_q4_1_values, GOLDEN_Q4_1_ROWS,
                 GOLDEN_Q4_1_K);
    check_golden(IG_DTYPE_Q5_0, golden_q5_0_blocks, golden_q5_0_values, GOLDEN_Q5_0_ROWS,
                 GOLDEN_Q5_0_K);
    check_golden(IG_DTYPE_Q8_0, golden_q8_0_blocks, golden_q8_0_values, GOLDEN_Q8_0_ROWS,
                 GOLDEN_Q8_0_K);
    check_golden(IG_DTYPE_Q4_K, golden_q4_k_blocks, golden_q4_k_values, GOLDEN_Q4_K_ROWS,
                 GOLDEN_Q4_K_K);
    check_golden(IG_DTYPE_Q6_K, golden_q6_k_blocks, golden_q6_k_values, GOLDEN_Q6_K_ROWS,
                 GOLDEN_Q6_K_K);
}

/* Bytes of the layouts as kernel.h states them, by their place. */
static void test_layout_of_q8_0(void **state)
{
    (void)state;
    uint8_t rows[16 * 34];
    uint8_t group[544];
    for (int r = 0; r < 16; r++) {
        const uint16_t d = (uint16_t)(0x1000 + r);
        memcpy(rows + 34 * r, &d, 2);
        for (int k = 0; k < 32; k++)
            rows[34 * r + 2 + k] = (uint8_t)(16 * k + r);
    }
    ig__pack_group(group, IG_DTYPE_Q8_0, rows, 34, 16, 32);
    for (int r = 0; r < 16; r++) {
        assert_int_equal(group[2 * r], r);
        assert_int_equal(group[2 * r + 1], 0x10);
        for (int k = 0; k < 32; k++)
            assert_int_equal(group[32 + 64 * (k / 4) + 4 * r + k % 4],
                             (uint8_t)(16 * k + r + 128));
    }
}

static void test_sizes(void **state)
{
    (void)state;
    static const size_t wanted[N_WEIGHT_TYPES] = {288,  320,  352,  544, 2368,
                                                  3360, 1024, 1024, 2048};
    for (int t = 0; t < N_WEIGHT_TYPES; t++) {
        const ig__packing p = ig__packing_of(weight_types[t]);
        assert_int_equal(p.block_bytes, wanted[t]);
        assert_int_equal(ig__packed_group_bytes(weight_types[t], 3 * p.block),
                         3 * wanted[t]);
    }
    assert_int_equal(ig__packing_of(IG_DTYPE_I32).block, 0);
    assert_int_equal(ig__packed_group_bytes(IG_DTYPE_I32, 256), 0);
    assert_int_equal(ig__packing_of(IG_DTYPE_COUNT).block, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_values),  cmocka_unit_test(test_rows_of_every_type),
        cmocka_unit_test(test_unaligned_rows), cmocka_unit_test(test_layout_of_q8_0),
        cmocka_unit_test(test_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
