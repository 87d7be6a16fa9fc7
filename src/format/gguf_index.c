/* Order among keys and tensors: look-up by name, names that stand twice, overlaps and holes.
 *
 * Look-up is a binary search in a sorted index, not a hash table: no choice of names makes
 * it slow. The sort is a heap sort, for the same reason and because it needs no memory.
 *
 * A name stands in meta 8 bytes before its place in the file, where its length field was:
 * its distance from meta is the file offset of its entry.
 */
#include "format/gguf_int.h"

#include <string.h>

typedef int compare(const ig__gguf *gguf, uint32_t i, uint32_t j); /* < 0: i before j */

static void sift_down(uint32_t *order, int64_t i, int64_t n, compare *before,
                      const ig__gguf *gguf)
{
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && before(gguf, order[child], order[child + 1]) < 0)
            child++;
        if (before(gguf, order[i], order[child]) >= 0)
            return;
        const uint32_t moved = order[i];
        order[i] = order[child];
        order[child] = moved;
        i = child;
    }
}

/* Sort the indices 0 .. n - 1 into `order` [n]. */
static void sort(uint32_t *order, int64_t n, compare *before, const ig__gguf *gguf)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (int64_t i = n / 2; i-- > 0;)
        sift_down(order, i, n, before, gguf);
    for (int64_t i = n; i-- > 1;) {
        const uint32_t largest = order[0];
        order[0] = order[i];
        order[i] = largest;
        sift_down(order, 0, i, before, gguf);
    }
}

static int compare_keys(const ig__gguf *gguf, uint32_t i, uint32_t j)
{
    return strcmp(gguf->keys[i].name, gguf->keys[j].name);
}

static int compare_names(const ig__gguf *gguf, uint32_t i, uint32_t j)
{
    return strcmp(gguf->tensors[i].name, gguf->tensors[j].name);
}

static int compare_places(const ig__gguf *gguf, uint32_t i, uint32_t j)
{
    const ig__gguf_tensor *a = &gguf->tensors[i], *b = &gguf->tensors[j];
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static ig_status fail_twice(const ig__gguf *gguf, ig_error *err, const char *kind,
                            const char *a, const char *b)
{
    const char *first = a < b ? a : b, *second = a < b ? b : a;
    return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, (uint64_t)(second - gguf->meta),
                         "%s name '%.64s' stands twice, first at byte %" PRIu64, kind,
                         second, (uint64_t)(first - gguf->meta));
}

/* No byte belongs to two tensors, and none but padding to no tensor: a type or dimension that
 * someone has changed to a smaller one shows here. One of unknown size may touch no other. */
static ig_status check_places(const ig__gguf *gguf, ig_error *err)
{
    const uint64_t start = gguf->data_offset;
    if (gguf->n_tensors > 0) {
        const ig__gguf_tensor *first = &gguf->tensors[gguf->tensor_order[0]];
        if (first->offset != start)
            return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, first->entry,
                                 "tensor '%.64s': offset is %" PRIu64
                                 ", the first of the data is wanted at 0",
                                 first->name, first->offset - start);
    }
    for (int64_t i = 1; i < gguf->n_tensors; i++) {
        const ig__gguf_tensor *a = &gguf->tensors[gguf->tensor_order[i - 1]];
        const ig__gguf_tensor *b = &gguf->tensors[gguf->tensor_order[i]];
        if (b->offset < a->offset + a->bytes || b->offset == a->offset)
            return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, b->offset,
                                 "tensor '%.64s' begins here, inside tensor '%.64s' of "
                                 "bytes %" PRIu64 " to %" PRIu64,
                                 b->name, a->name, a->offset, a->offset + a->bytes);
        const uint64_t end = a->offset + a->bytes;
        if (a->bytes && b->offset - end >= gguf->alignment)
            return ig__gguf_fail(gguf, err, IG_ERR_FORMAT, a->entry,
                                 "tensor '%.64s': %" PRIu64 " bytes up to offset %" PRIu64
                                 ", but the next tensor, '%.64s', begins at %" PRIu64,
                                 a->name, a->bytes, end - start, b->name,
                                 b->offset - start);
    }
    return IG_OK;
}

ig_status ig__gguf_index(ig__gguf *gguf, ig_error *err)
{
    sort(gguf->key_order, gguf->n_keys, compare_keys, gguf);
    for (int64_t i = 1; i < gguf->n_keys; i++) {
        const char *a = gguf->keys[gguf->key_order[i - 1]].name;
        const char *b = gguf->keys[gguf->key_order[i]].name;
        if (strcmp(a, b) == 0)
            return fail_twice(gguf, err, "key", a, b);
    }
    sort(gguf->tensor_order, gguf->n_tensors, compare_places, gguf);
    IG_TRY(check_places(gguf, err));
    sort(gguf->tensor_order, gguf->n_tensors, compare_names, gguf);
    for (int64_t i = 1; i < gguf->n_tensors; i++) {
        const char *a = gguf->tensors[gguf->tensor_order[i - 1]].name;
        const char *b = gguf->tensors[gguf->tensor_order[i]].name;
        if (strcmp(a, b) == 0)
            return fail_twice(gguf, err, "tensor", a, b);
    }
    return IG_OK;
}

const ig__gguf_entry *ig__gguf_find_key(const ig__gguf *gguf, const char *name)
{
    for (int64_t low = 0, high = gguf->n_keys; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const ig__gguf_entry *key = &gguf->keys[gguf->key_order[middle]];
        const int order = strcmp(name, key->name);
        if (order == 0)
            return key;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const ig__gguf_tensor *ig__gguf_find_tensor(const ig__gguf *gguf, const char *name)
{
    for (int64_t low = 0, high = gguf->n_tensors; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const ig__gguf_tensor *t = &gguf->tensors[gguf->tensor_order[middle]];
        const int order = strcmp(name, t->name);
        if (order == 0)
            return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
