/* The "avx512" table: which entries AVX-512 (F, BW, VL, DQ, VNNI) overrides.
 */
#include "kernel/avx512/avx512_int.h"
#include "kernel/kernel_int.h"

void ig__gemm_kernels_avx512(ig__kernels *table)
{
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q4_0] = ig__avx512_gemm_q4_0;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q4_1] = ig__avx512_gemm_q4_1;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q5_0] = ig__avx512_gemm_q5_0;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q8_0] = ig__avx512_gemm_q8_0;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q4_K] = ig__avx512_gemm_q4_k;
    table->gemm[IG_ACTS_Q8][IG_DTYPE_Q6_K] = ig__avx512_gemm_q6_k;
}

void ig__kernels_avx512(ig__kernels *table, const ig__cpu *cpu)
{
    table->isa = "avx512";
    ig__gemm_kernels_avx512(table);
    ig__row_kernels_avx512(table);
    ig__attend_kernels_avx512(table);
    ig__peak_kernels_avx512(table, cpu);
}
