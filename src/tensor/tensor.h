/* Tensors as the folders above see them: a type, strides, and a counted storage.
 *
 *   ig_tensor  type, strides, data  ---->  ig__storage  bytes, version  <---- views share it
 *       |                                                                     with their base
 *       +-- node: who made it, for gradients (ig__history; the tape is in src/op/tape.h)
 *
 * OWNERSHIP. Tensors are counted. A new one has one count, which belongs to the scope that was
 * open when it was made. ig__release drops a count. Histories are counted too; the last count
 * frees a chain of any length without recursion.
 *
 * VERSIONS. Each write in place bumps the storage's version; the tape remembers the version of
 * what it saved. A view knows its base: a write through either is a write to both. When gradients
 * flow through a write, the base gets a new history and a new epoch; a view whose epoch is behind
 * makes its own anew when it is next used.
 */
#ifndef INGOT_TENSOR_TENSOR_H
#define INGOT_TENSOR_TENSOR_H

#include "ingot/tensor.h"
#include "tensor/context.h"
#include "tensor/type.h"

enum { IG_INLINE_BYTES = 64 };

typedef struct ig__storage {
    char *data;
    size_t bytes;
    int32_t refs;
    uint32_t version;
    const char *made_by;               /* the operator's name; static storage */
    struct ig__storage *next, *before; /* of the context's list, when not in_line */
    bool in_line;                      /* data is `own` */
    int32_t captured; /* its number in the recording in progress, from 1; 0: none */
    _Alignas(16) char own[IG_INLINE_BYTES];
} ig__storage;

/* What every node of the tape starts with. */
typedef struct ig__history {
    int32_t refs;
    void (*destroy)(ig_context *ctx, struct ig__history *node);
    struct ig__history *next_dead;
} ig__history;

/* Called with the gradient of a tensor (grad.h). */
typedef struct ig__hook {
    struct ig__hook *next;
    ig_tensor *(*call)(void *user, ig_tensor *gradient);
    void *user;
} ig__hook;

struct ig_tensor {
    ig_context *ctx;
    ig__storage *storage;
    char *data; /* of element [0,0,..] */
    int64_t n;  /* elements */
    ig_scope *scope;
    ig_tensor *next, *before; /* of the scope */
    int32_t refs;
    bool contiguous;
    bool wants_grad; /* a leaf that asks for its gradient, or made of such */
    int8_t i_out;    /* which output of node */
    uint32_t
        epoch; /* see VERSIONS: a base counts its histories, a view remembers the base's */
    ig__history *node; /* NULL: a leaf */
    ig_tensor *grad;   /* of a leaf; NULL: none yet */
    ig_tensor *base;   /* of a view, counted; NULL: this owns its bytes */
    ig__hook *hooks;   /* of a leaf; those of a result belong to its node */
    ig_tensor *low;    /* of a leaf: its copy in 16 bits (src/op/autocast.c); NULL: none */
    uint32_t low_skew; /* version of this less that of `low`, while that is fresh */
    ig__type type;
    int64_t strides[IG_MAX_DIMS]; /* in elements; may be 0 or negative */
};

struct ig_scope {
    ig_context *ctx;
    ig_scope *outer;
    ig_tensor *first;
};

/* A contiguous tensor of a type with constant dimensions, uninitialised, in the current scope; NULL: the
 * failure is on the context, said with the name `op`. */
ig_tensor *ig__tensor_make(ig_context *ctx, const ig__type *type, const char *op);
/* Another tensor on x's storage: `data` inside it. Counts the base. No history. */
ig_tensor *ig__tensor_view(ig_tensor *x, const ig__type *type, const int64_t *strides,
                           char *data);
/* The same without being a view: no base, no history, own refs only (not in a scope). */
ig_tensor *ig__tensor_alias(ig_tensor *x);

static inline ig_tensor *ig__retain(ig_tensor *x)
{
    x->refs++;
    return x;
}
void ig__release(ig_tensor *x); /* may be NULL */
void ig__storage_release(ig_context *ctx, ig__storage *s);
void ig__history_release(ig_context *ctx, ig__history *node);
/* Out of its scope; the scope's count is now the caller's. */
ig_tensor *ig__unscope(ig_tensor *x);
/* A count of the caller's becomes the current scope's; returns x. */
ig_tensor *ig__scope_take(ig_tensor *x);

/* Fail on the context; returns NULL, so that an expression says return ig__fail_on(...). */
#define ig__fail_on(ctx, status, ...)                                                      \
    (ig__context_failed(ctx) ? NULL                                                        \
                             : (ig__fail(&(ctx)->error, status, __VA_ARGS__), (void *)0))
static inline bool ig__context_failed(const ig_context *ctx)
{
    return ctx->error.status != IG_OK;
}
/* Out of memory, with where the memory is. */
void *ig__fail_tensor_memory(ig_context *ctx, const char *op, size_t bytes);

/* Do the strides visit elements [0, n) in order? */
bool ig__is_contiguous(const ig__type *type, const int64_t *strides);
void ig__contiguous_strides(const ig__type *type, int64_t *strides);
/* A constant type from the user's dimensions; false: the failure is on the context. */
bool ig__type_of(ig__type *out, ig_context *ctx, const char *op, ig_dtype dtype, int n_dims,
                 const int64_t *dims);

#endif
