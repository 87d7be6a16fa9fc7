/* A model folder against what was recorded for it: test_model [FOLDER [TEXT]].
 *
 * The folder has config.json, model.safetensors, train.json, step0_logits, step0_gradients and
 * after_20_steps (.safetensors). The model is trained for the recorded steps, with one thread and with two, which
 * must agree to the bit. A line a case, the worst error, "N passed, N failed"; 77 where the folder is not there.
 */
#include "ingot/ingot.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds of the recorded numbers: max|a - b| / max(max|b|, 1e-6) of the first step; losses and norms as
 * they are printed, to 6 digits; weights absolute. */
#define BOUND_STEP0   1e-4
#define BOUND_CURVE   2e-4
#define BOUND_WEIGHTS 1e-3

enum { MAX_STEPS = 1000 };

typedef struct verdicts {
    int n_passed, n_failed;
    double worst; /* error as a share of its bound */
} verdicts;

/* What a run leaves, for comparing runs to the bit. */
typedef struct trace {
    float *at; /* [n] */
    size_t n, cap;
} trace;

typedef struct task {
    const char *folder;
    char *text;
    int64_t n_text;
    int64_t rank[256]; /* -1: not in the text */
    json_t *train;
    int64_t n_batch, n_tokens, n_steps;
} task;

static void report(verdicts *v, const char *what, double error, double bound)
{
    const bool good = error <= bound; /* false for NaN */
    printf("%-6s %-52s %.2e of %.0e\n", good ? "ok" : "FAILED", what, error, bound);
    v->n_passed += good;
    v->n_failed += !good;
    v->worst = fmax(v->worst, error / bound);
}

/* ---- the task ---------------------------------------------------------------------------------------- */

static char *read_all(const char *path, int64_t *n_out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    char *bytes = n >= 0 ? malloc((size_t)n + 1) : NULL;
    *n_out = bytes ? (int64_t)fread(bytes, 1, (size_t)n, f) : 0;
    fclose(f);
    return bytes;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool task_open(task *k, const char *folder, const char *text_path)
{
    char path[600];
    bool seen[256] = {false};
    memset(k, 0, sizeof *k);
    k->folder = folder;
    k->text = read_all(text_path, &k->n_text);
    snprintf(path, sizeof path, "%s/train.json", folder);
    k->train = json_load_file(path, 0, NULL);
    if (!k->text || !k->train)
        return false;
    for (int64_t i = 0; i < k->n_text; i++)
        seen[(unsigned char)k->text[i]] = true;
    int64_t n = 0;
    for (int c = 0; c < 256; c++)
        k->rank[c] = seen[c] ? n++ : -1;
    k->n_batch = (int64_t)number(k->train, "batch");
    k->n_tokens = (int64_t)number(k->train, "sequence");
    k->n_steps = (int64_t)json_array_size(json_object_get(k->train, "starts"));
    return k->n_batch > 0 && k->n_tokens > 0 && k->n_steps > 0 && k->n_steps <= MAX_STEPS;
}

static void task_close(task *k)
{
    free(k->text);
    json_decref(k->train);
}

/* The characters from each start on, `shift` later: [B,T] i64. */
static ig_tensor *batch(const task *k, ig_context *ctx, int64_t step, int64_t shift)
{
    const json_t *starts =
        json_array_get(json_object_get(k->train, "starts"), (size_t)step);
    int64_t *ids = malloc((size_t)(k->n_batch * k->n_tokens) * sizeof *ids);
    bool good = ids != NULL;
    for (int64_t b = 0; good && b < k->n_batch; b++) {
        const int64_t from = json_integer_value(json_array_get(starts, (size_t)b)) + shift;
        good = from >= 0 && from + k->n_tokens <= k->n_text;
        for (int64_t t = 0; good && t < k->n_tokens; t++)
            ids[b * k->n_tokens + t] = k->rank[(unsigned char)k->text[from + t]];
    }
    ig_tensor *x =
        good ? ig_tensor_from(ctx, IG_DTYPE_I64, IG_SHAPE(k->n_batch, k->n_tokens), ids)
             : NULL;
    free(ids);
    return x;
}

/* ---- comparing --------------------------------------------------------------------------------------- */

static float *values(const ig_tensor *x)
{
    const size_t bytes = ig_tensor_bytes(x);
    float *data = x && ig_tensor_dtype(x) == IG_DTYPE_F32 ? malloc(bytes + 1) : NULL;
    if (data && ig_tensor_read(x, data, bytes, NULL) != IG_OK) {
        free(data);
        return NULL;
    }
    return data;
}

/* NaN when they cannot be compared. */
static double difference(const ig_tensor *x, const ig_tensor *y, bool relative)
{
    float *a = values(x), *b = values(y);
    double most = 0, scale = 1e-6;
    if (a && b && ig_tensor_count(x) == ig_tensor_count(y)) {
        for (int64_t i = 0; i < ig_tensor_count(x); i++) {
            const double d = fabs((double)a[i] - (double)b[i]);
            most = isnan(most) || d <= most ? most : d;
            scale = fmax(scale, fabs((double)b[i]));
        }
    } else {
        most = (double)NAN;
    }
    free(a);
    free(b);
    return relative ? most / scale : most;
}

static void keep(trace *t, const float *data, size_t n)
{
    if (t->n + n > t->cap) {
        t->cap = 2 * (t->n + n);
        t->at = realloc(t->at, t->cap * sizeof *t->at);
    }
    memcpy(t->at + t->n, data, n * sizeof *data);
    t->n += n;
}

static void keep_tensor(trace *t, const ig_tensor *x)
{
    float *data = values(x);
    if (data)
        keep(t, data, (size_t)ig_tensor_count(x));
    free(data);
}

static ig_tensor_file *open_file(const task *k, ig_context *ctx, const char *name)
{
    char path[600];
    ig_error err;
    ig_tensor_file *file;
    snprintf(path, sizeof path, "%s/%s.safetensors", k->folder, name);
    if (ig_tensor_file_open(&file, ctx, path, &err) != IG_OK)
        printf("%s\n", err.message);
    return file;
}

/* Each parameter (or its gradient) against the file's tensor of its name. */
static void compare_all(verdicts *v, trace *seen, const task *k, ig_params *params,
                        const char *name, bool gradients)
{
    char what[160];
    ig_context *ctx = ig_tensor_context(ig_params_tensor(params, 0));
    ig_tensor_file *file = open_file(k, ctx, name);
    for (int64_t i = 0; i < ig_params_count(params); i++) {
        const char *param = ig_params_name(params, i);
        ig_tensor *x = ig_params_tensor(params, i);
        if (gradients)
            x = ig_tensor_grad(x);
        keep_tensor(seen, x);
        ig_tensor *y = file ? ig_tensor_file_read(file, param, NULL) : NULL;
        snprintf(what, sizeof what, "%s %s", gradients ? "gradient" : "weight", param);
        if (v)
            report(v, what, difference(x, y, gradients),
                   gradients ? BOUND_STEP0 : BOUND_WEIGHTS);
    }
    ig_tensor_file_close(file);
}

/* ---- training ---------------------------------------------------------------------------------------- */

static ig_status make_optimizer(ig_optimizer **opt_out, ig_context *ctx, const task *k,
                                ig_params *params, ig_error *err)
{
    const json_t *o = json_object_get(k->train, "optimizer");
    const json_t *betas = json_object_get(o, "betas");
    ig_optimizer_opts opts = ig_optimizer_defaults(IG_RULE_ADAMW);
    opts.lr = number(o, "lr");
    opts.beta1 = json_number_value(json_array_get(betas, 0));
    opts.beta2 = json_number_value(json_array_get(betas, 1));
    opts.eps = number(o, "eps");
    opts.weight_decay = number(o, "weight_decay");
    opts.clip_norm = number(o, "clip_grad_norm");
    ig_status status = ig_optimizer_create(opt_out, ctx, &opts, err);
    for (int64_t i = 0; status == IG_OK && i < ig_params_count(params); i++) {
        ig_tensor *x = ig_params_tensor(params, i);
        const char *name = ig_params_name(params, i);
        const ig_param_group group = {.no_weight_decay = ig_tensor_n_dims(x) < 2};
        status = ig_optimizer_add(*opt_out, &x, &name, 1, &group, err);
    }
    return status;
}

static void compare_curve(verdicts *v, const task *k, const char *key, const double *mine)
{
    const json_t *wanted = json_object_get(k->train, key);
    double most = 0;
    for (int64_t i = 0; i < k->n_steps; i++) {
        const double d =
            fabs(mine[i] - json_number_value(json_array_get(wanted, (size_t)i)));
        most = isnan(most) || d <= most ? most : d;
    }
    if (v)
        report(v, key, most, BOUND_CURVE);
}

/* One step; its loss. The first is compared. */
static double step(verdicts *v, trace *seen, const task *k, ig_module *m, ig_optimizer *opt,
                   int64_t i)
{
    ig_params *params = ig_module_params(m);
    ig_context *ctx = ig_tensor_context(ig_params_tensor(params, 0));
    ig_scope *scope = ig_scope_begin(ctx);
    ig_optimizer_clear_grads(opt);
    ig_tensor *logits = ig_module_logits(m, batch(k, ctx, i, 0));
    ig_tensor *targets = ig_reshape(batch(k, ctx, i, 1), IG_SHAPE(-1));
    ig_tensor *loss = ig_cross_entropy(
        ig_reshape(logits, IG_SHAPE(k->n_batch * k->n_tokens, ig_tensor_dim(logits, -1))),
        targets, NULL);
    ig_backward(loss);
    if (i == 0) {
        ig_tensor_file *file = open_file(k, ctx, "step0_logits");
        ig_tensor *wanted = file ? ig_tensor_file_read(file, "logits", NULL) : NULL;
        if (v)
            report(v, "logits", difference(logits, wanted, true), BOUND_STEP0);
        ig_tensor_file_close(file);
        keep_tensor(seen, logits);
        compare_all(v, seen, k, params, "step0_gradients", true);
    }
    ig_optimizer_step(opt);
    const double value = ig_tensor_item(loss);
    ig_scope_end(scope);
    return value;
}

/* All steps with n threads; v NULL: only kept, not compared. */
static ig_status train(verdicts *v, trace *seen, const task *k, int n_threads,
                       ig_error *err)
{
    ig_context *ctx;
    ig_module *m = NULL;
    ig_optimizer *opt = NULL;
    double losses[MAX_STEPS], norms[MAX_STEPS];
    ig_status status =
        ig_context_create(&ctx, &(ig_context_opts){.n_threads = n_threads}, err);
    if (status != IG_OK)
        return status;
    status = ig_module_open(&m, ctx, k->folder, err);
    if (status == IG_OK)
        status = make_optimizer(&opt, ctx, k, ig_module_params(m), err);
    for (int64_t i = 0; status == IG_OK && i < k->n_steps; i++) {
        losses[i] = step(v, seen, k, m, opt, i);
        norms[i] = ig_optimizer_get_stats(opt).grad_norm;
        const float both[2] = {(float)losses[i], (float)norms[i]};
        keep(seen, both, 2);
    }
    if (status == IG_OK && ig_context_status(ctx)) {
        status = ig_context_status(ctx);
        snprintf(err->message, sizeof err->message, "%s", ig_context_message(ctx));
    }
    if (status == IG_OK) {
        compare_curve(v, k, "losses", losses);
        compare_curve(v, k, "grad_norms", norms);
        compare_all(v, seen, k, ig_module_params(m), "after_20_steps", false);
    }
    ig_optimizer_destroy(opt);
    ig_module_destroy(m);
    ig_context_destroy(ctx);
    return status;
}

int main(int argc, char **argv)
{
    task k;
    ig_error err;
    verdicts v = {0};
    trace seen[2] = {{0}};
    const char *folder = argc > 1 ? argv[1] : IG_SHARED_DATA "/golden/gpt2-tiny";
    const char *text = argc > 2 ? argv[2] : IG_SHARED_DATA "/data/tinyshakespeare.txt";
    if (!task_open(&k, folder, text)) {
        printf("skipped: no %s/train.json or no %s\n", folder, text);
        task_close(&k);
        return 77;
    }
    for (int i = 0; i < 2; i++)
        if (train(i == 0 ? &v : NULL, &seen[i], &k, i + 1, &err) != IG_OK) {
            printf("FAILED %d threads: %s\n", i + 1, err.message);
            v.n_failed++;
        }
    const bool same = seen[0].n == seen[1].n && seen[0].n > 0 &&
                      !memcmp(seen[0].at, seen[1].at, seen[0].n * sizeof(float));
    report(&v, "one thread and two, to the bit", same ? 0 : 2, 1);
    printf("worst error %.3f of its bound\n", v.worst);
    printf("%d passed, %d failed\n", v.n_passed, v.n_failed);
    for (int i = 0; i < 2; i++)
        free(seen[i].at);
    task_close(&k);
    return v.n_failed != 0;
}
