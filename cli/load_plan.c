/* Requests by counted random numbers: a number is a function of seed, use, request and place
 * alone (splitmix64's finish over their sum). */
#include "load_plan.h"

#include "args.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum draw_use {
    DRAW_GAP,
    DRAW_INPUT,
    DRAW_OUTPUT,
    DRAW_SHARED,
    DRAW_WORDS
} draw_use;

/* With a space before it, each is one token of GPT-2's, Llama's, Qwen's and SmolLM's. */
static const char *const words[] = {
    "time", "people", "water", "house",  "world",  "school", "family", "music",
    "book", "light",  "river", "story",  "number", "market", "friend", "summer",
    "road", "green",  "small", "strong", "early",  "simple", "common", "local",
    "find", "build",  "write", "carry",  "watch",  "answer", "travel", "follow"};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t draw(const load_plan *p, draw_use use, int64_t i, int64_t place)
{
    return mix(mix(mix(mix(p->seed) + (uint64_t)use) + (uint64_t)i) + (uint64_t)place);
}

bool load_length_read(load_length *length, const char *text)
{
    const char *dash = strchr(text, '-');
    const size_t n = dash ? (size_t)(dash - text) : strlen(text);
    if (!args_read_int(&length->least, text, n))
        return false;
    length->most = length->least;
    if (dash && !args_read_int(&length->most, dash + 1, strlen(dash + 1)))
        return false;
    return length->least >= 1 && length->least <= length->most &&
           length->most <= LOAD_LONGEST;
}

static int64_t draw_length(const load_plan *p, draw_use use, load_length l, int64_t i)
{
    return l.least + (int64_t)(draw(p, use, i, 0) % (uint64_t)(l.most - l.least + 1));
}

int64_t load_plan_input(const load_plan *p, int64_t i)
{
    return draw_length(p, DRAW_INPUT, p->input, i);
}

int64_t load_plan_output(const load_plan *p, int64_t i)
{
    return draw_length(p, DRAW_OUTPUT, p->output, i);
}

double load_plan_gap_s(const void *plan, int64_t i)
{
    const load_plan *p = plan;
    const double u = (double)((draw(p, DRAW_GAP, i, 0) >> 11) + 1) * 0x1p-53; /* (0, 1] */
    return -log(u) / p->rate;
}

/* Write n words, one space before each but the first; returns the bytes. */
static size_t write_words(char *text, const load_plan *p, draw_use use, int64_t i,
                          int64_t n)
{
    size_t at = 0;
    for (int64_t j = 0; j < n; j++) {
        const char *word = words[draw(p, use, i, j) % (sizeof words / sizeof *words)];
        if (j)
            text[at++] = ' ';
        const size_t n_word = strlen(word);
        memcpy(text + at, word, n_word);
        at += n_word;
    }
    return at;
}

static json_t *message(const char *role, const char *text, size_t n)
{
    return json_pack("{s:s, s:s%}", "role", role, "content", text, n);
}

/* The fields but the prompt. */
static json_t *fields(const load_plan *p, int64_t i)
{
    json_t *o = json_pack("{s:s, s:b, s:{s:b}, s:I, s:f, s:I}", "model", p->model, "stream",
                          1, "stream_options", "include_usage", 1, "max_tokens",
                          (json_int_t)load_plan_output(p, i), "temperature", p->temp,
                          "seed", (json_int_t)(draw(p, DRAW_WORDS, i, -1) >> 33));
    if (p->ignore_eos)
        json_object_set_new(o, "ignore_eos", json_true());
    return o;
}

char *load_plan_body(const void *plan, int64_t i, size_t *n_out)
{
    const load_plan *p = plan;
    const int64_t n_own = load_plan_input(p, i);
    /* no word has more than 6 letters; a space between each two */
    char *text = malloc((size_t)(p->shared + n_own) * 7 + 1);
    if (!text)
        return NULL;
    json_t *o = fields(p, i);
    const size_t n_shared = write_words(text, p, DRAW_SHARED, 0, p->shared);
    char *own = text + n_shared;
    if (n_shared)
        *own++ = ' ';
    const size_t own_bytes = write_words(own, p, DRAW_WORDS, i, n_own);
    if (p->completions) {
        json_object_set_new(o, "prompt",
                            json_stringn(text, (size_t)(own - text) + own_bytes));
    } else {
        json_t *list = json_array();
        if (n_shared)
            json_array_append_new(list, message("system", text, n_shared));
        json_array_append_new(list, message("user", own, own_bytes));
        json_object_set_new(o, "messages", list);
    }
    free(text);
    const bool made = json_object_size(o) == (size_t)(p->ignore_eos ? 8 : 7);
    char *body = made ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    if (body)
        *n_out = strlen(body);
    return body;
}
