/* Hold-back and stop strings.
 *
 * Each stop string is an automaton of Knuth, Morris and Pratt ("Fast pattern matching in
 * strings", 1977): its state is the length of its longest prefix that ends what was read.
 * The longest state of all is how much must be held back, and a byte costs O(1) a stop
 * string, whatever the text.
 */
#include "infer/answer.h"

#include "base/error.h"

#include <string.h>

static void make_back(int32_t *back, const char *text, int32_t n)
{
    back[0] = 0;
    for (int32_t i = 1, m = 0; i < n; i++) {
        while (m > 0 && text[i] != text[m])
            m = back[m - 1];
        m += text[i] == text[m];
        back[i] = m;
    }
}

static void stop_read(ig__stop *s, char c)
{
    while (s->matched > 0 && s->text[s->matched] != c)
        s->matched = s->back[s->matched - 1];
    s->matched += s->text[s->matched] == c;
}

static ig_status check_stops(size_t *n_bytes_out, const char *const *stop, int64_t n_stop,
                             ig_error *err)
{
    *n_bytes_out = 0;
    if (n_stop < 0 || (n_stop > 0 && !stop))
        return ig__fail(err, IG_ERR_ARGUMENT, "generate: n_stop is %lld, with %s",
                        (long long)n_stop, stop ? "a list" : "no list");
    for (int64_t i = 0; i < n_stop; i++) {
        const size_t n = stop[i] ? strlen(stop[i]) : 0;
        if (n == 0)
            return ig__fail(err, IG_ERR_ARGUMENT, "generate: stop string %lld is empty",
                            (long long)i);
        if (n > INT32_MAX)
            return ig__fail(err, IG_ERR_LIMIT,
                            "generate: stop string %lld has %zu bytes, the limit is %d",
                            (long long)i, n, (int)INT32_MAX);
        if (!ig__is_utf8(stop[i], n))
            return ig__fail(err, IG_ERR_ARGUMENT, "generate: stop string %lld is not UTF-8",
                            (long long)i);
        if (!ig__add(n_bytes_out, *n_bytes_out, n))
            return ig__fail_memory(err, "generate", SIZE_MAX);
    }
    return IG_OK;
}

bool ig__is_utf8(const char *text, size_t n)
{
    ig_utf8_stream stream = {0}; /* gives valid text back as it is, and holds nothing */
    for (size_t i = 0; i < n; i++) {
        char out[4 * (1 + 3)]; /* the stream's bound for one byte */
        const size_t n_out = ig_utf8_stream_push(&stream, text + i, 1, out);
        if (n_out > i + 1 || memcmp(out, text + i + 1 - n_out, n_out) != 0)
            return false;
    }
    return stream.n_held == 0;
}

ig_status ig__answer_init(ig__answer *answer, const ig_allocator *a,
                          const char *const *stop, int64_t n_stop, ig_error *err)
{
    *answer = (ig__answer){.a = a, .text = ig__buffer_init(a)};
    size_t n_bytes, stop_bytes, back_bytes;
    IG_TRY(check_stops(&n_bytes, stop, n_stop, err));
    if (n_stop == 0)
        return IG_OK;
    if (!ig__mul(&stop_bytes, (size_t)n_stop, sizeof *answer->stops) ||
        !ig__mul(&back_bytes, n_bytes, sizeof *answer->backs))
        return ig__fail_memory(err, "generate", SIZE_MAX);
    answer->stops = ig__alloc(a, stop_bytes);
    answer->backs = ig__alloc(a, back_bytes);
    if (!answer->stops || !answer->backs) {
        ig__answer_fini(answer);
        return ig__fail_memory(err, "generate", stop_bytes + back_bytes);
    }
    int32_t *back = answer->backs;
    for (int64_t i = 0; i < n_stop; i++) {
        const int32_t n = (int32_t)strlen(stop[i]);
        answer->stops[i] = (ig__stop){.text = stop[i], .back = back, .n = n};
        make_back(back, stop[i], n);
        back += n;
    }
    answer->n_stops = n_stop;
    return IG_OK;
}

void ig__answer_fini(ig__answer *answer)
{
    ig__free(answer->a, answer->stops);
    ig__free(answer->a, answer->backs);
    ig__buffer_fini(&answer->text);
    *answer = (ig__answer){.a = answer->a, .text = ig__buffer_init(answer->a)};
}

/* Forget the text that was final; what was held moves to the front. */
static void drop_final(ig__answer *answer)
{
    ig__buffer *text = &answer->text;
    if (answer->n_final > 0) {
        text->n -= answer->n_final;
        memmove(text->data, text->data + answer->n_final, text->n);
        answer->n_final = 0;
    }
}

/* Run the stop strings over text[begin..n): sets stopped, and text.n to the stop's start.
 */
static void read_stops(ig__answer *answer, size_t begin)
{
    ig__buffer *text = &answer->text;
    for (size_t i = begin; i < text->n; i++) {
        int32_t longest = 0;
        for (int64_t s = 0; s < answer->n_stops; s++) {
            ig__stop *stop = &answer->stops[s];
            stop_read(stop, text->data[i]);
            if (stop->matched == stop->n && stop->n > longest)
                longest = stop->n;
        }
        if (longest > 0) {
            answer->stopped = true;
            text->n = i + 1 - (size_t)longest;
            return;
        }
    }
}

/* Bytes at the end that may still become a stop string. */
static size_t held_bytes(const ig__answer *answer)
{
    int32_t held = 0;
    for (int64_t s = 0; s < answer->n_stops; s++)
        if (answer->stops[s].matched > held)
            held = answer->stops[s].matched;
    return (size_t)held;
}

/* Take bytes (NULL: the end) through the stream and the stop strings. */
static ig_status take(ig__answer *answer, const char *bytes, size_t n, ig_error *err)
{
    drop_final(answer);
    if (answer->stopped)
        return IG_OK;
    ig__buffer *text = &answer->text;
    size_t room;
    if (!ig__mul(&room, n, 4) || !ig__add(&room, room, 12) ||
        !ig__buffer_reserve(text, room)) {
        text->failed = false; /* a later, smaller push may succeed */
        return ig__fail_memory(err, "generate", n);
    }
    const size_t begin = text->n;
    text->n += ig_utf8_stream_push(&answer->stream, bytes, n, text->data + begin);
    text->data[text->n] = 0;
    read_stops(answer, begin);
    return IG_OK;
}

ig_status ig__answer_push(ig__answer *answer, const char *bytes, size_t n, ig_error *err)
{
    if (!bytes) /* NULL means the end to the stream */
        bytes = "";
    IG_TRY(take(answer, bytes, n, err));
    answer->n_final = answer->text.n;
    if (!answer->stopped)
        answer->n_final -= held_bytes(answer);
    return IG_OK;
}

ig_status ig__answer_flush(ig__answer *answer, ig_error *err)
{
    IG_TRY(take(answer, NULL, 0, err));
    answer->n_final = answer->text.n;
    return IG_OK;
}
