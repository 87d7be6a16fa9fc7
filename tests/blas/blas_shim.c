/* SGEMM and DGEMM as Fortran calls them, over our dense products: preloaded under the BLAS test
 * programs, nothing else. IG_BLAS_ISA names the instruction set; IG_BLAS_THREADS is the number that pieces are
 * planned for (they run one after another). At the end it says how many calls came, so that a
 * run that did not reach it shows.
 */
#include "kernel/matmul.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* The program's: counts and checks what we report. */
extern void xerbla_(const char *name, const int *info, size_t name_length);

static long n_calls;

static bool is_letter(const char *c, char upper)
{
    return *c == upper || *c == upper + ('a' - 'A');
}

static bool is_transposed(const char *c)
{
    return !is_letter(c, 'N');
}

static bool is_known(const char *c)
{
    return is_letter(c, 'N') || is_letter(c, 'T') || is_letter(c, 'C');
}

typedef struct call {
    const char *name; /* 6 letters */
    const char *trans_a, *trans_b;
    const int *m, *n, *k, *lda, *ldb, *ldc;
    double alpha, beta;
    const void *a, *b;
    void *c;
} call;

static int max_1(int n)
{
    return n > 1 ? n : 1;
}

/* The number of the first wrong argument; 0: none. */
static int wrong_argument(const call *x)
{
    const int rows_a = is_transposed(x->trans_a) ? *x->k : *x->m;
    const int rows_b = is_transposed(x->trans_b) ? *x->n : *x->k;
    if (!is_known(x->trans_a))
        return 1;
    if (!is_known(x->trans_b))
        return 2;
    if (*x->m < 0)
        return 3;
    if (*x->n < 0)
        return 4;
    if (*x->k < 0)
        return 5;
    if (*x->lda < max_1(rows_a))
        return 8;
    if (*x->ldb < max_1(rows_b))
        return 10;
    return *x->ldc < max_1(*x->m) ? 13 : 0;
}

/* Columns lie side by side in Fortran. */
static ig__mm_layout layout_of(ig__mm_type type, bool transposed, int ld)
{
    return (ig__mm_layout){
        .type = type, .row = transposed ? ld : 1, .col = transposed ? 1 : ld};
}

static void multiply(const call *x, ig__mm_type type)
{
    const int info = wrong_argument(x);
    if (info) {
        xerbla_(x->name, &info, 6);
        return;
    }
    const char *threads = getenv("IG_BLAS_THREADS");
    const ig__kernels *kernels = ig__kernels_pick(getenv("IG_BLAS_ISA"));
    if (!kernels) {
        fprintf(stderr, "blas_shim: no such instruction set here\n");
        exit(1);
    }
    const ig__mm_problem problem = {
        .m = *x->m,
        .n = *x->n,
        .k = *x->k,
        .n_batch = {1, 1},
        .a = layout_of(type, is_transposed(x->trans_a), *x->lda),
        .b = layout_of(type, is_transposed(x->trans_b), *x->ldb),
        .c = layout_of(type, false, *x->ldc),
        .alpha = x->alpha,
        .beta = x->beta,
    };
    const ig__mm_data data = {.a = x->a, .b = x->b, .c = x->c};
    const ig__mm_plan plan =
        ig__mm_plan_make(kernels, &problem, threads ? atoi(threads) : 1);
    void *scratch = aligned_alloc(64, (plan.scratch_bytes + 127) / 64 * 64);
    if (!scratch)
        exit(1);
    ig__mm_walk walk;
    ig__mm_walk_begin(&walk, &plan, &data, scratch);
    ig__mm_walk_run(&walk, 0, plan.n_pieces);
    free(scratch);
    n_calls++;
}

EXPORT void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n,
                   const int *k, const float *alpha, const float *a, const int *lda,
                   const float *b, const int *ldb, const float *beta, float *c,
                   const int *ldc);
EXPORT void dgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n,
                   const int *k, const double *alpha, const double *a, const int *lda,
                   const double *b, const int *ldb, const double *beta, double *c,
                   const int *ldc);

void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n,
            const int *k, const float *alpha, const float *a, const int *lda,
            const float *b, const int *ldb, const float *beta, float *c, const int *ldc)
{
    const call x = {"SGEMM ", trans_a,        trans_b,       m, n, k, lda, ldb,
                    ldc,      (double)*alpha, (double)*beta, a, b, c};
    multiply(&x, IG__MM_F32);
}

void dgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc)
{
    const call x = {"DGEMM ", trans_a, trans_b, m,     n, k, lda,
                    ldb,      ldc,     *alpha,  *beta, a, b, c};
    multiply(&x, IG__MM_F64);
}

static __attribute__((destructor)) void report(void)
{
    if (n_calls)
        fprintf(stderr, "blas_shim: %ld calls\n", n_calls);
}
