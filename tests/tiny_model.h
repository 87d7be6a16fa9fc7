/* Whole models of a few kilobytes, with random weights of any type, for tests of what stands
 * between a file and its logits.
 *
 *   llama    2 layers, 4 heads, 2 KV heads; width 64, heads of 16, feed-forward 96 (for types
 *            in blocks of 256: width 256, heads of 64, feed-forward 512)
 *   gemma3   6 layers (the last without a window), window 32; 4 heads of 32, 2 KV heads, width
 *            64, feed-forward 96 (256, 64, 512)
 *
 * V is 100: no multiple of 16. The vocabulary's names are "t0" to "t99"; t99 ends an answer.
 */
#ifndef INGOT_TESTS_TINY_MODEL_H
#define INGOT_TESTS_TINY_MODEL_H

#include "gguf_writer.h"
#include "ingot/dtype.h"

enum { TINY_VOCAB = 100, TINY_CONTEXT = 2048, TINY_WINDOW = 32 };

typedef struct tiny_model {
    ig_dtype dtype; /* of all matrices; vectors are f32 */
    bool gemma;
    bool head;          /* an output.weight of its own; else tied to the embedding */
    const char *nan_in; /* this tensor's first value is a NaN; NULL: none's */
    int64_t nan_row;    /* with nan_in: the first value of this row instead */
    gguf_writer file;   /* holds the file until tiny_model_fini */
} tiny_model;

/* The weight types that a model can have. */
enum { TINY_TYPES = 9 };
extern const ig_dtype tiny_types[TINY_TYPES];

/* Write the file; the same description gives the same bytes. Returns its path. */
const char *tiny_model_save(tiny_model *t);
void tiny_model_fini(tiny_model *t);

/* n ids below TINY_VOCAB - 1, the same for the same seed. */
void tiny_ids(int32_t *ids, int64_t n, uint64_t seed);

#endif
