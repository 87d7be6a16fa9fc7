/* The option parser: one pass over argv, driven by the verb's table.
 *
 * Forms: --name value, --name=value, -x value, -xvalue, and "--" after which all are
 * operands. A value may begin with '-'. Options and operands may stand in any order; an
 * option given twice keeps the last value, lists grow. An unknown option is answered with
 * the nearest known one by edit distance.
 */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_WORD = 40, MANY_OPTIONS = 16, COLUMN = 40 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

int args_distance(const char *a, const char *b)
{
    const int na = (int)strlen(a), nb = (int)strlen(b);
    if (na > LONGEST_WORD || nb > LONGEST_WORD)
        return 1000;
    /* d[i][j]: distance of the first i letters of a and the first j of b */
    unsigned char d[LONGEST_WORD + 1][LONGEST_WORD + 1];
    for (int i = 0; i <= na; i++) {
        for (int j = 0; j <= nb; j++) {
            if (!i || !j) {
                d[i][j] = (unsigned char)(i + j);
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = least(best, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, d[i - 2][j - 2] + 1);
            d[i][j] = (unsigned char)best;
        }
    }
    return d[na][nb];
}

bool args_read_int(int64_t *out, const char *text, size_t n)
{
    char digits[24];
    if (n == 0 || n >= sizeof digits ||
        !(text[0] == '-' || (text[0] >= '0' && text[0] <= '9')))
        return false;
    memcpy(digits, text, n);
    digits[n] = 0;
    char *end;
    errno = 0;
    *out = strtoll(digits, &end, 10);
    return !errno && *end == 0 && end != digits && end[-1] != '-';
}

bool args_read_real(double *out, const char *text)
{
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text) || *text == '+')
        return false;
    char *end;
    *out = strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

/* "0 to 1", or the one bound that matters where the other is out of reach: not of this number. */
static const char *range_text(char *text, size_t cap, const args_option *o, double x)
{
    if (o->max > 1e9 && x <= o->max)
        snprintf(text, cap, "of at least %.10g", o->min);
    else
        snprintf(text, cap, "from %.10g to %.10g", o->min, o->max);
    return text;
}

static int bad_number(const args_verb *verb, const args_option *o, const char *text)
{
    char range[64];
    return report_usage("%s: %s is '%s', wanted is a %s %s", verb->name, o->name, text,
                        o->kind == ARGS_REAL ? "number" : "whole number",
                        range_text(range, sizeof range, o, strtod(text, NULL)));
}

static bool read_int(int64_t *out, const args_option *o, const char *text, size_t n)
{
    return args_read_int(out, text, n) && (double)*out >= o->min && (double)*out <= o->max;
}

static int store_ints(const args_verb *verb, const args_option *o, args_ints *list,
                      const char *text)
{
    list->n = 0;
    for (const char *p = text;; p++) {
        const size_t n = strcspn(p, ",");
        if (list->n == ARGS_MAX_LIST)
            return report_usage("%s: %s has more than %d values", verb->name, o->name,
                                ARGS_MAX_LIST);
        if (!read_int(&list->at[list->n++], o, p, n))
            return bad_number(verb, o, text);
        p += n;
        if (!*p)
            return ARGS_OK;
    }
}

static int store_choice(const args_verb *verb, const args_option *o, int *choice,
                        const char *text)
{
    const size_t n = strlen(text);
    int i = 0;
    for (const char *p = o->value;; i++) {
        const size_t n_word = strcspn(p, "|");
        if (n_word == n && !memcmp(p, text, n)) {
            *choice = i;
            return ARGS_OK;
        }
        p += n_word;
        if (!*p++)
            return report_usage("%s: %s is '%s', wanted is one of %s", verb->name, o->name,
                                text, o->value);
    }
}

static int store(const args_verb *verb, const args_option *o, void *options,
                 const char *text)
{
    void *at = (char *)options + o->offset;
    switch (o->kind) {
    case ARGS_FLAG:
        *(bool *)at = true;
        return ARGS_OK;
    case ARGS_TEXT:
        *(const char **)at = text;
        return ARGS_OK;
    case ARGS_TEXTS: {
        args_texts *list = at;
        if (list->n == ARGS_MAX_LIST)
            return report_usage("%s: %s is given more than %d times", verb->name, o->name,
                                ARGS_MAX_LIST);
        list->at[list->n++] = text;
        return ARGS_OK;
    }
    case ARGS_INT:
        return read_int(at, o, text, strlen(text)) ? ARGS_OK : bad_number(verb, o, text);
    case ARGS_INTS:
        return store_ints(verb, o, at, text);
    case ARGS_REAL: {
        double x;
        if (!args_read_real(&x, text) || x < o->min || x > o->max)
            return bad_number(verb, o, text);
        *(double *)at = x;
        return ARGS_OK;
    }
    case ARGS_CHOICE:
        return store_choice(verb, o, at, text);
    }
    return report_usage("%s: %s has no kind", verb->name, o->name);
}

/* The row of --name (n bytes, perhaps followed by =value) or of letter -x. */
static const args_option *find(const args_verb *verb, const char *arg)
{
    const bool is_long = arg[1] == '-';
    const size_t n = strcspn(arg, "=");
    for (int i = 0; i < verb->n_options; i++) {
        const args_option *o = &verb->options[i];
        if (is_long ? strlen(o->name) == n && !memcmp(o->name, arg, n)
                    : o->letter && o->letter == arg[1])
            return o;
    }
    return NULL;
}

/* What other programs call it. */
static const struct synonym {
    const char *word, *name;
} synonyms[] = {
    {"--n-predict", "--tokens"},
    {"--num-predict", "--tokens"},
    {"--max-length", "--tokens"},
    {"--max-new-tokens", "--tokens"},
    {"-c", "--ctx"},
    {"--context", "--ctx"},
    {"--max-model-len", "--ctx"},
    {"-s", "--seed"},
    {"-sys", "--system"},
    {"--system-prompt", "--system"},
    {"--ssl-keyfile", "--tls-key"},
    {"--ssl-certfile", "--tls-cert"},
    {"--ssl-key-file", "--tls-key"},
    {"--ssl-cert-file", "--tls-cert"},
    {"--parallel", "--max-running"},
    {"-np", "--max-running"},
    {"--max-num-seqs", "--max-running"},
    {"--served-model-name", "--alias"},
    {"--text", "--prompt"},
    {"--cache-type-k", "--kv-type"},
    {"--kv-cache-dtype", "--kv-type"},
    {"-p", "--prompt"},
    {"-n", "--decode"},
};

static bool has_option(const args_verb *verb, const char *name)
{
    for (int i = 0; i < verb->n_options; i++)
        if (!strcmp(name, verb->options[i].name))
            return true;
    return false;
}

static const char *synonym_of(const args_verb *verb, const char *word)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (!strcmp(word, synonyms[i].word) && has_option(verb, synonyms[i].name))
            return synonyms[i].name;
    return NULL;
}

/* True: one of two words is the other cut short ("--temperature", "--temp"), or the other
 * with a word before it ("--max-tokens", "--tokens"). */
static bool is_part(const char *a, const char *b)
{
    const size_t n_a = strlen(a), n_b = strlen(b);
    const char *longer = n_a > n_b ? a : b, *shorter = n_a > n_b ? b : a;
    const size_t n_longer = n_a > n_b ? n_a : n_b, n_shorter = n_a > n_b ? n_b : n_a;
    return n_shorter >= 5 && (!memcmp(longer, shorter, n_shorter) ||
                              (n_longer > n_shorter &&
                               !strcmp(longer + n_longer - (n_shorter - 1), shorter + 1)));
}

static int unknown(const args_verb *verb, const char *arg)
{
    const int n = (int)strcspn(arg, "=");
    char name[LONGEST_WORD + 2];
    snprintf(name, sizeof name, "%.*s", n, arg);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if ((!strcmp(name, "-m") || !strcmp(name, "--model")) &&
        !strncmp(verb->operands, "MODEL", 5))
        return report_usage("%s: no option '%s': the model stands alone, ingot %s %s",
                            verb->name, name, verb->name, verb->operands);
    const char *nearest = synonym_of(verb, name);
    int best = nearest ? 0 : 1000;
    for (int i = 0; i < verb->n_options && best > 0; i++) {
        const char *known = verb->options[i].name;
        const int distance = args_distance(name, known);
        const int d = is_part(name, known) ? distance / 8 : distance;
        if (d < best) {
            best = d;
            nearest = known;
        }
    }
    /* a guess that changes most of the word is no help */
    if (nearest && best <= 1 + (int)strlen(nearest) / 3)
        return report_usage("%s: no option '%.*s', the nearest is '%s'", verb->name, n, arg,
                            nearest);
    return report_usage("%s: no option '%.*s'; see 'ingot help %s'", verb->name, n, arg,
                        verb->name);
}

static int parse_option(const args_verb *verb, void *options, int *i, int argc,
                        char *const *argv)
{
    const char *arg = argv[*i];
    const args_option *o = find(verb, arg);
    if (!o)
        return unknown(verb, arg);
    const char *value = arg[1] == '-' ? strchr(arg, '=') : arg[2] ? arg + 1 : NULL;
    /* "-ngl" is no -n with "gl" */
    if (arg[1] != '-' && arg[2] && isalpha((unsigned char)arg[2]) &&
        (o->kind == ARGS_INT || o->kind == ARGS_INTS || o->kind == ARGS_REAL))
        return unknown(verb, arg);
    if (o->kind == ARGS_FLAG)
        return value ? report_usage("%s: %s takes no value", verb->name, o->name)
                     : store(verb, o, options, NULL);
    if (value)
        return store(verb, o, options, value + 1);
    if (*i + 1 == argc)
        return report_usage("%s: %s needs a value (%s)", verb->name, arg, o->value);
    return store(verb, o, options, argv[++*i]);
}

int args_parse(const args_verb *verb, void *options, const char **operands,
               int *n_operands_out, int argc, char *const *argv)
{
    int n = 0;
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (only_operands || arg[0] != '-' || !arg[1]) {
            operands[n++] = arg;
        } else if (!strcmp(arg, "--")) {
            only_operands = true;
        } else if (!strcmp(arg, "-h") || !strcmp(arg, "--help")) {
            return ARGS_HELP;
        } else {
            const int code = parse_option(verb, options, &i, argc, argv);
            if (code != ARGS_OK)
                return code;
        }
    }
    *n_operands_out = n;
    if (n < verb->min_operands)
        return report_usage("%s: %s is missing: ingot %s %s", verb->name, verb->operands,
                            verb->name, verb->operands);
    if (n > verb->max_operands)
        return report_usage("%s: '%s' is one operand too many%s", verb->name,
                            operands[verb->max_operands],
                            has_option(verb, "--prompt") ? "; a text is -p TEXT" : "");
    return ARGS_OK;
}

static void default_text(char *text, size_t cap, const args_option *o, const void *options)
{
    const void *at = (const char *)options + o->offset;
    text[0] = 0;
    if (o->shown) {
        if (*o->shown)
            snprintf(text, cap, " [%s]", o->shown);
    } else if (o->kind == ARGS_INT) {
        snprintf(text, cap, " [%lld]", (long long)*(const int64_t *)at);
    } else if (o->kind == ARGS_REAL) {
        snprintf(text, cap, " [%g]", *(const double *)at);
    } else if (o->kind == ARGS_INTS) {
        snprintf(text, cap, " [%lld]", (long long)((const args_ints *)at)->at[0]);
    } else if (o->kind == ARGS_CHOICE) {
        const char *word = o->value;
        for (int i = *(const int *)at; i > 0; i--)
            word = strchr(word, '|') + 1;
        snprintf(text, cap, " [%.*s]", (int)strcspn(word, "|"), word);
    }
}

/* "-n, --tokens N     at most so many [-1]" */
static void cell(char *text, size_t cap, const args_option *o, const void *options,
                 int width)
{
    char letter[8] = "", shown[64], name[64];
    if (o->letter)
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    snprintf(name, sizeof name, "%s%s%s%s", letter, o->name, o->value ? " " : "",
             o->value ? o->value : "");
    default_text(shown, sizeof shown, o, options);
    snprintf(text, cap, "%-*s %s%s", width, name, o->help, *o->help ? shown : shown + 1);
}

void args_help(report *out, const args_verb *verb, const void *options)
{
    report_print(out, "usage: ingot %s %s%s\n%s\n\n", verb->name, verb->operands,
                 verb->n_options ? " [options]" : "", verb->summary);
    const int n_columns = verb->n_options > MANY_OPTIONS ? 2 : 1;
    const int n_lines = (verb->n_options + n_columns - 1) / n_columns;
    for (int i = 0; i < n_lines; i++) {
        char left[160], right[160] = "";
        cell(left, sizeof left, &verb->options[i], options, n_columns == 2 ? 22 : 26);
        if (n_columns == 2 && i + n_lines < verb->n_options)
            cell(right, sizeof right, &verb->options[i + n_lines], options, 22);
        if (*right)
            report_print(out, "%-*s %s\n", COLUMN - 1, left, right);
        else
            report_print(out, "%s\n", left);
    }
}
