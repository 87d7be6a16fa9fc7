/* The layers that families are written in: short names for calls of operators.
 */
#ifndef INGOT_NN_LAYERS_H
#define INGOT_NN_LAYERS_H

#include "nn/nn.h"

/* The file's tensor of that name as a parameter; its shape must be as said. `matrix` is [n, k]: n outputs of
 * k inputs. */
IG_PRINTF(4, 5)
ig__value ig__nn_matrix(ig__builder *b, int64_t n, int64_t k, const char *name, ...);
IG_PRINTF(3, 4) ig__value ig__nn_vector(ig__builder *b, int64_t n, const char *name, ...);
IG_PRINTF(2, 3) bool ig__nn_has(const ig__builder *b, const char *name, ...);

ig__value ig__nn_rms_norm(ig__builder *b, ig__value x, ig__value gain);
ig__value ig__nn_linear(ig__builder *b, ig__value x, ig__value w);
ig__value ig__nn_add(ig__builder *b, ig__value x, ig__value y);
ig__value ig__nn_rope_table(ig__builder *b, double base, double scale, ig__value factors);
/* The rows whose logits are wanted. */
ig__value ig__nn_wanted(ig__builder *b, ig__value x);

/* Self-attention of layer i on h [T,D] (already normalised) -> [T,H*W], before the output product.
 * halves: how pairs are rotated; norms: q and k are normalised a head, by the tensors
 * blk.i.attn_{q,k}_norm.weight. */
typedef struct ig__nn_attention_opts {
    int64_t layer, window;
    ig__value table;
    bool halves, norms;
    float scale;
} ig__nn_attention_opts;
ig__value ig__nn_attention(ig__builder *b, ig__value h, const ig__nn_attention_opts *opts);

/* down(curve(gate(h)) * up(h)) of layer i. */
ig__value ig__nn_gated(ig__builder *b, ig__value h, int64_t layer, const ig__op *curve);

#endif
