/* Pages of a sequence before and after a step; for src/infer only.
 */
#ifndef INGOT_INFER_SEQUENCE_H
#define INGOT_INFER_SEQUENCE_H

#include "infer/model_int.h"

/* Page i of the sequence, one of the pool's; set it. */
static inline int32_t ig__sequence_page(const ig_sequence *seq, int64_t i)
{
    const int32_t n_parts = seq->runner->pages.n_parts;
    return seq->table[i * n_parts] / n_parts;
}
void ig__sequence_set_page(ig_sequence *seq, int64_t i, int32_t page);

/* Take the pages that n_tokens more tokens need (and make the last one the sequence's own). The length
 * stays. On failure (IG_ERR_LIMIT) the sequence holds what it held. */
ig_status ig__sequence_grow(ig_sequence *seq, int64_t n_tokens, ig_error *err);
/* Pages that the pool must have for that, the copy included. */
int64_t ig__sequence_pages_for(const ig_sequence *seq, int64_t n_tokens);
/* Give back the pages past the length. */
void ig__sequence_shrink(ig_sequence *seq);

/* The first n tokens of `from` for the empty sequence `to`; whole pages and the one that n
 * ends in are shared. */
void ig__sequence_share(ig_sequence *to, const ig_sequence *from, int64_t n);
/* Append a full page that is there already; the sequence's length is a multiple of pages. */
void ig__sequence_adopt(ig_sequence *seq, int32_t page);

#endif
