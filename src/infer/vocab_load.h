/* A tokenizer from the metadata of a GGUF file.
 */
#ifndef INGOT_INFER_VOCAB_LOAD_H
#define INGOT_INFER_VOCAB_LOAD_H

#include "format/gguf.h"
#include "ingot/tokenizer.h"

/* The tokenizer copies what it keeps: the file may be closed afterwards. */
ig_status ig__tokenizer_from_gguf(ig_tokenizer **tokenizer_out, const ig__gguf *gguf,
                                  const ig_allocator *a, ig_error *err);

#endif
