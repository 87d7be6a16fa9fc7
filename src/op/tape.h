/* The tape: what was called, for gradients.
 *
 * A node stands for one recorded call. It knows the nodes of its operands (edges), what the row's
 * gradient needs (saved, with the version that it had), and the types of its outputs. A
 * result counts its node; a node counts the nodes before it and what it saved. Nothing counts
 * forward, so there is no cycle, and a node dies with the last result that it explains.
 *
 * Nodes are numbered as they are made: `sequence` descending is an order in which every consumer
 * comes before its producer.
 */
#ifndef INGOT_OP_TAPE_H
#define INGOT_OP_TAPE_H

#include "op/op.h"

typedef struct ig__edge {
    struct ig__tape *node; /* counted; NULL: a leaf, or nothing flows there */
    ig_tensor *leaf;       /* counted */
    int i_out;
} ig__edge;

typedef struct ig__saved {
    ig_tensor *x; /* counted; an output is saved as an alias without history */
    uint32_t version;
    uint32_t bit; /* IG_IN or IG_OUT */
} ig__saved;

typedef struct ig__tape {
    ig__history head; /* first: a node is a history */
    const ig__op *op;
    const void *attrs;
    uint64_t sequence;
    size_t bytes; /* of the whole node */
    uint32_t wanted;
    int16_t n_in, n_out, n_saved;
    bool spent;        /* backward went through it and freed what was saved */
    bool queued;       /* of the backward in progress */
    bool passes;       /* a cast of mixed precision: edges lead to its operand instead */
    ig__edge *edges;   /* [n_in] */
    ig__saved *saved;  /* [n_saved] */
    ig_tensor **d_out; /* [n_out] of the backward in progress; counted */
    ig__hook **hooks;  /* [n_out] */
    ig__type *types;   /* [n_out] */
    void *own;         /* of nodes that carry something else; freed by `destroy_own` */
    void (*destroy_own)(ig_context *ctx, void *own);
} ig__tape;

static inline ig__tape *ig__tape_of(const ig_tensor *x)
{
    return (ig__tape *)x->node;
}

/* Make the history of a view whose base got a new one. false: no memory, on the context. */
bool ig__refresh(ig_tensor *x);

/* A node for a call; NULL: no memory, on the context. Histories of `in` are fresh. */
ig__tape *ig__tape_record(ig_context *ctx, const ig__op *op, const void *attrs,
                          ig_tensor *const *in, int n_in, ig_tensor *const *out, int n_out);
/* out[i] was made by node (counted). */
void ig__tape_attach(ig__tape *node, ig_tensor *const *out, int n_out);
/* Drop what is saved: the node cannot be walked again. */
void ig__tape_spend(ig_context *ctx, ig__tape *node);

/* Does anything that is called now have to be recorded for x? */
static inline bool ig__records(const ig_context *ctx, const ig_tensor *x)
{
    return x->wants_grad && !ctx->no_grad;
}

/* After a write in place through x, a view or a base, whose new value has a history. */
bool ig__rebase(ig_tensor *x);

#endif
