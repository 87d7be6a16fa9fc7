/* Template source to tokens, with Jinja's white-space rules as chat templates are read
 * everywhere: trim_blocks (a line end right behind %} or #} goes) and lstrip_blocks (blanks
 * between the start of a line and {% or {# go); "-" inside a delimiter takes all white
 * space on its side, "+" switches the two rules off there.
 *
 *     text {%- if a -%} text {{ b }} text {# c #} text
 *     TEXT TAG_BEGIN NAME NAME TAG_END TEXT OUT_BEGIN NAME OUT_END TEXT TEXT END
 */
#include "text/template_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    ig__ttokens *tokens;
    ig__arena *arena;
    const char *s; /* [n], 0 behind */
    size_t n, pos;
    int line;
    ig_error *err;
} lexer;

static ig_status push(lexer *x, ig__ttoken token)
{
    ig__ttokens *t = x->tokens;
    if (t->n == t->cap) {
        const size_t cap = t->cap ? t->cap * 2 : 64;
        ig__ttoken *items =
            ig__resize(t->a, t->items, t->n * sizeof *items, cap * sizeof *items);
        if (!items)
            return ig__fail_memory(x->err, "template", cap * sizeof *items);
        t->items = items;
        t->cap = cap;
    }
    token.line = x->line;
    t->items[t->n++] = token;
    return IG_OK;
}

/* Move to `to`, counting lines. */
static void advance(lexer *x, size_t to)
{
    for (; x->pos < to; x->pos++)
        x->line += x->s[x->pos] == '\n';
}

/* Does s[pos..] begin with `text`? */
static bool here(const lexer *x, size_t pos, const char *text)
{
    const size_t n = strlen(text);
    return pos <= x->n && n <= x->n - pos && memcmp(x->s + pos, text, n) == 0;
}

static size_t skip_space(const lexer *x, size_t pos)
{
    return pos + ig__tspace_start(x->s + pos, x->n - pos);
}

/* Behind a closing delimiter: `sign` is what stood in it. */
static void close_delimiter(lexer *x, char sign, bool trim)
{
    if (sign == '-')
        advance(x, skip_space(x, x->pos));
    else if (trim && sign != '+' && x->pos < x->n && x->s[x->pos] == '\n')
        advance(x, x->pos + 1);
}

/* The text [from, to) in front of a delimiter (at the end of the source: sign '+'). */
static ig_status push_text(lexer *x, size_t from, size_t to, char sign, bool lstrip)
{
    if (sign == '-') {
        to = from + ig__tspace_end(x->s + from, to - from);
    } else if (lstrip && sign != '+') {
        size_t line = to;
        while (line > from && x->s[line - 1] != '\n')
            line--;
        const bool starts = line > from || from == 0 || x->s[from - 1] == '\n';
        if (starts && line + ig__tspace_start(x->s + line, to - line) == to)
            to = line;
    }
    if (from == to)
        return IG_OK;
    return push(x, (ig__ttoken){.kind = IG_TT_TEXT, .text = x->s + from, .n = to - from});
}

static ig_status lex_comment(lexer *x)
{
    const char *end = NULL;
    if (x->pos < x->n)
        end = memmem(x->s + x->pos, x->n - x->pos, "#}", 2);
    if (!end)
        return ig__fail(x->err, IG_ERR_FORMAT,
                        "template line %d: comment without an end, wanted '#}'", x->line);
    const size_t at = (size_t)(end - x->s);
    const char sign = at > x->pos ? x->s[at - 1] : 0;
    advance(x, at + 2);
    close_delimiter(x, sign, true);
    return IG_OK;
}

/* At a {% in `pos`: is it {% word %}? Then its signs and where it ends. */
static bool is_lone_tag(const lexer *x, size_t pos, const char *word, char signs[2],
                        size_t *end_out)
{
    pos += 2;
    signs[0] = pos < x->n && (x->s[pos] == '-' || x->s[pos] == '+') ? x->s[pos++] : 0;
    pos = skip_space(x, pos);
    if (!here(x, pos, word))
        return false;
    pos = skip_space(x, pos + strlen(word));
    signs[1] = pos < x->n && (x->s[pos] == '-' || x->s[pos] == '+') ? x->s[pos++] : 0;
    *end_out = pos + 2;
    return here(x, pos, "%}");
}

/* Behind {% raw %}: all up to {% endraw %} is text. */
static ig_status lex_raw(lexer *x)
{
    const size_t from = x->pos;
    for (size_t pos = from; pos < x->n; pos++) {
        char signs[2];
        size_t end;
        if (here(x, pos, "{%") && is_lone_tag(x, pos, "endraw", signs, &end)) {
            IG_TRY(push_text(x, from, pos, signs[0], true));
            advance(x, end);
            close_delimiter(x, signs[1], true);
            return IG_OK;
        }
    }
    return ig__fail(x->err, IG_ERR_FORMAT,
                    "template line %d: raw without an end, wanted '{%% endraw %%}'",
                    x->line);
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

/* The escape behind a backslash at s[0..n), n >= 1, as in Python: writes at most 4 bytes
 * and says how much was read. An unknown one stays as it is. */
static size_t unescape(const char *s, size_t n, char *out, size_t *n_out)
{
    static const char letters[] = "abfnrtv\\'\"", codes[] = "\a\b\f\n\r\t\v\\'\"";
    *n_out = 1;
    const char *letter = *s ? strchr(letters, *s) : NULL;
    if (letter) {
        *out = codes[letter - letters];
        return 1;
    }
    if (*s == '\n') {
        *n_out = 0;
        return 1;
    }
    const size_t n_hex = *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    const size_t first = n_hex ? 1 : 0, max = n_hex ? n_hex : 3, base = n_hex ? 16 : 8;
    uint32_t code = 0;
    size_t i = first;
    while (i < n && i < first + max && digit_value(s[i]) < (int)base)
        code = code * (uint32_t)base + (uint32_t)digit_value(s[i++]);
    const bool whole = n_hex ? i == first + n_hex : i > 0;
    if (!whole || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        *out = '\\'; /* and the letter is read again as itself */
        return 0;
    }
    *n_out = ig__tutf8_write(out, code);
    return i;
}

static ig_status lex_string(lexer *x)
{
    const char quote = x->s[x->pos];
    const size_t from = x->pos + 1;
    size_t to = from;
    bool escapes = false;
    while (to < x->n && x->s[to] != quote) {
        escapes |= x->s[to] == '\\';
        to += x->s[to] == '\\' ? 2 : 1;
    }
    if (to >= x->n)
        return ig__fail(x->err, IG_ERR_FORMAT,
                        "template line %d: string without an end, wanted %c", x->line,
                        quote);
    ig__ttoken token = {.kind = IG_TT_STRING, .text = x->s + from, .n = to - from};
    if (escapes) { /* \ooo (4 bytes read) writes at most 2, \uXXXX (6) at most 3 */
        char *text = ig__arena_alloc(x->arena, token.n + 4);
        if (!text)
            return ig__fail_memory(x->err, "template", token.n);
        token.text = text;
        token.n = 0;
        for (size_t i = from; i < to; i++) {
            size_t n_out = 1;
            if (x->s[i] == '\\')
                i += unescape(x->s + i + 1, to - i - 1, text + token.n, &n_out);
            else
                text[token.n] = x->s[i];
            token.n += n_out;
        }
    }
    IG_TRY(push(x, token));
    advance(x, to + 1);
    return IG_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits, "_" between them: appended to text[0..*n) of cap 64. */
static size_t take_digits(const lexer *x, size_t pos, char *text, size_t *n)
{
    while (pos < x->n && (is_digit(x->s[pos]) || (x->s[pos] == '_' && pos + 1 < x->n &&
                                                  is_digit(x->s[pos + 1])))) {
        if (x->s[pos] != '_' && *n < 60)
            text[(*n)++] = x->s[pos];
        pos++;
    }
    return pos;
}

/* The fraction is turned into an exponent, so that strtod reads it in any locale. */
static ig_status lex_number(lexer *x)
{
    char text[80];
    size_t n = 0, pos = take_digits(x, x->pos, text, &n);
    bool is_float = false;
    long long exponent = 0;
    if (pos + 1 < x->n && x->s[pos] == '.' && is_digit(x->s[pos + 1])) {
        const size_t n_whole = n;
        pos = take_digits(x, pos + 1, text, &n);
        exponent = -(long long)(n - n_whole);
        is_float = true;
    }
    if (pos < x->n && (x->s[pos] | 32) == 'e') {
        const bool sign = pos + 1 < x->n && (x->s[pos + 1] == '-' || x->s[pos + 1] == '+');
        const size_t from = pos + 1 + sign;
        if (from < x->n && is_digit(x->s[from])) {
            char digits[64];
            size_t n_digits = 0;
            pos = take_digits(x, from, digits, &n_digits);
            digits[n_digits < 9 ? n_digits : 9] = 0;
            const long long e = strtoll(digits, NULL, 10);
            exponent += sign && x->s[from - 1] == '-' ? -e : e;
            is_float = true;
        }
    }
    ig__ttoken token = {.kind = is_float ? IG_TT_FLOAT : IG_TT_INT};
    text[n] = 0;
    errno = 0;
    if (is_float) {
        text[n++] = 'e';
        int e = exponent < -9999 ? -9999 : exponent > 9999 ? 9999 : (int)exponent;
        if (e < 0)
            text[n++] = '-', e = -e;
        for (int place = 1000; place; place /= 10)
            text[n++] = (char)('0' + e / place % 10);
        text[n] = 0;
        token.f = strtod(text, NULL);
    } else {
        token.i = strtoll(text, NULL, 10);
        if (errno == ERANGE)
            return ig__fail(x->err, IG_ERR_LIMIT,
                            "template line %d: number %s is beyond 64 bits", x->line, text);
    }
    x->pos = pos;
    return push(x, token);
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
           (unsigned char)c >= 0x80;
}

static ig_status lex_name(lexer *x)
{
    size_t to = x->pos;
    while (to < x->n && is_name_char(x->s[to]))
        to++;
    const size_t from = x->pos;
    x->pos = to;
    return push(x, (ig__ttoken){.kind = IG_TT_NAME, .text = x->s + from, .n = to - from});
}

static ig_status lex_op(lexer *x)
{
    static const struct {
        char text[3];
        uint16_t op;
    } pairs[] = {{"==", IG_TOP_EQ}, {"!=", IG_TOP_NE},    {"<=", IG_TOP_LE},
                 {">=", IG_TOP_GE}, {"//", IG_TOP_FLOOR}, {"**", IG_TOP_POWER}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (here(x, x->pos, pairs[i].text)) {
            x->pos += 2;
            return push(x, (ig__ttoken){.kind = IG_TT_OP, .op = pairs[i].op});
        }
    }
    const char c = x->s[x->pos];
    if (!c || !strchr("+-*/%~<>=()[]{},.:|", c))
        return ig__fail(x->err, IG_ERR_FORMAT, "template line %d: unexpected character %c",
                        x->line, c);
    x->pos++;
    return push(x, (ig__ttoken){.kind = IG_TT_OP, .op = (uint16_t)c});
}

/* One token inside a tag. */
static ig_status lex_inside(lexer *x)
{
    const char c = x->s[x->pos];
    if (c == '\'' || c == '"')
        return lex_string(x);
    if (is_digit(c))
        return lex_number(x);
    if (is_name_char(c))
        return lex_name(x);
    return lex_op(x);
}

/* From behind {{ or {% to its end. Inside brackets of any kind }} is two brackets. */
static ig_status lex_tag(lexer *x, bool is_output)
{
    const char *close = is_output ? "}}" : "%}";
    const int line = x->line;
    int64_t n_open = 0;
    IG_TRY(push(x, (ig__ttoken){.kind = is_output ? IG_TT_OUT_BEGIN : IG_TT_TAG_BEGIN}));
    while (advance(x, skip_space(x, x->pos)), x->pos < x->n) {
        const char c = x->s[x->pos];
        const char sign = c == '-' || (c == '+' && !is_output) ? c : 0;
        if (n_open == 0 && here(x, x->pos + (sign != 0), close)) {
            IG_TRY(
                push(x, (ig__ttoken){.kind = is_output ? IG_TT_OUT_END : IG_TT_TAG_END}));
            x->pos += 2 + (sign != 0);
            close_delimiter(x, sign, !is_output);
            return IG_OK;
        }
        n_open += c == '(' || c == '[' || c == '{';
        n_open -= n_open > 0 && (c == ')' || c == ']' || c == '}');
        IG_TRY(lex_inside(x));
    }
    return ig__fail(x->err, IG_ERR_FORMAT,
                    "template line %d: '%s' without an end, wanted '%s'", line,
                    is_output ? "{{" : "{%", close);
}

/* The next {{, {% or {#, or n. */
static size_t find_delimiter(const lexer *x)
{
    for (size_t i = x->pos; i + 1 < x->n; i++)
        if (x->s[i] == '{' &&
            (x->s[i + 1] == '{' || x->s[i + 1] == '%' || x->s[i + 1] == '#'))
            return i;
    return x->n;
}

ig_status ig__tlex(ig__ttokens *tokens, ig__arena *arena, const char *source, size_t n,
                   ig_error *err)
{
    lexer x = {tokens, arena, source, n, 0, 1, err};
    while (x.pos < n) {
        const size_t from = x.pos, at = find_delimiter(&x);
        const char kind = at < n ? source[at + 1] : 0;
        char sign = at + 2 < n ? source[at + 2] : 0;
        if (at == n)
            sign = '+';
        else if (sign != '-' && sign != '+')
            sign = 0;
        IG_TRY(push_text(&x, from, at, sign, kind != '{'));
        advance(&x, at);
        if (at == n)
            break;
        char signs[2];
        size_t end;
        if (kind == '%' && is_lone_tag(&x, at, "raw", signs, &end)) {
            advance(&x, end);
            close_delimiter(&x, signs[1], false);
            IG_TRY(lex_raw(&x));
            continue;
        }
        advance(&x, at + 2 + (sign != 0));
        if (kind == '#')
            IG_TRY(lex_comment(&x));
        else
            IG_TRY(lex_tag(&x, kind == '{'));
    }
    return push(&x, (ig__ttoken){.kind = IG_TT_END});
}
