/* Pages of a sequence before and after a step; for src/infer only.
 */
#ifndef INGOT_INFER_SEQUENCE_H
#define INGOT_INFER_SEQUENCE_H

#include "infer/model_int.h"

/* Take the pages that n_tokens more tokens need (and make the last one the sequence's own). The length
 * stays. On failure (IG_ERR_LIMIT) the sequence holds what it held. */
ig_status ig__sequence_grow(ig_sequence *seq, int64_t n_tokens, ig_error *err);
/* Give back the pages past the length. */
void ig__sequence_shrink(ig_sequence *seq);

#endif
