/* The reference of the measuring loops: what plain C reaches.
 *
 * Each peak loop runs ROUND multiply-adds a round in chains that do not wait for one
 * another, and keeps its sums alive through an empty asm statement. There is no bf16 unit.
 */
#include "kernel/kernel_int.h"

enum { CHAINS = 8, ROUND = 64 };

static double peak_f32(int64_t n_rounds)
{
    float s[CHAINS] = {0};
    float x = 0.999f, y = 1e-3f;
    __asm__ volatile("" : "+m"(x), "+m"(y));
    for (int64_t i = 0; i < n_rounds; i++)
        for (int j = 0; j < ROUND; j++)
            s[j % CHAINS] = s[j % CHAINS] * x + y;
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"m"(s[j]));
    return 2.0 * ROUND * (double)n_rounds;
}

static double peak_int8(int64_t n_rounds)
{
    uint32_t s[CHAINS] = {0};
    int8_t x = 3;
    uint8_t y = 5;
    __asm__ volatile("" : "+r"(x), "+r"(y));
    for (int64_t i = 0; i < n_rounds; i++) {
        for (int j = 0; j < ROUND; j++)
            s[j % CHAINS] += (uint32_t)(x * y);
        __asm__ volatile("" : "+r"(x), "+r"(y));
    }
    for (int j = 0; j < CHAINS; j++)
        __asm__ volatile("" ::"r"(s[j]));
    return 2.0 * ROUND * (double)n_rounds;
}

/* Sum of the 64-bit words at p. */
static uint64_t stream_read(const void *p, size_t n_bytes)
{
    const uint64_t *word = p;
    uint64_t s[4] = {0};
    for (size_t i = 0; i < n_bytes / 8; i += 4)
        for (int j = 0; j < 4; j++)
            s[j] += word[i + j];
    return s[0] + s[1] + s[2] + s[3];
}

void ig__peak_kernels_ref(ig__kernels *table)
{
    table->stream_read = stream_read;
    table->peak_f32 = peak_f32;
    table->peak_int8 = peak_int8;
    table->peak_bf16 = NULL;
}
