/* What the files of the training kernels share: the functions that fill a part of a table,
 * and the shapes of work items.
 */
#ifndef INGOT_KERNEL_TRAIN_INT_H
#define INGOT_KERNEL_TRAIN_INT_H

#include "kernel/train.h"

enum {
    IG__CONV_CHANNELS = 8, /* input channels of an item of conv_data */
    IG__CONV_STACK = 16,   /* bands under one pass of conv_weight, at most */
    IG__CONV_OUTS = 32,    /* outputs of an item of conv_weight */
    IG__CONV_SPANS = 8,    /* spans of the batch in conv_weight, at most */
    IG__CONV_DEPTH = 128   /* of the sums that a packed tile of a convolution holds */
};

/* Each sets the entries of its part. */
void ig__train_math_ref(ig__train_kernels *table);
void ig__train_reduce_ref(ig__train_kernels *table);
void ig__train_rows_ref(ig__train_kernels *table);
void ig__train_attend_ref(ig__train_kernels *table);
void ig__train_conv_ref(ig__train_kernels *table);
void ig__train_cell_ref(ig__train_kernels *table);
void ig__train_update_ref(ig__train_kernels *table);
void ig__train_number_ref(ig__train_kernels *table);
void ig__train_math_avx2(ig__train_kernels *table);
void ig__train_reduce_avx2(ig__train_kernels *table);
void ig__train_rows_avx2(ig__train_kernels *table);
void ig__train_attend_avx2(ig__train_kernels *table);
void ig__train_conv_avx2(ig__train_kernels *table);
void ig__train_cell_avx2(ig__train_kernels *table);
void ig__train_update_avx2(ig__train_kernels *table);
void ig__train_number_avx2(ig__train_kernels *table);
void ig__train_math_avx512(ig__train_kernels *table);
void ig__train_reduce_avx512(ig__train_kernels *table);
void ig__train_rows_avx512(ig__train_kernels *table);
void ig__train_attend_avx512(ig__train_kernels *table);
void ig__train_conv_avx512(ig__train_kernels *table);
void ig__train_cell_avx512(ig__train_kernels *table);
void ig__train_update_avx512(ig__train_kernels *table);
void ig__train_number_avx512(ig__train_kernels *table);

/* The reference's attention, for items whose results are not finite. */
void ig__attention_ref(const ig__attention *a, int64_t begin, int64_t end);
void ig__attention_grad_ref(const ig__attention *a, int64_t begin, int64_t end);

/* The reference's conversion, for the pairs that an instruction set leaves alone. */
void ig__convert_ref(ig__number to, ig__number from, void *y, const void *x, int64_t n);

/* Over the 16 double lanes of a sum: 8 and 8, 4 and 4, 2 and 2. */
static inline double ig__join_lanes(double lane[16])
{
    for (int half = 8; half >= 1; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static inline int64_t ig__min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ig__max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A band of a convolution's input: what a number of output rows see, of all channels of a
 * group, copied with pads (train_conv_body.inc). Bands are the items of conv (of conv_data
 * without strides); they depend on the shape alone. */
typedef struct ig__band {
    int64_t channels, in_h, in_w, out_h, out_w, kernel_h, kernel_w;
    int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int64_t rows, n_bands;  /* output rows of a band */
    int64_t line, row;      /* columns of one remainder, of all */
    int64_t rows_in, plane; /* input rows of a band, floats of a channel */
    int64_t taps, floats;   /* channels times kernel, floats of a band with 16 behind it */
} ig__band;

ig__band ig__band_of(const ig__conv *c);   /* of x */
ig__band ig__band_back(const ig__conv *c); /* of dy, for the gradient of x; stride 1 */
/* Bands that conv_weight takes at a time, at most IG__CONV_STACK. */
int64_t ig__band_stack(const ig__band *s);
/* Blocks of IG__CONV_OUTS outputs in a group. */
int64_t ig__conv_out_blocks(const ig__conv *c);

/* Item i of a forward pass: tile `tile` of head `h` of batch b. */
typedef struct ig__attend_item {
    int64_t b, h, first, n; /* queries [first, first + n) */
} ig__attend_item;

static inline ig__attend_item ig__attend_item_at(const ig__attention *a, int64_t i)
{
    const int64_t tiles = (a->n_queries + IG__ATTEND_TILE - 1) / IG__ATTEND_TILE;
    const int64_t first = i % tiles * IG__ATTEND_TILE;
    return (ig__attend_item){i / tiles / a->heads, i / tiles % a->heads, first,
                             ig__min_i64(IG__ATTEND_TILE, a->n_queries - first)};
}

/* What dropout multiplies the weights of query i and n keys from j on with; y [n]. */
static inline void ig__attend_factors(const ig__attention *a, float *y, int64_t b,
                                      int64_t h, int64_t i, int64_t j, int64_t n)
{
    const int64_t row = (b * a->heads + h) * a->n_queries + i;
    for (int64_t s = 0; s < n; s++)
        y[s] = 1.0f;
    if (a->dropout > 0)
        a->drop(y, y, a->seed, a->stream, (uint64_t)(row * a->n_keys + j), n, a->dropout);
}

/* Keys [lo, hi) that query i may see by its position. */
static inline int64_t ig__attend_lo(const ig__attention *a, int64_t i)
{
    const int64_t own = i + a->n_keys - a->n_queries;
    return a->window > 0 ? ig__min_i64(a->n_keys, ig__max_i64(0, own - a->window + 1)) : 0;
}

static inline int64_t ig__attend_hi(const ig__attention *a, int64_t i)
{
    const int64_t own = i + a->n_keys - a->n_queries;
    return a->causal ? ig__max_i64(0, ig__min_i64(a->n_keys, own + 1)) : a->n_keys;
}

#endif
