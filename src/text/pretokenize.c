/* Cutting a text into words, as the `pre` of a byte-level BPE vocabulary says. The one file
 * that knows PCRE2.
 *
 * A rule is a list of patterns, applied in turn: each cuts every piece that the one before
 * left into its matches and the text between them. A later pattern sees only its piece, so
 * that `\s+(?!\S)` takes a piece's last blank too. A new `pre` is a row in `rules`.
 *
 * Bytes that are not valid UTF-8 count as a sign that is neither letter, number nor blank,
 * as U+FFFD would.
 */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "text/text_int.h"

#include "base/error.h"

#include <pcre2.h>
#include <string.h>

#define PATTERNS_MAX 2

/* Unicode's White_Space. PCRE2's own \s also has U+180E, which left that set in
 * Unicode 6.3; the tokenizers were trained without it. */
#define SPACES "\\p{Z}\\t-\\r\\x{85}"
#define SPACE  "[" SPACES "]"
#define SIGN   "[^" SPACES "\\p{L}\\p{N}]"
/* Runs of blanks, but for the last one before a word. */
#define BLANKS SPACE "+(?![^" SPACES "])|" SPACE "+"

#define NUMBER "\\p{N}"
#define GPT_2  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?" SIGN "+|" BLANKS
#define MODERN(digits)                                                                     \
    "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" \
    "\\p{N}" digits "| ?" SIGN "+[\\r\\n]*|" SPACE "*[\\r\\n]+|" BLANKS

typedef struct split_rule {
    const char *pre;
    bool whole_words; /* a word that is a token is taken as it is, never merged */
    const char *patterns[PATTERNS_MAX]; /* NULL: no more */
} split_rule;

static const split_rule rules[] = {
    {"gpt-2", false, {GPT_2}},
    {"smollm", false, {NUMBER, GPT_2}},
    {"llama-bpe", true, {MODERN("{1,3}")}},
    {"qwen2", false, {MODERN("")}},
};

struct ig__splitter {
    ig_allocator a;
    const split_rule *rule;
    pcre2_general_context *memory;
    pcre2_match_context *limits;     /* read only */
    pcre2_code *codes[PATTERNS_MAX]; /* of the rule's patterns; NULL: no more */
};

static void *pcre_alloc(size_t bytes, void *user)
{
    return ig__alloc(user, bytes);
}

static void pcre_free(void *p, void *user)
{
    ig__free(user, p);
}

static ig_status compile(ig__splitter *s, int i_code, ig_error *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(s->memory);
    if (!context)
        return ig__fail(err, IG_ERR_MEMORY, "tokenizer: out of memory for a split rule");
    int code;
    PCRE2_SIZE at;
    pcre2_code *compiled =
        pcre2_compile((PCRE2_SPTR)s->rule->patterns[i_code], PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!compiled)
        return ig__fail(err,
                        code == PCRE2_ERROR_HEAP_FAILED ? IG_ERR_MEMORY : IG_ERR_INTERNAL,
                        "tokenizer: split rule '%s' does not compile: code %d at %zu",
                        s->rule->pre, code, (size_t)at);
    s->codes[i_code] = compiled;
    /* where no memory may be made executable, the interpreter does the same, slower */
    (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return IG_OK;
}

ig_status ig__splitter_create(ig__splitter **splitter_out, const ig_allocator *a,
                              const char *pre, ig_error *err)
{
    *splitter_out = NULL;
    if (!pre || strcmp(pre, "default") == 0)
        pre = "gpt-2";
    const split_rule *rule = NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].pre, pre) == 0)
            rule = &rules[i];
    if (!rule)
        return ig__fail(err, IG_ERR_UNSUPPORTED,
                        "tokenizer: pre-tokeniser '%.64s' is not known (gpt-2, smollm, "
                        "llama-bpe, qwen2)",
                        pre);
    ig__splitter *s = ig__alloc_zero(a, sizeof *s);
    if (!s)
        return ig__fail_memory(err, "tokenizer", sizeof *s);
    s->a = *a;
    s->rule = rule;
    s->memory = pcre2_general_context_create(pcre_alloc, pcre_free, &s->a);
    s->limits = s->memory ? pcre2_match_context_create(s->memory) : NULL;
    ig_status status =
        s->limits ? IG_OK : ig__fail(err, IG_ERR_MEMORY, "tokenizer: out of memory");
    if (status ==
        IG_OK) /* a rule steps back over a run of blanks once: no need to stop it */
        pcre2_set_match_limit(s->limits, UINT32_MAX);
    for (int i = 0; i < PATTERNS_MAX && rule->patterns[i] && status == IG_OK; i++)
        status = compile(s, i, err);
    if (status != IG_OK) {
        ig__splitter_destroy(s);
        return status;
    }
    *splitter_out = s;
    return IG_OK;
}

void ig__splitter_destroy(ig__splitter *splitter)
{
    if (!splitter)
        return;
    for (int i = 0; i < PATTERNS_MAX; i++)
        pcre2_code_free(splitter->codes[i]);
    pcre2_match_context_free(splitter->limits);
    pcre2_general_context_free(splitter->memory);
    const ig_allocator a = splitter->a;
    ig__free(&a, splitter);
}

bool ig__splitter_whole_words(const ig__splitter *splitter)
{
    return splitter->rule->whole_words;
}

/* One call of ig__split. */
typedef struct split_run {
    const ig__splitter *splitter;
    const char *text; /* valid UTF-8, of the same length as the caller's */
    pcre2_match_data *match[PATTERNS_MAX]; /* one a pattern */
    ig__word_call *word;
    void *arg;
} split_run;

/* Find the next match in piece[from..n); *at_out is n if there is none. */
static ig_status next_match(size_t *at_out, size_t *end_out, const split_run *run,
                            int i_code, const char *piece, size_t from, size_t n,
                            ig_error *err)
{
    const pcre2_code *code = run->splitter->codes[i_code];
    pcre2_match_data *match = run->match[i_code];
    pcre2_match_context *limits = run->splitter->limits;
    int rc =
        pcre2_match(code, (PCRE2_SPTR)piece, n, from, PCRE2_NO_UTF_CHECK, match, limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)piece, n, from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, limits);
    *at_out = *end_out = n;
    if (rc == PCRE2_ERROR_NOMATCH)
        return IG_OK;
    if (rc < 0)
        return ig__fail(
            err, rc == PCRE2_ERROR_NOMEMORY ? IG_ERR_MEMORY : IG_ERR_LIMIT,
            "tokenize: split rule '%s' gave up on a text of %zu bytes (code %d)",
            run->splitter->rule->pre, n, rc);
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
    *at_out = span[0];
    *end_out = span[1];
    return IG_OK;
}

/* Cut text[at..at + n) by the patterns from i_code on; n >= 1. Recursion ends with the
 * list of patterns. */
static ig_status cut(const split_run *run, int i_code, size_t at, size_t n, ig_error *err)
{
    if (i_code >= PATTERNS_MAX || !run->splitter->codes[i_code])
        return run->word(run->arg, at, n, err);
    size_t from = 0;
    while (from < n) {
        size_t begin, end;
        IG_TRY(next_match(&begin, &end, run, i_code, run->text + at, from, n, err));
        if (begin > from)
            IG_TRY(cut(run, i_code + 1, at + from, begin - from, err));
        if (end > begin)
            IG_TRY(cut(run, i_code + 1, at + begin, end - begin, err));
        if (end == from) /* no pattern matches nothing; were one to, this ends it */
            return ig__fail(err, IG_ERR_INTERNAL, "tokenize: an empty word at %zu", at);
        from = end;
    }
    return IG_OK;
}

/* The text with 01 in place of every byte that is not valid; NULL: no memory. */
static char *valid_copy(const ig_allocator *a, const char *text, size_t n)
{
    char *copy = ig__alloc(a, n);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < n;) {
        ig__utf8_kind kind;
        const size_t unit = ig__utf8_unit(&kind, text + i, n - i);
        if (kind == IG__UTF8_WHOLE)
            memcpy(copy + i, text + i, unit);
        else
            memset(copy + i, 1, unit);
        i += unit;
    }
    return copy;
}

ig_status ig__split(const ig__splitter *splitter, const char *text, size_t n,
                    ig__word_call *word, void *arg, ig_error *err)
{
    if (n == 0)
        return IG_OK;
    split_run run = {.splitter = splitter, .text = text, .word = word, .arg = arg};
    char *copy = NULL;
    ig_status status = IG_OK;
    if (!ig__utf8_is_valid(text, n)) {
        copy = valid_copy(&splitter->a, text, n);
        if (!copy)
            status = ig__fail_memory(err, "tokenize", n);
        run.text = copy;
    }
    for (int i = 0; i < PATTERNS_MAX && splitter->codes[i] && status == IG_OK; i++) {
        run.match[i] = pcre2_match_data_create(1, splitter->memory);
        if (!run.match[i])
            status = ig__fail(err, IG_ERR_MEMORY, "tokenize: out of memory");
    }
    if (status == IG_OK)
        status = cut(&run, 0, 0, n, err);
    for (int i = 0; i < PATTERNS_MAX; i++)
        pcre2_match_data_free(run.match[i]);
    ig__free(&splitter->a, copy);
    return status;
}
