/* ingot info: what stands in a model file, without reading its weights. */
#include "verbs.h"

#include "session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct info_opts {
    bool tensors, json;
} info_opts;

#define AT(field) offsetof(info_opts, field)
static const args_option options[] = {
    {"--tensors", 0, ARGS_FLAG, AT(tensors), NULL, "the tensors too, one a line", 0, 0, ""},
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object: file, n_tensors, metadata, ...",
     0, 0, ""},
};

enum { SHOWN = 200 }; /* bytes of a value in the table */

typedef struct totals {
    int64_t parameters;
    uint64_t bytes;
} totals;

static int64_t tensor_elements(const ig_file_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

static totals sum(const ig_file *file)
{
    totals all = {0};
    for (int64_t i = 0; i < ig_file_n_tensors(file); i++) {
        const ig_file_tensor t = ig_file_get_tensor(file, i);
        all.parameters += tensor_elements(&t);
        all.bytes += t.bytes;
    }
    return all;
}

static char *value_text(const ig_file *file, int64_t i, size_t *n_out)
{
    char none[1];
    *n_out = ig_file_value_text(file, i, none, 0);
    char *text = malloc(*n_out + 1);
    if (text)
        ig_file_value_text(file, i, text, *n_out + 1);
    return text;
}

static void print_tensor(report *out, const ig_file_tensor *t)
{
    char dims[96] = "", name[256];
    size_t n = 0;
    for (int i = 0; i < t->n_dims; i++)
        n += (size_t)snprintf(dims + n, sizeof dims - n, i ? " x %" PRId64 : "%" PRId64,
                              t->dims[i]);
    report_print(out, "%-6s %-22s %12" PRIu64 " at %-12" PRIu64 " %s\n", t->dtype, dims,
                 t->bytes, t->offset, report_clean(name, sizeof name, t->name));
}

/* The library has escaped what could steer a terminal in the value, not in the key. */
static void print_value(report *out, const char *key, const char *text)
{
    char name[256];
    const size_t n = strlen(text);
    report_print(out, "%-40s %.*s%s\n", report_clean(name, sizeof name, key), SHOWN, text,
                 n > SHOWN ? " ..." : "");
}

static int tell_table(report *out, const ig_file *file, const char *path, bool tensors)
{
    const totals all = sum(file);
    report_print(out, "%-40s %s\n", "file", path);
    report_print(out, "%-40s %" PRId64 ", %.1f M parameters, %.1f MB\n", "tensors",
                 ig_file_n_tensors(file), (double)all.parameters / 1e6,
                 (double)all.bytes / 1e6);
    for (int64_t i = 0; i < ig_file_n_keys(file); i++) {
        size_t n;
        char *text = value_text(file, i, &n);
        if (!text)
            return report_fail("info: out of memory");
        print_value(out, ig_file_key(file, i), text);
        free(text);
    }
    for (int64_t i = 0; tensors && i < ig_file_n_tensors(file); i++) {
        const ig_file_tensor t = ig_file_get_tensor(file, i);
        print_tensor(out, &t);
    }
    return EXIT_OK;
}

static json_t *tensor_json(const ig_file_tensor *t)
{
    json_t *dims = json_array();
    for (int i = 0; i < t->n_dims; i++)
        json_array_append_new(dims, json_integer(t->dims[i]));
    return json_pack("{s:o, s:o, s:o, s:I, s:I}", "name",
                     report_json_text(t->name, strlen(t->name)), "dtype",
                     report_json_text(t->dtype, strlen(t->dtype)), "dims", dims, "offset",
                     (json_int_t)t->offset, "bytes", (json_int_t)t->bytes);
}

/* A value's text is JSON where it is one number, word or string; else (arrays, bytes that
 * are not UTF-8) it stays text. */
static json_t *value_json(const char *text, size_t n)
{
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return value ? value : report_json_text(text, n);
}

/* Keys are the file's own: one that is not UTF-8 is left out. */
static json_t *metadata_json(const ig_file *file)
{
    json_t *object = json_object();
    for (int64_t i = 0; object && i < ig_file_n_keys(file); i++) {
        size_t n;
        char *text = value_text(file, i, &n);
        json_t *value = text ? value_json(text, n) : NULL;
        free(text);
        if (!value) {
            json_decref(object);
            return NULL;
        }
        json_object_set_new(object, ig_file_key(file, i), value);
    }
    return object;
}

static int tell_json(report *out, const ig_file *file, const char *path, bool tensors)
{
    const totals all = sum(file);
    json_t *list = tensors ? json_array() : NULL;
    for (int64_t i = 0; tensors && i < ig_file_n_tensors(file); i++) {
        const ig_file_tensor t = ig_file_get_tensor(file, i);
        if (json_array_append_new(list, tensor_json(&t))) {
            json_decref(list);
            return report_json(out, NULL);
        }
    }
    return report_json(out, json_pack("{s:o, s:I, s:I, s:I, s:o, s:o*}", "file",
                                      report_json_text(path, strlen(path)), "n_tensors",
                                      (json_int_t)ig_file_n_tensors(file), "n_parameters",
                                      (json_int_t)all.parameters, "tensor_bytes",
                                      (json_int_t)all.bytes, "metadata",
                                      metadata_json(file), "tensors", list));
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    (void)n_operands;
    const info_opts *o = opts;
    ig_error err;
    ig_context *ctx = NULL;
    ig_file *file = NULL;
    int code = session_context(&ctx, "info", 1, NULL);
    if (code == EXIT_OK && ig_file_open(&file, ctx, operands[0], &err) != IG_OK)
        code = report_error("info", &err);
    if (code == EXIT_OK)
        code = o->json ? tell_json(out, file, operands[0], o->tensors)
                       : tell_table(out, file, operands[0], o->tensors);
    ig_file_close(file);
    ig_context_destroy(ctx);
    return code;
}

const args_verb verb_info = {"info",
                             "MODEL",

                             "Show what stands in a model file: metadata and tensors.",
                             1,
                             1,
                             options,
                             sizeof options / sizeof *options,
                             sizeof(info_opts),
                             NULL,
                             run};
