/* The tables, and which of them this machine can run.
 *
 * A table depends on the CPU that it is made on (the avx2 table takes its products from
 * AVX-VNNI where there is one), so the tables are filled on the first call, once, under
 * pthread_once, and never written again: a constant that is computed. They hold no state,
 * and every call on every thread sees the same bytes.
 */
#include "kernel/kernel_int.h"

#include <pthread.h>
#include <string.h>

enum { MAX_TABLES = 4 };

static struct {
    ig__kernels table[MAX_TABLES]; /* slowest first */
    int n;                         /* 1..MAX_TABLES, those that this CPU can run */
} known;                           /* written by fill_tables alone */

static pthread_once_t filled = PTHREAD_ONCE_INIT;

void ig__kernels_ref(ig__kernels *table)
{
    memset(table, 0, sizeof *table);
    table->isa = "ref";
    ig__gemm_kernels_ref(table);
    ig__acts_kernels_ref(table);
    ig__unpack_kernels_ref(table);
    ig__row_kernels_ref(table);
    ig__attend_kernels_ref(table);
    ig__matmul_kernels_ref(table);
    ig__peak_kernels_ref(table);
}

#if defined(__x86_64__)

/* A copy of the table before it, to be overridden. */
static ig__kernels *next_table(void)
{
    known.table[known.n] = known.table[known.n - 1];
    return &known.table[known.n++];
}

static void fill_tables_x86(void)
{
    const ig__cpu cpu = ig__cpu_detect();
    if (cpu.avx2)
        ig__kernels_avx2(next_table(), &cpu);
    if (cpu.avx512)
        ig__kernels_avx512(next_table(), &cpu);
    if (cpu.amx_int8)
        ig__kernels_amx(next_table(), &cpu);
}
#else
static void fill_tables_x86(void)
{
}
#endif

static void fill_tables(void)
{
    ig__kernels_ref(&known.table[0]);
    known.n = 1;
    fill_tables_x86();
}

const ig__kernels *ig__kernels_pick(const char *isa)
{
    pthread_once(&filled, fill_tables);
    if (!isa)
        return &known.table[known.n - 1];
    for (int i = 0; i < known.n; i++)
        if (strcmp(isa, known.table[i].isa) == 0)
            return &known.table[i];
    return NULL;
}

int ig__kernels_available(const ig__kernels *tables[4])
{
    pthread_once(&filled, fill_tables);
    for (int i = 0; i < known.n; i++)
        tables[i] = &known.table[i];
    return known.n;
}
