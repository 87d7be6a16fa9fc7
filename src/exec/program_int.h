/* Captured programs, for the files of this folder: program.h has the contract.
 *
 *   record.c          calls  -->  steps, and uses of storages
 *   program_place.c   storages that nobody else sees  -->  places in one block
 *   program.c         steps  -->  bound to memory; the walk
 */
#ifndef INGOT_EXEC_PROGRAM_INT_H
#define INGOT_EXEC_PROGRAM_INT_H

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
    ig__use *uses; /* [n_in + n_out] */
    uint64_t draw; /* of a random row, from the first of the run */
    bool team;
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
} ig__program_storage;

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
    uint64_t n_draws;
    char *block;     /* [planned_bytes], then scratch */
    ig__room room;   /* the most of any step, rounded */
    ig__share share; /* of the team's step */
    int64_t fault;   /* of the step in progress: INT64_MAX while there is none */
    int32_t failed;  /* the step that found one; -1: none */
    bool stop;       /* for the team; written between two barriers by thread 0 alone */
    ig_program_stats stats;
};

/* Lives and places of the storages that died; sets stats. false: no memory. */
bool ig__program_place(ig_program *p);
/* Everything that a run needs, from the recording; the last part of ig_capture_end. */
ig_status ig__program_bind(ig_program *p, ig_error *err);

#endif
