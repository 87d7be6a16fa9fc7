/* Reading weights: in pieces of whole groups of rows, by all threads, straight into the packed layout.
 *
 * A piece is read into the thread's own buffer of about PIECE_BYTES (it stays in the cache), and packed
 * from there. There is never a second copy of the model in memory.
 */
#include "nn/nn.h"

#include "base/error.h"

#include <string.h>

enum { PIECE_BYTES = 256 * 1024 };

/* A parameter's pieces are [first, first + n). */
typedef struct piece_range {
    const ig__param *param;
    const ig__gguf_tensor *tensor;
    int64_t rows, k, groups_a_piece, first, n;
    size_t row_bytes, packed_bytes;
} piece_range;

typedef struct loading {
    const ig__gguf *file;
    piece_range *ranges;
    int32_t n_ranges;
    char *buffers; /* [n_threads][buffer_bytes] */
    size_t buffer_bytes;
    ig__share share;
    ig_status *status; /* [n_threads] */
    ig_error *errors;  /* [n_threads] */
} loading;

static void convert_vector(float *to, const ig__gguf_tensor *t, const void *from)
{
    const uint16_t *half = from;
    for (int64_t i = 0; i < t->dims[0]; i++) {
        if (t->dtype == IG_DTYPE_F32)
            memcpy(to + i, (const char *)from + i * 4, 4);
        else
            to[i] = t->dtype == IG_DTYPE_F16 ? ig__f16_to_f32(half[i])
                                             : ig__bf16_to_f32(half[i]);
    }
}

static ig_status load_vector(const loading *l, const piece_range *r, char *buffer,
                             ig_error *err)
{
    IG_TRY(
        ig__gguf_read(l->file, r->tensor->offset, buffer, (size_t)r->tensor->bytes, err));
    convert_vector(r->param->data, r->tensor, buffer);
    return IG_OK;
}

static ig_status load_piece(const loading *l, const piece_range *r, int64_t piece,
                            char *buffer, ig_error *err)
{
    if (r->tensor->n_dims == 1)
        return load_vector(l, r, buffer, err);
    const size_t group_bytes = ig__packed_group_bytes(r->tensor->dtype, r->k);
    const int64_t first = piece * r->groups_a_piece * IG_GROUP;
    int64_t end = first + r->groups_a_piece * IG_GROUP;
    if (end > r->rows)
        end = r->rows;
    IG_TRY(ig__gguf_read(l->file, r->tensor->offset + (uint64_t)first * r->row_bytes,
                         buffer, (size_t)(end - first) * r->row_bytes, err));
    for (int64_t row = first; row < end; row += IG_GROUP) {
        const int64_t n = end - row < IG_GROUP ? end - row : IG_GROUP;
        ig__pack_group((char *)r->param->data + (size_t)(row / IG_GROUP) * group_bytes,
                       r->tensor->dtype, buffer + (size_t)(row - first) * r->row_bytes,
                       r->row_bytes, n, r->k);
    }
    return IG_OK;
}

static const piece_range *range_of(const loading *l, int64_t piece)
{
    int32_t low = 0, high = l->n_ranges - 1;
    while (low < high) {
        const int32_t middle = (low + high + 1) / 2;
        if (l->ranges[middle].first <= piece)
            low = middle;
        else
            high = middle - 1;
    }
    return &l->ranges[low];
}

static void load_job(void *arg, int i_thread, int n_threads)
{
    loading *l = arg;
    char *buffer = l->buffers + (size_t)i_thread * l->buffer_bytes;
    int cursor = i_thread;
    for (int64_t i; (i = ig__share_next(&l->share, &cursor, i_thread, n_threads)) >= 0;) {
        const piece_range *r = range_of(l, i);
        l->status[i_thread] = load_piece(l, r, i - r->first, buffer, &l->errors[i_thread]);
        if (l->status[i_thread] != IG_OK)
            return;
    }
}

static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Cut every parameter into pieces; returns their number, and the packed size of all. */
static int64_t cut(loading *l, const ig__graph *g, size_t *total_out)
{
    int64_t n = 0;
    *total_out = 0;
    for (int32_t i = 0; i < g->n_params; i++) {
        piece_range *r = &l->ranges[i];
        *r = (piece_range){.param = &g->params[i], .first = n, .n = 1};
        r->tensor = ig__gguf_find_tensor(l->file, g->params[i].name);
        r->k = r->tensor->dims[0];
        r->rows = r->tensor->n_dims == 1 ? 1 : r->tensor->dims[1];
        r->row_bytes = (size_t)(r->tensor->bytes / (uint64_t)r->rows);
        size_t piece_bytes = (size_t)r->tensor->bytes;
        r->packed_bytes = (size_t)r->k * 4;
        if (r->tensor->n_dims > 1) {
            const int64_t n_groups = (r->rows + IG_GROUP - 1) / IG_GROUP;
            r->groups_a_piece = PIECE_BYTES / (int64_t)(r->row_bytes * IG_GROUP);
            if (r->groups_a_piece < 1)
                r->groups_a_piece = 1;
            r->n = (n_groups + r->groups_a_piece - 1) / r->groups_a_piece;
            piece_bytes = (size_t)r->groups_a_piece * IG_GROUP * r->row_bytes;
            r->packed_bytes =
                (size_t)n_groups * ig__packed_group_bytes(r->tensor->dtype, r->k);
        }
        n += r->n;
        *total_out += lines(r->packed_bytes);
        if (piece_bytes > l->buffer_bytes)
            l->buffer_bytes = lines(piece_bytes);
    }
    return n;
}

static ig_status load_all(loading *l, ig__graph *g, char *block, int64_t n_pieces,
                          ig_context *ctx, ig_error *err)
{
    const int n_threads = ig__team_size(ctx->team);
    size_t at = 0;
    for (int32_t i = 0; i < g->n_params; i++) {
        g->params[i].data = block + at;
        at += lines(l->ranges[i].packed_bytes);
    }
    ig__share_reset(&l->share, n_pieces, n_threads);
    ig__team_run(ctx->team, load_job, l);
    for (int i = 0; i < n_threads; i++) {
        if (l->status[i] == IG_OK)
            continue;
        if (err)
            *err = l->errors[i];
        return l->status[i];
    }
    return IG_OK;
}

ig_status ig__weights_load(void **block_out, size_t *bytes_out, ig__graph *g,
                           const ig__gguf *file, ig_context *ctx, ig_error *err)
{
    const ig_allocator *a = &ctx->allocator;
    const size_t n_threads = (size_t)ig__team_size(ctx->team);
    ig_status status = IG_ERR_MEMORY;
    char *block = NULL;
    size_t total = 0;
    *block_out = NULL;
    loading *l = ig__alloc_zero(a, sizeof *l);
    if (!l)
        return ig__fail_memory(err, "weights", sizeof *l);
    l->file = file;
    l->n_ranges = g->n_params;
    l->ranges = ig__alloc_zero(a, (size_t)(g->n_params + 1) * sizeof *l->ranges);
    l->status = ig__alloc_zero(a, n_threads * sizeof *l->status);
    l->errors = ig__alloc_zero(a, n_threads * sizeof *l->errors);
    if (l->ranges && l->status && l->errors) {
        const int64_t n_pieces = cut(l, g, &total);
        l->buffers = ig__alloc(a, n_threads * l->buffer_bytes);
        block = ig__alloc_huge(a, total);
        if (l->buffers && block)
            status = load_all(l, g, block, n_pieces, ctx, err);
    }
    if (status == IG_ERR_MEMORY)
        ig__fail_memory(err, "weights", total);
    ig__free(a, l->buffers);
    ig__free(a, l->ranges);
    ig__free(a, l->status);
    ig__free(a, l->errors);
    ig__free(a, l);
    if (status != IG_OK) {
        ig__free(a, block);
        return status;
    }
    *block_out = block;
    *bytes_out = total;
    return IG_OK;
}
