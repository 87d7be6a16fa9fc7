/* The splitter: an automaton over bytes, its marks ASCII, so that characters stay whole. */
#include "serve/reasoning.h"

#include <string.h>

static const char open_mark[] = "<think>", close_mark[] = "</think>";
enum { MOST_SPACE = 16 }; /* white space before <think> that is waited for */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void give(ig__reasoning *r, bool reasoning, ig__reasoning_take *take, void *user)
{
    if (r->n_held > 0)
        take(user, reasoning, r->held, r->n_held);
    r->n_held = 0;
}

static void read_start(ig__reasoning *r, char c, ig__reasoning_take *take, void *user)
{
    size_t n_space = 0;
    r->held[r->n_held++] = c;
    while (n_space < r->n_held && is_space(r->held[n_space]))
        n_space++;
    const size_t n = r->n_held - n_space;
    if (n_space > MOST_SPACE || memcmp(r->held + n_space, open_mark, n) != 0) {
        r->state = IG_REASONING_OFF;
        give(r, false, take, user);
    } else if (n == sizeof open_mark - 1) {
        r->state = IG_REASONING_INSIDE;
        r->n_held = 0;
    }
}

/* The mark's only '<' is its first letter: a mismatch restarts at this byte or not at all. */
static void read_inside(ig__reasoning *r, char c, ig__reasoning_take *take, void *user)
{
    if (c != close_mark[r->n_held]) {
        give(r, true, take, user);
        if (c != close_mark[0]) {
            take(user, true, &c, 1);
            return;
        }
    }
    r->held[r->n_held++] = c;
    if (r->n_held == sizeof close_mark - 1) {
        r->state = IG_REASONING_AFTER;
        r->n_held = 0;
    }
}

void ig__reasoning_push(ig__reasoning *r, const char *bytes, size_t n,
                        ig__reasoning_take *take, void *user)
{
    size_t i = 0;
    while (i < n && r->state != IG_REASONING_OFF) {
        if (r->state == IG_REASONING_START) {
            read_start(r, bytes[i++], take, user);
        } else if (r->state == IG_REASONING_AFTER) {
            if (is_space(bytes[i]))
                i++;
            else
                r->state = IG_REASONING_OFF;
        } else if (r->n_held == 0) { /* all up to the next '<' at once */
            const char *mark = memchr(bytes + i, close_mark[0], n - i);
            const size_t plain = mark ? (size_t)(mark - bytes) - i : n - i;
            if (plain > 0)
                take(user, true, bytes + i, plain);
            i += plain;
            if (mark)
                read_inside(r, bytes[i++], take, user);
        } else {
            read_inside(r, bytes[i++], take, user);
        }
    }
    if (i < n)
        take(user, false, bytes + i, n - i);
}

void ig__reasoning_flush(ig__reasoning *r, ig__reasoning_take *take, void *user)
{
    give(r, r->state == IG_REASONING_INSIDE, take, user);
}
