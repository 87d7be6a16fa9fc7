/* The limit of byte dot products in 256 bits, where the CPU has AVX-VNNI. */
#include "kernel/peak_int.h"

#include <immintrin.h>

enum { CHAINS = 12 };

/* 32 multiply-adds an instruction. */
double ig__peak_int8_avxvnni(int64_t n_rounds)
{
    __m256i s[CHAINS];
    __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-5);
    for (int j = 0; j < CHAINS; j++)
        s[j] = y;
    for (int64_t i = 0; i < n_rounds; i++) {
        __asm__ volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++)
            s[j] = _mm256_dpbusd_avx_epi32(s[j], x, y);
    }
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"x"(s[j]));
    return 2.0 * 32 * CHAINS * (double)n_rounds;
}
