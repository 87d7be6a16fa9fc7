/* Captured programs from within: include/ingot/program.h has the contract.
 *
 *   record.c            calls  -->  steps, and uses of storages
 *   src/compile/        passes over the steps; ig_capture_end
 *   program_place.c     storages that nobody else sees  -->  places in one block
 *   program.c           steps  -->  bound to memory; the walk
 *   program_text.c      steps as text
 */
#ifndef INGOT_EXEC_PROGRAM_H
#define INGOT_EXEC_PROGRAM_H

#include "base/arena.h"
#include "ingot/program.h"
#include "op/apply.h"
#include "tensor/capture.h"

/* One operand of a step: bytes [at, at + ..) of a storage; at may be anywhere inside it. */
typedef struct ig__use {
    int32_t storage;
    bool written;
    size_t at; /* of element [0,0,..] */
} ig__use;

typedef struct ig__program_step {
    const ig__op *op;  /* NULL: a constant, copied from `blob` to use 0 */
    ig__span_fn *span; /* the shortest way; NULL: units */
    const void *blob;
    size_t blob_bytes;
    ig__use *uses;  /* [n_in + n_out] */
    const void **x; /* [n_in] of `span`: the operands' data */
    /* On one thread alone; set when the program is bound. */
    void (*run)(struct ig__program_step *step);
    struct ig__program_step *next_random;
    char *to;        /* of a constant */
    int64_t n_units; /* of a row that keeps them; -1: ask in each phase */
    uint64_t draw;   /* of a random row, from the first of the run */
    bool team;
    bool remarked; /* by the row, in this run */
    bool once;  /* its result is the same in every run: it runs when the program is bound */
    ig__eval e; /* data pointers are set when the program is bound */
} ig__program_step;

/* What a recording knows of a storage. */
typedef struct ig__program_storage {
    ig__storage *s; /* NULL: it died during the recording, and is planned */
    size_t bytes, at;
    int32_t first, last;   /* steps that touch it */
    uint32_t n_bumps;      /* of its version, in one run */
    bool made;             /* by a recorded call; else from before, or a constant */
    bool kept;             /* the recording holds the last count */
    bool constant, mended; /* from bytes of the host; and written afterwards */
    bool stays;            /* planned, but shares its bytes with nothing: written once */
} ig__program_storage;

/* Uses of a step: operands, then results. */
static inline int ig__program_n_uses(const ig__program_step *step)
{
    return step->op ? step->e.n_in + step->e.n_out : 1;
}
static inline const ig__array *ig__program_array(const ig__program_step *step, int i)
{
    return i < step->e.n_in ? &step->e.in[i] : &step->e.out[i - step->e.n_in];
}

/* A leaf and its 16-bit copy, both counted: fresh at the start of each run. */
typedef struct ig__program_copy {
    ig_tensor *x, *low;
} ig__program_copy;

struct ig_program {
    ig_context *ctx;
    ig__arena arena;          /* of steps and what hangs on them */
    ig__program_step **steps; /* [n_steps] */
    ig__program_storage *storages;
    ig__program_copy *copies; /* [n_copies] */
    int32_t n_steps, cap_steps, n_storages, cap_storages, n_copies, cap_copies;
    int32_t n_once; /* of the steps, the first: run when the program is bound */
    ig__program_step *first_random; /* of those that draw */
    uint64_t n_draws;
    char *block;     /* [planned_bytes], then scratch */
    ig__room room;   /* the most of any step, rounded */
    ig__share share; /* of the team's step */
    int64_t fault;   /* of the step in progress: INT64_MAX while there is none */
    int32_t failed;  /* the step that found one; -1: none */
    bool wide;       /* chains do not round to 16 bits inside */
    bool stop;       /* for the team; written between two barriers by thread 0 alone */
    ig_program_stats stats;
};

/* The end of the recording in progress: *p_out is not bound yet. Fails with the context's failure. */
ig_status ig__record_end(ig_program **p_out, ig_context *ctx, ig_error *err);
/* Shortest way and team of a step, by its row and operands. */
void ig__program_step_choose(const ig_program *p, ig__program_step *step);

/* Lives and places of the storages that died; sets stats. false: no memory. */
bool ig__program_place(ig_program *p);
/* Everything that a run needs, from the recording; the last part of ig_capture_end. */
ig_status ig__program_bind(ig_program *p, ig_error *err);

#endif
