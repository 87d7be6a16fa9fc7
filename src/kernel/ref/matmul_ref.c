/* The reference of dense products: the packed forms and the sums, by plain loops.
 *
 * One chain of multiply and add for each element, in the order of K.
 */
#include "kernel/matmul_int.h"

enum { MR = 4, NR = 4, SPAN = 256 };

static void pack_a_f32(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                       int64_t k)
{
    ig__mm_pack_a_f32(to, from, row, step, m, k, MR, IG__MM_F32);
}

static void pack_a_bf16(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                        int64_t k)
{
    ig__mm_pack_a_f32(to, from, row, step, m, k, MR, IG__MM_BF16);
}

static void pack_a_f16(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                       int64_t k)
{
    ig__mm_pack_a_f32(to, from, row, step, m, k, MR, IG__MM_F16);
}

static void pack_b_f32(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                       int64_t k)
{
    ig__mm_pack_b_f32(to, from, row, step, n, k, NR, IG__MM_F32);
}

static void pack_b_bf16(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                        int64_t k)
{
    ig__mm_pack_b_f32(to, from, row, step, n, k, NR, IG__MM_BF16);
}

static void pack_b_f16(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                       int64_t k)
{
    ig__mm_pack_b_f32(to, from, row, step, n, k, NR, IG__MM_F16);
}

/* Sums of one slice of h rows, a [k][h], as a panel says. first: its first row */
static void slice_f32(const ig__mm_panel *p, const float *a, int64_t first, int64_t h)
{
    const float *b = p->packed;
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const int64_t at = (first + i) * p->c_row + j;
            float sum = 0.0f;
            for (int64_t k = 0; k < p->k; k++)
                sum += a[k * h + i] * b[k * NR + j];
            sum *= alpha;
            if (p->beta != 0.0)
                sum += beta * ((const float *)p->c0)[at];
            if (p->bias_n)
                sum += ((const float *)p->bias_n)[j];
            if (p->bias_m)
                sum += ((const float *)p->bias_m)[first + i];
            ((float *)p->c)[at] = sum;
        }
}

static void panel_f32(const ig__mm_panel *p)
{
    const int64_t n_slices = ig__mm_slices(p->m, MR);
    for (int64_t s = 0; s < n_slices; s++) {
        const int64_t begin = ig__mm_slice_begin(p->m, n_slices, s);
        const int64_t end = ig__mm_slice_begin(p->m, n_slices, s + 1);
        slice_f32(p, (const float *)p->a + begin * p->k, begin, end - begin);
    }
}

static const ig__mm_kernel f32 = {
    .mr = MR,
    .nr = NR,
    .span = SPAN,
    .k_step = 1,
    .row_step = 1,
    .value_bytes = sizeof(float),
    .pack_a = {pack_a_f32, NULL, pack_a_bf16, pack_a_f16},
    .pack_b = {pack_b_f32, NULL, pack_b_bf16, pack_b_f16},
    .panel = panel_f32,
};

/* The same in f64. */
static void pack_a_f64(void *to, const void *from, int64_t row, int64_t step, int64_t m,
                       int64_t k)
{
    ig__mm_pack_a_f64(to, from, row, step, m, k, MR);
}

static void pack_b_f64(void *to, const void *from, int64_t row, int64_t step, int64_t n,
                       int64_t k)
{
    ig__mm_pack_b_f64(to, from, row, step, n, k, NR);
}

static void slice_f64(const ig__mm_panel *p, const double *a, int64_t first, int64_t h)
{
    const double *b = p->packed;
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const int64_t at = (first + i) * p->c_row + j;
            double sum = 0.0;
            for (int64_t k = 0; k < p->k; k++)
                sum += a[k * h + i] * b[k * NR + j];
            sum *= p->alpha;
            if (p->beta != 0.0)
                sum += p->beta * ((const double *)p->c0)[at];
            if (p->bias_n)
                sum += ((const double *)p->bias_n)[j];
            if (p->bias_m)
                sum += ((const double *)p->bias_m)[first + i];
            ((double *)p->c)[at] = sum;
        }
}

static void panel_f64(const ig__mm_panel *p)
{
    const int64_t n_slices = ig__mm_slices(p->m, MR);
    for (int64_t s = 0; s < n_slices; s++) {
        const int64_t begin = ig__mm_slice_begin(p->m, n_slices, s);
        const int64_t end = ig__mm_slice_begin(p->m, n_slices, s + 1);
        slice_f64(p, (const double *)p->a + begin * p->k, begin, end - begin);
    }
}

static const ig__mm_kernel f64 = {
    .mr = MR,
    .nr = NR,
    .span = SPAN,
    .k_step = 1,
    .row_step = 1,
    .value_bytes = sizeof(double),
    .pack_a = {[IG__MM_F64] = pack_a_f64},
    .pack_b = {[IG__MM_F64] = pack_b_f64},
    .panel = panel_f64,
};

void ig__matmul_kernels_ref(ig__kernels *table)
{
    table->matmul[IG__MM_F32] = &f32;
    table->matmul[IG__MM_F64] = &f64;
}
