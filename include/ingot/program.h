/* Captured programs: a whole step recorded once, replayed any number of times.
 *
 *   ig_capture_begin(ctx, &err);
 *   ig_optimizer_clear_grads(opt);
 *   ig_tensor *loss = loss_of(x, y);        calls run as always, and are recorded
 *   ig_backward(loss);
 *   ig_optimizer_step(opt);
 *   ig_capture_end(&program, ctx, &err);    one step is done
 *   for (;;) {
 *       ig_tensor_write(x, batch, ..);      the next batch into the same tensor
 *       ig_program_run(program, &err);      the next step
 *       ig_tensor_item(loss);
 *   }
 *
 * A run does what the recorded calls did, on the same bytes, with the same bits, without allocating,
 * dispatching or recording gradients. Before the first run, PASSES make the recorded calls fewer: what
 * nobody reads is dropped, elementwise calls become one loop over memory, and so on (ig_program_pass
 * names them; each can be left out). Bits stay.
 *
 * TENSORS that were there before the capture, and those alive at its end, are the program's inputs,
 * state and outputs: each run reads and writes their bytes in place (gradients of leaves too), and
 * the program keeps the bytes. All other memory is planned in one block. Tensors made from bytes of the
 * host during the capture are constants.
 *
 * What is recorded is what was called: a backward that finds a leaf without a gradient makes it, and so
 * does each run; to add up gradients over runs, record when there is one.
 *
 * NUMBERS that change from step to step must lie in tensors: what was an argument of a call (the
 * factor of ig_scale) stays as it was. An optimiser keeps its own so. Random calls go on with the
 * context's stream: a run draws what the same calls would draw.
 *
 * VERSIONS of what is written move at every run: a backward whose saved values a run has overwritten
 * fails as it does after a write in place. A backward recorded inside a capture belongs inside it.
 *
 * ERRORS. While recording, reading a value on the host (ig_tensor_read, _item, _data) and writing one
 * (ig_tensor_write), ig_seed and adding parameters to an optimiser fail. A run that meets an index out of
 * range stops at that call, as the calls would: what was written before stays written.
 *
 * A program belongs to its context, and is destroyed before it.
 */
#ifndef INGOT_PROGRAM_H
#define INGOT_PROGRAM_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_program ig_program;

/* Record from here on. Fails if a recording is in progress, or the context has failed. */
IG_API IG_WARN_UNUSED ig_status ig_capture_begin(ig_context *ctx, ig_error *err);
/* The end of the recording, whatever is returned. Fails with the context's failure, if there is one;
 * *program_out is then NULL. program_out NULL: drop the recording. */
IG_API ig_status ig_capture_end(ig_program **program_out, ig_context *ctx, ig_error *err);

/* How the program is made out of what was recorded. */
typedef struct ig_capture_opts {
    uint32_t without; /* bit i: leave out pass i */
    /* Values of 16 bits that only the next call of a loop reads are not rounded: nearer and a little
     * faster, but not the bits of the calls. */
    bool wide;
    /* Called with what was recorded (pass "recorded") and behind each pass; NULL: not. */
    void (*dump)(void *user, const char *pass, const ig_program *program);
    void *dump_user;
} ig_capture_opts;
IG_API ig_status ig_capture_end_with(ig_program **program_out, ig_context *ctx,
                                     const ig_capture_opts *opts, ig_error *err);
/* The name of pass i, and what it does (what_out may be NULL); NULL behind the last. Static. */
IG_API const char *ig_program_pass(int i, const char **what_out);

IG_API bool ig_capture_is_recording(const ig_context *ctx);

IG_API IG_WARN_UNUSED ig_status ig_program_run(ig_program *program, ig_error *err);

typedef struct ig_program_stats {
    int64_t n_steps;      /* of one run */
    int64_t n_team_steps; /* of them, shared out to the threads */
    int64_t n_storages;   /* that are planned */
    size_t storage_bytes; /* of those, one beside the other */
    size_t planned_bytes; /* the block that they share */
    size_t scratch_bytes;
} ig_program_stats;
IG_API ig_program_stats ig_program_get_stats(const ig_program *program);
/* Its steps as text, a line each: at most cap - 1 bytes and a 0. Returns the length that the whole text
 * has. */
IG_API size_t ig_program_text(const ig_program *program, char *text, size_t cap);

IG_API void ig_program_destroy(ig_program *program); /* may be NULL */

#ifdef __cplusplus
}
#endif
#endif
