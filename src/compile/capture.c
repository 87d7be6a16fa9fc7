/* The end of a capture: what was recorded goes through the passes, and is bound to memory. */
#include "compile/program_pass.h"

#include "base/error.h"

const ig__program_pass ig__program_passes[] = {
    {"dead", "drops steps whose results nobody reads", ig__program_dead},
    {"once", "runs what is the same in every run when the program is made",
     ig__program_once},
    {"same", "takes small values that were computed before from there", ig__program_same},
    {"fuse", "makes elementwise steps one loop over memory", ig__program_fuse},
    {"tail", "lets elementwise steps follow norms and softmax row by row",
     ig__program_tail},
    {"reuse", "writes elementwise results over operands that are read last there",
     ig__program_reuse},
    {NULL, NULL, NULL},
};

static ig_status run_passes(ig_program *p, const ig_capture_opts *opts, ig_error *err)
{
    p->wide = opts->wide;
    if (opts->dump)
        opts->dump(opts->dump_user, "recorded", p);
    for (int i = 0; ig__program_passes[i].name; i++) {
        if (opts->without >> i & 1)
            continue;
        if (!ig__program_passes[i].run(p))
            return ig__fail_memory(err, "capture", 0);
        if (opts->dump)
            opts->dump(opts->dump_user, ig__program_passes[i].name, p);
    }
    return IG_OK;
}

/* ---- public ------------------------------------------------------------------------------------ */

ig_status ig_capture_end_with(ig_program **program_out, ig_context *ctx,
                              const ig_capture_opts *opts, ig_error *err)
{
    static const ig_capture_opts none = {0};
    ig_program *p;
    if (program_out)
        *program_out = NULL;
    const bool is_recording = ig_capture_is_recording(ctx);
    ig_status status = ig__record_end(&p, ctx, program_out || !is_recording ? err : NULL);
    if (!program_out && is_recording) {
        ig_program_destroy(p);
        return IG_OK;
    }
    if (status == IG_OK)
        status = run_passes(p, opts ? opts : &none, err);
    if (status == IG_OK)
        status = ig__program_bind(p, err);
    if (status != IG_OK) {
        ig_program_destroy(p);
        return status;
    }
    *program_out = p;
    return IG_OK;
}

ig_status ig_capture_end(ig_program **program_out, ig_context *ctx, ig_error *err)
{
    return ig_capture_end_with(program_out, ctx, NULL, err);
}

const char *ig_program_pass(int i, const char **what_out)
{
    enum { N = sizeof ig__program_passes / sizeof ig__program_passes[0] - 1 };
    const bool is_there = i >= 0 && i < N;
    if (what_out)
        *what_out = is_there ? ig__program_passes[i].what : NULL;
    return is_there ? ig__program_passes[i].name : NULL;
}
