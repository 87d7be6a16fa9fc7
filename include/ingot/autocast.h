/* Mixed precision by rule: products in 16 bits, what needs digits in 32.
 *
 *   const ig_dtype was = ig_autocast(ctx, IG_DTYPE_BF16);
 *   ig_tensor *loss = loss_of(x, y);               the network as it is
 *   ig_autocast(ctx, was);
 *   ig_backward(ig_optimizer_scale_loss(opt, loss));    f16 wants a loss scale, bf16 none
 *   ig_optimizer_step(opt);
 *
 * While it is on, each call of an operator takes its operands by the operator's row in the table:
 *
 *   products                         operands in the 16-bit type, sums in f32, result in the 16-bit type
 *   exp, log, pow, reciprocal,       operands in f32
 *   softmax, norms, sums, losses
 *   all others                       operands as they are
 *
 * docs/tensors.md has the whole list. Operands of f64 and of integers stay as they are, as do writes in
 * place (ig_add_into ..). Parameters stay f32, and so do their gradients: of a cast that this made, the gradient
 * passes by, unrounded.
 *
 * A PARAMETER (a leaf that wants its gradient, or belongs to no scope) is cast once: the copy is kept
 * beside it until the parameter changes, and an optimiser's update writes both in one pass. Who writes
 * through ig_tensor_data asks for the pointer anew after each use, or the change is not seen.
 *
 * BACKWARD runs in the types of forward, on or off; ig_recompute calls its function as forward did. A
 * captured program is what was recorded; parameters written between its runs are cast anew.
 */
#ifndef INGOT_AUTOCAST_H
#define INGOT_AUTOCAST_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From here on: IG_DTYPE_BF16 or IG_DTYPE_F16 is on, IG_DTYPE_F32 off. Returns how it was. Another type is
 * a failure on the context, and changes nothing. */
IG_API ig_dtype ig_autocast(ig_context *ctx, ig_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
