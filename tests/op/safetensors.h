/* A set of golden cases: PREFIX.json beside PREFIX.safetensors, read for tests. */
#ifndef INGOT_TESTS_OP_SAFETENSORS_H
#define INGOT_TESTS_OP_SAFETENSORS_H

#include "ingot/tensor.h"

#include <jansson.h>

typedef struct golden {
    json_t *cases;  /* the JSON file */
    json_t *header; /* of the tensors' file */
    char *bytes;    /* the file; data starts at `data` */
    const char *data;
    size_t n_data;
} golden;

/* False: a file is missing or malformed, said in `why` (cap bytes). */
static inline bool golden_open(golden *g, const char *prefix, char *why, size_t cap);
static inline void golden_close(golden *g);
/* The tensor of that name (a JSON string) in the context's scope; NULL: there is none. */
static inline ig_tensor *golden_tensor(const golden *g, ig_context *ctx, const char *name);

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline char *golden_read(const char *prefix, const char *suffix, size_t *n_out)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", prefix, suffix);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    const long n = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)n + 1);
    *n_out = bytes ? fread(bytes, 1, (size_t)n, f) : 0;
    fclose(f);
    return bytes;
}

static inline bool golden_open(golden *g, const char *prefix, char *why, size_t cap)
{
    json_error_t error;
    size_t n_json = 0, n_bytes = 0;
    memset(g, 0, sizeof *g);
    char *text = golden_read(prefix, ".json", &n_json);
    g->bytes = golden_read(prefix, ".safetensors", &n_bytes);
    if (!text || !g->bytes || n_bytes < 8) {
        snprintf(why, cap, "no %s.json or .safetensors", prefix);
        free(text);
        golden_close(g);
        return false;
    }
    uint64_t header;
    memcpy(&header, g->bytes, 8);
    g->cases = json_loadb(text, n_json, 0, &error);
    free(text);
    if (header <= n_bytes - 8)
        g->header = json_loadb(g->bytes + 8, header, 0, &error);
    if (!g->cases || !g->header) {
        snprintf(why, cap, "%s: %s", prefix, error.text);
        golden_close(g);
        return false;
    }
    g->data = g->bytes + 8 + header;
    g->n_data = n_bytes - 8 - header;
    return true;
}

static inline void golden_close(golden *g)
{
    json_decref(g->cases);
    json_decref(g->header);
    free(g->bytes);
    memset(g, 0, sizeof *g);
}

static inline ig_dtype golden_dtype(const char *name)
{
    static const struct {
        const char *name;
        ig_dtype dtype;
    } names[] = {{"F32", IG_DTYPE_F32}, {"F64", IG_DTYPE_F64},   {"F16", IG_DTYPE_F16},
                 {"I64", IG_DTYPE_I64}, {"BF16", IG_DTYPE_BF16}, {"I32", IG_DTYPE_I32},
                 {"I8", IG_DTYPE_I8},   {"U8", IG_DTYPE_U8},     {"BOOL", IG_DTYPE_BOOL}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i].name, name))
            return names[i].dtype;
    return IG_DTYPE_COUNT;
}

static inline ig_tensor *golden_tensor(const golden *g, ig_context *ctx, const char *name)
{
    json_t *entry = name ? json_object_get(g->header, name) : NULL;
    if (!entry)
        return NULL;
    json_t *shape = json_object_get(entry, "shape");
    json_t *offsets = json_object_get(entry, "data_offsets");
    int64_t dims[8];
    int n = 0;
    for (; n < (int)json_array_size(shape) && n < 8; n++)
        dims[n] = json_integer_value(json_array_get(shape, (size_t)n));
    const size_t at = (size_t)json_integer_value(json_array_get(offsets, 0));
    return ig_tensor_from(ctx,
                          golden_dtype(json_string_value(json_object_get(entry, "dtype"))),
                          n, dims, g->data + at);
}

#endif
