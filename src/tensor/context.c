/* Making a context: allocator, kernels for this CPU, team of threads. */
#include "tensor/context.h"

#include "base/cores.h"
#include "base/error.h"
#include "tensor/capture.h"

#include <stdarg.h>
#include <stdio.h>

static void init_thread(void *arg, int i_thread, int n_threads)
{
    (void)i_thread, (void)n_threads;
    const ig__kernels *kernels = arg;
    if (kernels->thread_init)
        kernels->thread_init();
}

static ig_status choose_threads(int *n_out, ig_context *ctx, int wanted, ig_error *err)
{
    if (wanted < 0 || wanted > IG_SHARE_MAX_THREADS)
        return ig__fail(err, IG_ERR_ARGUMENT,
                        "context: n_threads is %d, allowed is 0 to %d", wanted,
                        IG_SHARE_MAX_THREADS);
    const int allowed = ig__cores_allowed(ctx->threads_reason, sizeof ctx->threads_reason);
    *n_out = wanted                           ? wanted
             : allowed < IG_SHARE_MAX_THREADS ? allowed
                                              : IG_SHARE_MAX_THREADS;
    if (wanted)
        snprintf(ctx->threads_reason, sizeof ctx->threads_reason, "asked for");
    return IG_OK;
}

ig_status ig_context_create(ig_context **ctx_out, const ig_context_opts *opts,
                            ig_error *err)
{
    *ctx_out = NULL;
    const ig_context_opts none = {0};
    if (!opts)
        opts = &none;
    const ig_allocator a = opts->allocator ? *opts->allocator : ig__allocator_default();
    const ig__kernels *kernels = ig__kernels_pick(opts->isa);
    if (!kernels)
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "context: no kernels '%s' on this CPU (ref, avx2, avx512, amx)",
                        opts->isa);
    ig_context *ctx = ig__alloc_zero(&a, sizeof *ctx);
    if (!ctx)
        return ig__fail_memory(err, "context", sizeof *ctx);
    ctx->allocator = a;
    ctx->kernels = kernels;
    ctx->train = ig__train_kernels_pick(kernels->isa);
    ctx->log = opts->log;
    ctx->log_user = opts->log_user;
    int n_threads = 1;
    const ig_status status = choose_threads(&n_threads, ctx, opts->n_threads, err);
    if (status != IG_OK) {
        ig__free(&a, ctx);
        return status;
    }
    ctx->team = ig__team_create(&ctx->allocator, n_threads);
    if (!ctx->team) {
        ig__free(&a, ctx);
        return ig__fail(err, IG_ERR_MEMORY, "context: cannot start %d threads", n_threads);
    }
    ig__team_run(ctx->team, init_thread, (void *)(uintptr_t)kernels);
    ig__memory_init(&ctx->memory, &ctx->allocator, opts->tensor_budget, opts->poison);
    ctx->root = ctx->scope = ig__alloc_zero(&a, sizeof *ctx->root);
    if (!ctx->root) {
        ig_context_destroy(ctx);
        return ig__fail_memory(err, "context", sizeof *ctx->root);
    }
    ctx->root->ctx = ctx;
    *ctx_out = ctx;
    return IG_OK;
}

const ig_allocator *ig__context_allocator(const ig_context *ctx)
{
    return &ctx->allocator;
}

int ig_context_threads(const ig_context *ctx)
{
    return ig__team_size(ctx->team);
}

const char *ig_context_threads_reason(const ig_context *ctx)
{
    return ctx->threads_reason;
}

const char *ig_context_isa(const ig_context *ctx)
{
    return ctx->kernels->isa;
}

void ig__log(const ig_context *ctx, ig_log_level level, const char *fmt, ...)
{
    if (!ctx->log)
        return;
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    ctx->log(ctx->log_user, level, line);
}

ig_status ig_context_status(const ig_context *ctx)
{
    return ctx->error.status;
}

const char *ig_context_message(const ig_context *ctx)
{
    return ctx->error.status == IG_OK ? "" : ctx->error.message;
}

void ig_context_clear(ig_context *ctx)
{
    ctx->error.status = IG_OK;
}

ig_memory_stats ig_context_memory(const ig_context *ctx)
{
    return ig__memory_stats(&ctx->memory);
}

void ig_context_reset_peak(ig_context *ctx)
{
    ctx->memory.peak_live = ctx->memory.live;
    ctx->memory.peak_reserved = ctx->memory.reserved;
}

void ig_context_destroy(ig_context *ctx)
{
    if (!ctx)
        return;
    if (ctx->capture)
        ctx->capture->cancel(ctx->capture);
    while (ctx->scope && ctx->scope != ctx->root)
        ig_scope_end(ctx->scope);
    while (ctx->root && ctx->root->first)
        ig__release(ig__unscope(ctx->root->first));
    ig__memory_fini(&ctx->memory);
    ig__team_destroy(ctx->team);
    const ig_allocator a = ctx->allocator;
    ig__free(&a, ctx->scratch);
    ig__free(&a, ctx->root);
    ig__free(&a, ctx);
}
