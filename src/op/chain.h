/* A chain: elementwise calls over one number of elements, run as one loop over memory.
 *
 *     t = x * y      chunk by chunk:   t = [x chunk] * [y chunk]     t stays near the core
 *     z = tanh(t)                      z chunk = tanh(t)             z goes to memory
 *
 * The calls are links. A link's result lives in a chunk of scratch for as long as a later link
 * reads it, and goes to memory only where something outside the chain wants it. Links use the rows' own
 * loops (ig__span_fn), and what lies between two links is rounded as in memory (unless the chain is
 * wide): so a chain has the bits of its calls.
 *
 * Chains are made by a pass over programs (src/compile/fuse_program.c), not by calls: `eval` wants the
 * attributes to stay where they are.
 */
#ifndef INGOT_OP_CHAIN_H
#define INGOT_OP_CHAIN_H

#include "op/pointwise.h"

enum { IG_CHAIN_LINKS = 32, IG_LINK_INPUTS = 4 };

/* How a value lies in a chunk. */
typedef enum ig__form { IG_FORM_F32, IG_FORM_F64, IG_FORM_I64, IG_FORM_BYTES } ig__form;

typedef struct ig__link {
    const ig__op *op;
    const void *attrs;
    ig__span_fn *span; /* NULL: a copy or a cast */
    int n_in;
    int in[IG_LINK_INPUTS];                /* i >= 0: operand i; else link ~i */
    const ig__type *types[IG_LINK_INPUTS]; /* of the operands */
    int out;                               /* output i of the chain; -1: stays inside */
    int slot;                              /* of scratch */
    bool inside;                           /* a later link reads it */
    ig_dtype dtype;
    ig__form form;
} ig__link;

/* How an operand comes to a chunk. */
typedef enum ig__fetch {
    IG_FETCH_READY, /* it is read where it lies */
    IG_FETCH_ROW,   /* so is this, a row for all rows, longer than a chunk */
    IG_FETCH_ONE,   /* one element for all: spread over its slot once */
    IG_FETCH_PERIOD, /* a row for all rows: so often in its slot that a chunk may begin anywhere */
    IG_FETCH_GATHER /* any strides or dtype: brought to its slot chunk by chunk */
} ig__fetch;

typedef struct ig__chain_operand {
    ig__walk_over walk; /* `data` is the array's */
    ig__fetch fetch;
    ig__form form;
    int slot; /* the first of two with IG_FETCH_PERIOD; -1: none */
} ig__chain_operand;

typedef struct ig__chain {
    int n_links, n_operands, n_out, n_slots;
    size_t slot_bytes;
    bool wide; /* what lies between two links is not rounded to 16 bits */
    ig__link links[IG_CHAIN_LINKS];
    ig__chain_operand operands[IG_MAX_INPUTS];
    ig__walk_over out[IG_MAX_OUTPUTS];
} ig__chain;

extern const ig__op ig__op_chain; /* attributes: an ig__chain; not in the table of calls */

/* May calls of this row be links? */
bool ig__is_link(const ig__op *op, const ig__eval *e);
/* The form that operand i of a link wants, and that of its result. */
ig__form ig__link_wants(const ig__op *op, const ig__eval *e, int i);
ig__form ig__link_gives(const ig__op *op, const ig__eval *e);
/* May a value of this dtype go from link to link unstored, with the values that storing gives? */
bool ig__link_carries(const ig__op *op, ig_dtype dtype);
/* The walk and the fetch of an operand, x under the index space of `type`. */
void ig__chain_operand_make(ig__chain_operand *o, const ig__array *x, const ig__type *type,
                            ig__form form);
/* Slots of scratch for links and operands, when all else is set. */
void ig__chain_place(ig__chain *c);

/* Elements [first, last) of all outputs. */
void ig__chain_run(const ig__eval *e, int64_t first, int64_t last);

#endif
