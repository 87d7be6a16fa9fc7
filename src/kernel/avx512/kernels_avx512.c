/* The "avx512" table: which entries AVX-512 (F, BW, VL, DQ, VNNI) overrides.
 */
#include "kernel/avx512/avx512_int.h"
#include "kernel/kernel_int.h"

void ig__gemm_kernels_avx512(ig__kernels *table, const ig__cpu *cpu)
{
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q4_0] = ig__avx512_gemm_q16_q4_0;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q4_1] = ig__avx512_gemm_q16_q4_1;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q5_0] = ig__avx512_gemm_q16_q5_0;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q8_0] = ig__avx512_gemm_q16_q8_0;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q4_K] = ig__avx512_gemm_q16_q4_k;
    table->gemm[IG_ACTS_Q16][IG_DTYPE_Q6_K] = ig__avx512_gemm_q16_q6_k;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_0] = ig__avx512_gemm_x2_q4_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_1] = ig__avx512_gemm_x2_q4_1;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q5_0] = ig__avx512_gemm_x2_q5_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q8_0] = ig__avx512_gemm_x2_q8_0;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q4_K] = ig__avx512_gemm_x2_q4_k;
    table->gemm[IG_ACTS_Q8X2][IG_DTYPE_Q6_K] = ig__avx512_gemm_x2_q6_k;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q4_0] = ig__avx512_gemm_f32_q4_0;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q4_1] = ig__avx512_gemm_f32_q4_1;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q5_0] = ig__avx512_gemm_f32_q5_0;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q8_0] = ig__avx512_gemm_f32_q8_0;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q4_K] = ig__avx512_gemm_f32_q4_k;
    table->gemm[IG_ACTS_F32][IG_DTYPE_Q6_K] = ig__avx512_gemm_f32_q6_k;
    table->gemm[IG_ACTS_F32][IG_DTYPE_F16] = ig__avx512_gemm_f32_f16;
    table->gemm[IG_ACTS_F32][IG_DTYPE_BF16] = ig__avx512_gemm_f32_bf16;
    table->gemm[IG_ACTS_F32][IG_DTYPE_F32] = ig__avx512_gemm_f32_f32;
    for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++)
        if (table->acts[dtype] == IG_ACTS_Q8X2)
            table->acts[dtype] = IG_ACTS_Q16;
    table->pack_acts[IG_ACTS_Q16] = ig__avx512_pack_q16;
    table->pack_acts[IG_ACTS_Q8X2] = ig__avx512_pack_q8x2;
    table->pack_acts[IG_ACTS_BF16] = ig__avx512_pack_bf16;
    if (cpu->avx512_bf16) {
        table->gemm[IG_ACTS_BF16][IG_DTYPE_F16] = ig__avx512_gemm_bf16_f16;
        table->gemm[IG_ACTS_BF16][IG_DTYPE_BF16] = ig__avx512_gemm_bf16_bf16;
        table->acts[IG_DTYPE_F16] = IG_ACTS_BF16;
        table->acts[IG_DTYPE_BF16] = IG_ACTS_BF16;
    }
}

void ig__kernels_avx512(ig__kernels *table, const ig__cpu *cpu)
{
    table->isa = "avx512";
    ig__gemm_kernels_avx512(table, cpu);
    ig__row_kernels_avx512(table);
    ig__attend_kernels_avx512(table);
    ig__matmul_kernels_avx512(table, cpu);
    ig__peak_kernels_avx512(table, cpu);
}
