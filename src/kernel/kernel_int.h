/* What the files of this folder share: the CPU's features, the functions that fill a table,
 * and the plain decoding of a packed block.
 *
 * A table starts as the reference and each instruction set overrides entries. A function
 * ig__<part>_<isa> sets only the entries of its part and may call nothing but its own
 * files. The files of one instruction set are compiled with its flags (see CMakeLists.txt)
 * and are entered only through a table, so no such instruction runs on a CPU that lacks it.
 */
#ifndef INGOT_KERNEL_KERNEL_INT_H
#define INGOT_KERNEL_KERNEL_INT_H

#include "kernel/kernel.h"

/* What this CPU has *and* the system saves on a context switch. All false elsewhere than on
 * x86-64. */
typedef struct ig__cpu {
    bool avx2;        /* AVX2, FMA, F16C */
    bool avx_vnni;    /* with avx2: vpdpbusd of 256 bits in its VEX form */
    bool avx512;      /* with avx2: F, BW, VL, DQ and VNNI */
    bool avx512_bf16; /* with avx512: vdpbf16ps */
    bool amx_int8;    /* with avx512: tiles and tdpbusd; the process may use them */
    bool amx_bf16;    /* with amx_int8: tdpbf16ps */
} ig__cpu;

ig__cpu ig__cpu_detect(void);

/* Products, packing of activations, unpacking of weights. */
void ig__gemm_kernels_ref(ig__kernels *table);
void ig__acts_kernels_ref(ig__kernels *table);
void ig__unpack_kernels_ref(ig__kernels *table);
void ig__acts_kernels_avx2(ig__kernels *table);
void ig__gemm_kernels_avx2(ig__kernels *table);
void ig__gemm_float_kernels_avx2(ig__kernels *table);
void ig__gemm_kernels_avxvnni(ig__kernels *table);                    /* over avx2's */
void ig__gemm_kernels_avx512(ig__kernels *table, const ig__cpu *cpu); /* and packing */

/* Norms, elementwise rows, rotation. */
void ig__row_kernels_ref(ig__kernels *table);
void ig__row_kernels_avx2(ig__kernels *table);
void ig__row_kernels_avx512(ig__kernels *table);

/* Attention and its cache. */
void ig__attend_kernels_ref(ig__kernels *table);
void ig__attend_kernels_avx2(ig__kernels *table);
void ig__attend_kernels_avx512(ig__kernels *table);

/* Dense products. */
void ig__matmul_kernels_ref(ig__kernels *table);
void ig__matmul_kernels_avx2(ig__kernels *table);
void ig__matmul_kernels_avx512(ig__kernels *table, const ig__cpu *cpu);

/* The loops that measure the machine. */
void ig__peak_kernels_ref(ig__kernels *table);
void ig__peak_kernels_avx2(ig__kernels *table, const ig__cpu *cpu);
void ig__peak_kernels_avx512(ig__kernels *table, const ig__cpu *cpu);

/* Whole tables: each expects the table before it in this list, and sets `isa` too. */
void ig__kernels_ref(ig__kernels *table);
void ig__kernels_avx2(ig__kernels *table, const ig__cpu *cpu);
void ig__kernels_avx512(ig__kernels *table, const ig__cpu *cpu);
void ig__kernels_amx(ig__kernels *table, const ig__cpu *cpu);

/* Columns 32b .. 32b+31 of row r of a packed group as value = d[h] * q + m, where h is 0
 * for the first 16 and 1 for the last 16 of them. q is signed where the type is symmetric
 * (Q4_0: nibble - 8). Quantised types only. */
typedef struct ig__codes {
    int32_t q[IG_QBLOCK];
    float d[2]; /* exact: f16 times a scale of at most 8 bits */
    float m;    /* exact, 0 for the symmetric types */
} ig__codes;
void ig__unpack_codes(ig__codes *codes, ig_dtype dtype, const void *group, int64_t r,
                      int64_t b);

/* y [K] = row r of a packed group, of any type that has a packed form. */
void ig__unpack_row_ref(float *y, ig_dtype dtype, const void *group, int64_t r, int64_t k);

/* A block of activations whose largest magnitude is below this is all zeros: from here on
 * the scales (max / 127 and 1/16 of it) are normal floats and their inverses finite, so
 * that every instruction set computes the same bits. */
#define IG_ACTS_TINY 0x1p-111f

#endif
