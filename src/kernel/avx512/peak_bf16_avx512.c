/* The limit of bf16 dot products, where the CPU has AVX512-BF16. */
#include "kernel/peak_int.h"

#include <immintrin.h>

enum { CHAINS = 20 };

/* 32 multiply-adds an instruction. */
double ig__peak_bf16_avx512(int64_t n_rounds)
{
    __m512 s[CHAINS];
    __m512i x = _mm512_set1_epi16(0x3f7f), y = _mm512_set1_epi16(0x3a83);
#pragma GCC unroll 20
    for (int j = 0; j < CHAINS; j++) {
        s[j] = _mm512_setzero_ps();
        __asm__ volatile("" : "+v"(s[j])); /* equal chains would be one */
    }
    for (int64_t i = 0; i < n_rounds; i++) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 20
        for (int j = 0; j < CHAINS; j++)
            s[j] = _mm512_dpbf16_ps(s[j], (__m512bh)x, (__m512bh)y);
    }
#pragma GCC unroll 20
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"v"(s[j]));
    return 2.0 * 32 * CHAINS * (double)n_rounds;
}
