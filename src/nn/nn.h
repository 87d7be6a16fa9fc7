/* Model families: from a file's metadata to a graph of plain operators, and its weights in memory.
 *
 * A family is one file and one row: how to read its hyper-parameters, and how to build its graph
 * from layers (layers.h). The graph is the same for running, serving and training; what makes it
 * fast are passes over it.
 */
#ifndef INGOT_NN_NN_H
#define INGOT_NN_NN_H

#include "format/gguf.h"
#include "graph/graph.h"
#include "tensor/context.h"

typedef struct ig__config {
    int64_t n_layers, width, n_heads, n_kv_heads, head_width, feed_forward, vocab, context;
    double norm_eps;
    int64_t n_rotated;
    double rope_base, rope_scale;  /* angles are divided by 1 / rope_scale */
    double local_rope_base;        /* of layers with a window */
    int64_t window, window_period; /* layer i has the window unless (i + 1) % period == 0 */
} ig__config;

/* What a family's build works with. */
typedef struct ig__builder {
    ig__graph *g;
    const ig__gguf
        *file; /* NULL: parameters are float32, of the shapes that the sizes say */
    const ig__config *config;
    bool untied; /* without a file: the head has a matrix of its own */
    ig__value tokens, positions, logit_rows;
} ig__builder;

typedef struct ig__family {
    const char *architecture; /* general.architecture */
    /* Beside what ig__config_read reads for all families; may be NULL. */
    ig_status (*read)(ig__config *config, const ig__gguf *file, ig_error *err);
    void (*build)(ig__builder *b); /* sets g->output; errors stay in the graph */
} ig__family;

extern const ig__family ig__family_llama, ig__family_gemma3;

/* The family of a file: IG_ERR_UNSUPPORTED names what there is. */
ig_status ig__family_of(const ig__family **family_out, const ig__gguf *file, ig_error *err);

/* Read and check the hyper-parameters. */
ig_status ig__config_read(ig__config *config, const ig__family *family,
                          const ig__gguf *file, ig_error *err);

/* Capture the model. Every tensor of the file must be used by it. *g is initialised here. */
ig_status ig__model_capture(ig__graph *g, const ig__family *family,
                            const ig__config *config, const ig__gguf *file,
                            const ig_allocator *a, ig_error *err);

/* Read and pack all parameters of the graph, in parallel, into one block of memory, which is the
 * caller's (ig__free) and holds until the last plan is gone. */
ig_status ig__weights_load(void **block_out, size_t *bytes_out, ig__graph *g,
                           const ig__gguf *file, ig_context *ctx, ig_error *err);

#endif
