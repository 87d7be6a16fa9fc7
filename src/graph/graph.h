/* A captured graph: operators of the table over values, in the order of their calls.
 *
 * A value is a number (ig__value). It is an input of the run, a parameter of the model, or the result
 * of one node (single assignment). A model family builds its graph once by ig__graph_apply; passes
 * (src/compile) rewrite it; the executor (src/exec) makes a plan of it.
 *
 * Errors are sticky: the first failure (a shape rule's, or memory) stays in the graph, later calls
 * return IG_NO_VALUE, and the builder checks ig__graph_status once.
 */
#ifndef INGOT_GRAPH_GRAPH_H
#define INGOT_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/buffer.h"
#include "op/op.h"

typedef int32_t ig__value;
enum { IG_NO_VALUE = -1 };

typedef enum ig__value_kind {
    IG_VALUE_INPUT,
    IG_VALUE_PARAM,
    IG_VALUE_NODE
} ig__value_kind;

typedef struct ig__value_info {
    ig__type type;
    ig__value_kind kind;
    int32_t index; /* input number, parameter number or node number */
} ig__value_info;

/* A parameter: a matrix in packed groups, or a float32 vector. `data` is the model's, set when loaded;
 * graphs that passes make share it. */
typedef struct ig__param {
    const char *name; /* of the file's tensor */
    ig__value value;
    void *data;
} ig__param;

typedef struct ig__node {
    const ig__op *op;
    const void *attrs; /* op->attrs_bytes, in the graph's arena */
    ig__value in[IG_MAX_INPUTS];
    int n_in;
    ig__value out;
    const char *scope; /* "blk.3": where the builder was, for messages */
} ig__node;

typedef struct ig__graph {
    ig__arena arena;
    ig__value_info *values; /* [n_values] */
    ig__node *nodes;        /* [n_nodes], each after the nodes whose results it takes */
    ig__param *params;      /* [n_params] */
    int32_t n_values, cap_values, n_nodes, cap_nodes, n_params, cap_params;
    ig__value output;  /* what a run is for: the logits */
    const char *scope; /* of nodes made from now on */
    ig_status status;
    ig_error error;
} ig__graph;

void ig__graph_init(ig__graph *g, const ig_allocator *a);
void ig__graph_fini(ig__graph *g);
ig_status ig__graph_status(const ig__graph *g, ig_error *err);

/* Nodes made from now on say that they stand here. */
IG_PRINTF(2, 3) void ig__graph_enter(ig__graph *g, const char *fmt, ...);

ig__value ig__graph_input(ig__graph *g, int32_t index, ig__type type);
/* The parameter of that name; asked for again, the same value (its type must be the same). */
ig__value ig__graph_param(ig__graph *g, const char *name, ig__type type);
/* A parameter whose name the graph is known not to have yet (copies of graphs). */
ig__value ig__graph_new_param(ig__graph *g, const char *name, ig__type type, void *data);
/* A call of an operator: its shape rule is checked now. attrs has op->attrs_bytes, copied. */
ig__value ig__graph_apply(ig__graph *g, const ig__op *op, const void *attrs,
                          const ig__value *in, int n_in);

static inline const ig__type *ig__graph_type(const ig__graph *g, ig__value v)
{
    return &g->values[v].type;
}
/* The node that makes v; NULL for inputs and parameters. */
static inline const ig__node *ig__graph_producer(const ig__graph *g, ig__value v)
{
    return v >= 0 && g->values[v].kind == IG_VALUE_NODE ? &g->nodes[g->values[v].index]
                                                        : NULL;
}
/* How many nodes take v (the output of the graph counts as one). [n_values], in the caller's memory. */
void ig__graph_count_uses(const ig__graph *g, int32_t *n_uses);

/* A check of every invariant that passes must keep: order, types by the shape rules, single
 * assignment. */
ig_status ig__graph_check(const ig__graph *g, ig_error *err);

/* The graph as text, a node a line; append to a buffer. */
void ig__graph_print(ig__buffer *b, const ig__graph *g);

/* Total cost under a binding. */
ig__cost ig__graph_cost(const ig__graph *g, const ig__bind *bind);

#endif
