/* Tensors as text: nested brackets, as many digits as tell the values apart, long dimensions cut.
 *
 *   [2,3] f32
 *   [[0.5 1 1.5]
 *    [2 2.5 3]]
 */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum {
    EDGE = 3,
    LONG = 8
}; /* of more than LONG elements the first and last EDGE are shown */

typedef struct text {
    char *at;
    size_t cap, n; /* n: of the whole text, cut or not */
} text;

static void put(text *t, const char *s)
{
    const size_t n = strlen(s);
    if (t->n + 1 < t->cap) {
        const size_t room = t->cap - t->n - 1, part = n < room ? n : room;
        memcpy(t->at + t->n, s, part);
        t->at[t->n + part] = 0;
    }
    t->n += n;
}

static void put_element(text *t, const ig_tensor *x, const char *p)
{
    char word[40];
    const ig_dtype dtype = x->type.dtype;
    if (ig__is_float(dtype)) {
        double v;
        ig__load(&v, IG_COMPUTE_F64, p, dtype, 1, 1);
        snprintf(word, sizeof word, "%.*g", dtype == IG_DTYPE_F64 ? 8 : 5, v);
    } else {
        int64_t v;
        ig__load(&v, IG_COMPUTE_I64, p, dtype, 1, 1);
        if (dtype == IG_DTYPE_BOOL)
            snprintf(word, sizeof word, v ? "true" : "false");
        else
            snprintf(word, sizeof word, "%lld", (long long)v);
    }
    put(t, word);
}

static void put_dim(text *t, const ig_tensor *x, int d, const char *p)
{
    if (d == x->type.n_dims) {
        put_element(t, x, p);
        return;
    }
    const int64_t n = x->type.dims[d].plus;
    const int64_t step = x->strides[d] * (int64_t)ig_dtype_block_bytes(x->type.dtype);
    const bool is_last = d + 1 == x->type.n_dims;
    put(t, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i && is_last)
            put(t, " ");
        if (i && !is_last) {
            put(t, "\n");
            for (int k = 0; k <= d; k++)
                put(t, " ");
        }
        if (n > LONG && i == EDGE) {
            put(t, "...");
            i = n - EDGE - 1;
            continue;
        }
        put_dim(t, x, d + 1, p + i * step);
    }
    put(t, "]");
}

size_t ig_tensor_text(const ig_tensor *x, char *out, size_t cap)
{
    text t = {.at = out, .cap = cap};
    char type[IG_TYPE_TEXT];
    if (cap)
        out[0] = 0;
    if (!x) {
        put(&t, "(no tensor)");
        return t.n;
    }
    /* "[2,3] f32" */
    put(&t, ig__type_text(&x->type, type, sizeof type));
    put(&t, "\n");
    put_dim(&t, x, 0, x->data);
    return t.n;
}
