/* The limits of AVX2 code, measured: loops that do nothing else.
 *
 * A peak loop keeps as many chains going as the 16 registers hold, in registers that an
 * empty asm statement keeps alive. stream_read walks four quarters of the bytes side by side
 * and fetches ahead: more lines are under way than one stream asks for.
 */
#include "kernel/kernel_int.h"
#include "kernel/peak_int.h"

#include <immintrin.h>

enum { CHAINS = 12, AHEAD = 512 /* bytes */ };

/* 8 multiply-adds an instruction. */
static double peak_f32(int64_t n_rounds)
{
    __m256 s[CHAINS];
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (int j = 0; j < CHAINS; j++)
        s[j] = y;
    for (int64_t i = 0; i < n_rounds; i++) {
        __asm__ volatile("" : "+x"(x), "+x"(y));
#pragma GCC unroll 12
        for (int j = 0; j < CHAINS; j++)
            s[j] = _mm256_fmadd_ps(s[j], x, y);
    }
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"x"(s[j]));
    return 2.0 * 8 * CHAINS * (double)n_rounds;
}

/* 32 multiply-adds by products of bytes in pairs, their sums in pairs, and one addition. */
static double peak_int8(int64_t n_rounds)
{
    __m256i s[8];
    __m256i x = _mm256_set1_epi8(3), y = _mm256_set1_epi8(-5);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int j = 0; j < 8; j++)
        s[j] = ones;
    for (int64_t i = 0; i < n_rounds; i++) {
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            __asm__ volatile("" : "+x"(x), "+x"(y));
            const __m256i pairs = _mm256_maddubs_epi16(x, y);
            s[j] = _mm256_add_epi32(s[j], _mm256_madd_epi16(pairs, ones));
        }
    }
    for (int j = 0; j < 8; j++)
        __asm__ volatile("" ::"x"(s[j]));
    return 2.0 * 32 * 8 * (double)n_rounds;
}

/* Sum of the 64-bit words at p; n_bytes is a multiple of 4096. */
static uint64_t stream_read(const void *p, size_t n_bytes)
{
    const size_t quarter = n_bytes / 4;
    __m256i s[8];
    for (int j = 0; j < 8; j++)
        s[j] = _mm256_setzero_si256();
    for (size_t i = 0; i < quarter; i += 64)
        for (size_t j = 0; j < 4; j++) {
            const char *x = (const char *)p + j * quarter + i;
            _mm_prefetch(x + AHEAD, _MM_HINT_T0);
            const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)x);
            const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(x + 32));
            s[2 * j] = _mm256_add_epi64(s[2 * j], a);
            s[2 * j + 1] = _mm256_add_epi64(s[2 * j + 1], b);
        }
    for (int j = 1; j < 8; j++)
        s[0] = _mm256_add_epi64(s[0], s[j]);
    uint64_t word[4];
    _mm256_storeu_si256((__m256i *)(void *)word, s[0]);
    return word[0] + word[1] + word[2] + word[3];
}

void ig__peak_kernels_avx2(ig__kernels *table, const ig__cpu *cpu)
{
    table->stream_read = stream_read;
    table->peak_f32 = peak_f32;
    table->peak_int8 = cpu->avx_vnni ? ig__peak_int8_avxvnni : peak_int8;
    table->peak_bf16 = NULL;
}
