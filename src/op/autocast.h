/* The rule of mixed precision, for dispatch and for functions that choose dtypes before they call a row.
 */
#ifndef INGOT_OP_AUTOCAST_H
#define INGOT_OP_AUTOCAST_H

#include "op/apply.h"

/* x as a row of this precision takes it: x itself, or a cast that gradients pass by. NULL for NULL, and on
 * a failure. */
ig_tensor *ig__autocast(ig_tensor *x, ig__precision precision);
/* The same of n operands of products, where the context asks for it; false: a failure. */
bool ig__autocast_low(ig_tensor **x, int n);
/* x in another dtype, by a cast that gradients pass by. */
ig_tensor *ig__cast_past(ig_tensor *x, ig_dtype dtype);

/* Is x's 16-bit copy there, and what x is now? */
static inline bool ig__low_is_fresh(const ig_tensor *x)
{
    return x->low && x->storage->version - x->low->storage->version == x->low_skew;
}
/* Make it so, of a copy that x has or had; outside of recordings. false: a failure, on the context. */
bool ig__low_refresh(ig_tensor *x, ig_tensor *low);

#endif
