/* The limits of AVX-512 code, measured: loops that do nothing else.
 *
 * A peak loop keeps 20 chains going, more than two units x 5 cycles of latency need, in
 * registers that an empty asm statement keeps alive; every loop over the chains must be
 * unrolled, or the compiler keeps them in memory. stream_read takes four 1 KiB streams
 * side by side out of every page of 4 KiB, so that more lines are under way than one stream
 * asks for, and fetches ahead.
 */
#include "kernel/kernel_int.h"
#include "kernel/peak_int.h"

#include <immintrin.h>

enum { CHAINS = 20, AHEAD = 4096 };

/* 16 multiply-adds an instruction. */
static double peak_f32(int64_t n_rounds)
{
    __m512 s[CHAINS];
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
#pragma GCC unroll 20
    for (int j = 0; j < CHAINS; j++) {
        s[j] = y;
        __asm__ volatile("" : "+v"(s[j])); /* equal chains would be one */
    }
    for (int64_t i = 0; i < n_rounds; i++) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 20
        for (int j = 0; j < CHAINS; j++)
            s[j] = _mm512_fmadd_ps(s[j], x, y);
    }
#pragma GCC unroll 20
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"v"(s[j]));
    return 2.0 * 16 * CHAINS * (double)n_rounds;
}

/* 64 multiply-adds an instruction. */
static double peak_int8(int64_t n_rounds)
{
    __m512i s[CHAINS];
    __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-5);
#pragma GCC unroll 20
    for (int j = 0; j < CHAINS; j++) {
        s[j] = y;
        __asm__ volatile("" : "+v"(s[j])); /* equal chains would be one */
    }
    for (int64_t i = 0; i < n_rounds; i++) {
        __asm__ volatile("" : "+v"(x), "+v"(y));
#pragma GCC unroll 20
        for (int j = 0; j < CHAINS; j++)
            s[j] = _mm512_dpbusd_epi32(s[j], x, y);
    }
#pragma GCC unroll 20
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"v"(s[j]));
    return 2.0 * 64 * CHAINS * (double)n_rounds;
}

/* Sum of the 64-bit words at p; n_bytes is a multiple of 4096. */
static uint64_t stream_read(const void *p, size_t n_bytes)
{
    const char *page = p;
    __m512i s[8] = {_mm512_setzero_si512()};
    for (int j = 1; j < 8; j++)
        s[j] = s[0];
    for (size_t at = 0; at < n_bytes; at += 4096, page += 4096)
        for (int line = 0; line < 1024; line += 128) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const char *x = page + 1024 * j + line;
                _mm_prefetch(x + AHEAD, _MM_HINT_T0);
                _mm_prefetch(x + AHEAD + 64, _MM_HINT_T0);
                s[2 * j] = _mm512_add_epi64(s[2 * j], _mm512_loadu_si512(x));
                s[2 * j + 1] = _mm512_add_epi64(s[2 * j + 1], _mm512_loadu_si512(x + 64));
            }
        }
    uint64_t word[8], sum = 0;
    for (int j = 1; j < 8; j++)
        s[0] = _mm512_add_epi64(s[0], s[j]);
    _mm512_storeu_si512(word, s[0]);
    for (int j = 0; j < 8; j++)
        sum += word[j];
    return sum;
}

void ig__peak_kernels_avx512(ig__kernels *table, const ig__cpu *cpu)
{
    table->stream_read = stream_read;
    table->peak_f32 = peak_f32;
    table->peak_int8 = peak_int8;
    table->peak_bf16 = cpu->avx512_bf16 ? ig__peak_bf16_avx512 : NULL;
}
