/* What stands behind an ig_model, a runner and a sequence; for src/infer only.
 */
#ifndef INGOT_INFER_MODEL_INT_H
#define INGOT_INFER_MODEL_INT_H

#include "exec/plan.h"
#include "ingot/runner.h"
#include "nn/nn.h"

enum { IG_MAX_PAGE = 256 }; /* most positions of a page of the pool */

struct ig_model {
    ig_context *ctx;
    ig_tokenizer *tokenizer;
    ig__config config;
    ig__graph graph; /* compiled; its parameters' data lies in `block` */
    void *block;
    size_t block_bytes, file_bytes;
    char *name, *chat_template; /* chat_template may be NULL */
    const ig__family *family;
    ig_model_info info;
    bool exact;
};

/* ---- pages of the KV cache -------------------------------------------------------------- *
 *
 * One pool a runner. A page holds page_tokens positions of all heads of all layers, so that
 * memory is touched only as far as pages are taken; pages are counted, since forks share them.
 * A page is free, or used by n_refs > 0 sequences, or idle: kept by the prefix cache, which
 * gives it up when no other is free. To the kernels it is n_parts pages of IG_PAGE positions,
 * one behind the other: page p is theirs from p * n_parts on.
 */
typedef struct ig__pages {
    const ig_allocator *a;
    ig__cache cache;
    char *memory;
    size_t bytes;
    char **layers;
    int32_t *n_refs; /* [n_pages] */
    int32_t *free;   /* [n_free] stack */
    int32_t n_pages, n_free;
    int32_t page_tokens, n_parts;
    size_t page_bytes;         /* of all layers */
    struct ig__prefix *prefix; /* NULL: nothing is kept (prefix.h) */
} ig__pages;

/* Bytes of a page of so many tokens, of all layers. */
size_t ig__pages_bytes(const ig__config *config, ig__kv kv, int64_t page_tokens);
/* Positions of a page: `wanted`, or 16 if that is 0. Others than 16, 32, 64, 128, 256 are
 * refused. */
ig_status ig__pages_tokens(int64_t *page_tokens, int64_t wanted, const char *who,
                           ig_error *err);
/* The whole pages that n tokens touch. */
static inline int64_t ig__pages_for(const ig__pages *p, int64_t n_tokens)
{
    return (n_tokens + p->page_tokens - 1) / p->page_tokens;
}

ig_status ig__pages_init(ig__pages *p, const ig_allocator *a, const ig__config *config,
                         ig__kv kv, int64_t page_tokens, int64_t n_tokens, ig_error *err);
void ig__pages_fini(ig__pages *p);
int32_t ig__pages_take(ig__pages *p); /* zeroed, counted once; -1: none is free */
int64_t ig__pages_available(const ig__pages *p);   /* free or idle */
void ig__pages_retain(ig__pages *p, int32_t page); /* counted once more, idle or not */
void ig__pages_drop(ig__pages *p, int32_t page);
/* May the only sequence that should see it write the page? Not one that is shared or known
 * to the prefix cache. */
bool ig__pages_is_own(const ig__pages *p, int32_t page);
/* A page with the same contents, counted once; drops the old one. -1: none is free. */
int32_t ig__pages_copy(ig__pages *p, int32_t page);

struct ig_sequence {
    ig_runner *runner;
    int32_t *table; /* [capacity * n_parts] pages of the kernels; those of the pool's first
                       n_pages are taken */
    int64_t length, n_pages, capacity;
};

struct ig_runner {
    ig_model *model;
    ig__plan *plan;
    ig__pages pages;
    ig_runner_opts opts; /* with defaults filled in */

    /* run-time values of a step, at the bound */
    int32_t *tokens, *positions, *logit_rows; /* [max_tokens], [max_tokens], [max_logits] */
    const int32_t **tables;                   /* [max_tokens] */
    ig__attend_unit *units;                   /* [max_tokens] */
    float *logits;                            /* the plan's output */
    int64_t n_logits;
};

#endif
