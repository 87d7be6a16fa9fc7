/* Walking reductions: outputs by kept dimensions, elements by reduced ones, in logical order. */
#ifndef INGOT_OP_REDUCE_H
#define INGOT_OP_REDUCE_H

#include "op/pointwise.h"

/* Elements that one set of 16 accumulators takes; partial sums are joined from the first on. */
enum { IG_REDUCE_SPAN = 16384, IG_LANES = 16 };

typedef struct ig__reduce_attrs {
    uint32_t mask; /* bit d: dimension d is reduced */
    bool keep;
    int correction; /* of var */
} ig__reduce_attrs;

/* Mask of a user's list of dimensions (all when n is 0); false: on the context. */
bool ig__dims_mask(uint32_t *mask, ig_tensor *x, const char *op, int n, const int *dims);

/* The operand's index space split in two. */
typedef struct ig__reduction {
    ig__walk_over kept, reduced; /* `data` of kept is the operand's */
    int64_t n_out, n;            /* outputs; elements of each */
    int64_t n_parts;             /* spans of each output's elements */
} ig__reduction;
void ig__reduction_make(ig__reduction *r, const ig__array *x, uint32_t mask);
/* The elements of output o as a walk. */
ig__walk_over ig__reduction_elements(const ig__reduction *r, int64_t o);

/* Sum of n doubles in the tree: lane i mod 16, lanes joined by halves. n <= IG_REDUCE_SPAN, in
 * pieces that continue one another: `lanes` starts as zeros. */
void ig__lanes_add(double lanes[IG_LANES], const double *x, int64_t n);
double ig__lanes_join(const double lanes[IG_LANES]);

/* reduce_grad.c */
void ig__sum_gradient(ig__gradient *g);
void ig__mean_gradient(ig__gradient *g);
void ig__max_gradient(ig__gradient *g);
void ig__var_gradient(ig__gradient *g);
void ig__prod_gradient(ig__gradient *g);

extern const ig__op ig__op_sum, ig__op_mean, ig__op_prod, ig__op_max, ig__op_min,
    ig__op_var, ig__op_prod_grad;

#endif
