/* Measuring loops that need one unit more than their table's file is compiled for; the
 * table's own peak file takes them where the CPU has the unit.
 */
#ifndef INGOT_KERNEL_PEAK_INT_H
#define INGOT_KERNEL_PEAK_INT_H

#include "kernel/kernel.h"

double ig__peak_int8_avxvnni(int64_t n_rounds);
double ig__peak_bf16_avx512(int64_t n_rounds);

#endif
