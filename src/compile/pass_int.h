/* What the rewriting functions of passes use. */
#ifndef INGOT_COMPILE_PASS_INT_H
#define INGOT_COMPILE_PASS_INT_H

#include "compile/pass.h"

struct ig__rewrite {
    const ig__graph *from;
    ig__graph *to;
    const ig__compile_opts *opts;
    ig__value
        *map; /* [from->n_values]: the value of `to` that stands for it, or IG_NO_VALUE */
    int32_t *n_uses; /* [from->n_values] */
};

/* The node of `from` that makes v, if it is an `op` (and, for `only`, nobody else uses v); else NULL. */
const ig__node *ig__match(const ig__rewrite *r, ig__value v, const ig__op *op, bool only);

/* One file a group of passes. */
ig__value ig__pass_cache(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_pack(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_same(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_norm_pack(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_join_pack(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_gate(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_residual(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_norm_add(ig__rewrite *r, const ig__node *node);
ig__value ig__pass_qkv(ig__rewrite *r, const ig__node *node);

#endif
