/* Regions: elements of a contiguous base that a view shows, for gradients through views. */
#ifndef INGOT_OP_VIEW_H
#define INGOT_OP_VIEW_H

#include "op/op.h"

typedef struct ig__region_attrs {
    int64_t offset; /* of the first element, in elements from the base's first */
    int n_dims;
    bool adds; /* view_put: add instead of replacing (elements may share a place) */
    int64_t dims[IG_MAX_DIMS], strides[IG_MAX_DIMS];
} ig__region_attrs;

/* Where a view lies in its base. */
ig__region_attrs ig__region_of(const ig_tensor *view);
/* x in the region, zeros elsewhere, of the base's shape. */
ig_tensor *ig__region_alone(ig_tensor *x, const ig__type *base,
                            const ig__region_attrs *region);

extern const ig__op ig__op_permute, ig__op_expand, ig__op_slice; /* and reshape (op.h) */
extern const ig__op ig__op_view_of; /* base -> the region's elements, contiguous */
extern const ig__op
    ig__op_view_put; /* base, x -> base with x over (or added to) the region */

#endif
