/* A model ready to run, and the options that the verbs that run one share.
 *
 * The option rows are macros over the verb's options struct, so that every verb has the
 * same names, ranges and words: SESSION_ROWS(T, session) for a field `session_opts
 * session`, DRAW_ROWS(T, draw) for `draw_opts draw`.
 */
#ifndef INGOT_CLI_SESSION_H
#define INGOT_CLI_SESSION_H

#include "args.h"

typedef struct session_opts {
    int64_t context; /* 0: the library's default */
    int64_t threads; /* 0: the cores that this process may use */
    const char *isa; /* NULL: the best */
    int kv;          /* ig_kv_type */
    bool exact;
} session_opts;

/* The words stand in the order of ig_kv_type. */
#define SESSION_KV_ROW(T, at)                                                              \
    {                                                                                      \
        "--kv-type", 0, ARGS_CHOICE, offsetof(T, at), "f16|f32|q8_0", "", 0, 0, NULL       \
    }
#define SESSION_ROWS(T, s)                                                                 \
    {"--ctx", 0, ARGS_INT, offsetof(T, s.context), "N", "tokens", 1, 1 << 24, "4096"},     \
        {"--threads", 't', ARGS_INT, offsetof(T, s.threads), "N", "", 1, 64, "all cores"}, \
        {"--isa", 0, ARGS_TEXT, offsetof(T, s.isa), "NAME", "", 0, 0, "the best"},         \
        SESSION_KV_ROW(T, s.kv),                                                           \
    {                                                                                      \
        "--exact", 0, ARGS_FLAG, offsetof(T, s.exact), NULL, "float32 inside", 0, 0, ""    \
    }

typedef struct draw_opts {
    double temperature, top_p, min_p, typical;
    double repeat_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, repeat_last_n, seed;
    args_texts bias; /* "ID=BIAS" or "TOKEN=BIAS" */
} draw_opts;

#define DRAW_REAL(T, d, name, field, low, high, help)                                      \
    {                                                                                      \
        name, 0, ARGS_REAL, offsetof(T, d.field), "X", help, low, high, NULL               \
    }
#define DRAW_INT(T, d, name, field, low, high, help)                                       \
    {                                                                                      \
        name, 0, ARGS_INT, offsetof(T, d.field), "N", help, low, high, NULL                \
    }
#define DRAW_ROWS(T, d)                                                                    \
    DRAW_REAL(T, d, "--temp", temperature, 0, 100, "0: greedy"),                           \
        DRAW_INT(T, d, "--top-k", top_k, 0, 1 << 30, "0: off"),                            \
        DRAW_REAL(T, d, "--top-p", top_p, 1e-6, 1, "1: off"),                              \
        DRAW_REAL(T, d, "--min-p", min_p, 0, 1, "0: off"),                                 \
        DRAW_REAL(T, d, "--typical", typical, 1e-6, 1, "1: off"),                          \
        DRAW_REAL(T, d, "--repeat-penalty", repeat_penalty, 1e-6, 100, "1: off"),          \
        DRAW_INT(T, d, "--repeat-last-n", repeat_last_n, -1, 1 << 30, "-1: all"),          \
        DRAW_REAL(T, d, "--presence-penalty", presence_penalty, -2, 2, ""),                \
        DRAW_REAL(T, d, "--frequency-penalty", frequency_penalty, -2, 2, ""),              \
        {"--logit-bias",                                                                   \
         0,                                                                                \
         ARGS_TEXTS,                                                                       \
         offsetof(T, d.bias),                                                              \
         "ID=BIAS",                                                                        \
         "repeatable",                                                                     \
         0,                                                                                \
         0,                                                                                \
         ""},                                                                              \
        DRAW_INT(T, d, "--seed", seed, 0, 9007199254740992.0, "")

void draw_defaults(draw_opts *draw);

typedef struct session {
    ig_context *ctx;
    ig_model *model;
    ig_runner *runner;
    ig_template *tmpl; /* NULL: none made yet */
    ig_sequence *seq;  /* one, empty */
    const char *verb;  /* for messages */
    int64_t load_ns;   /* from session_open to ready */
} session;

/* The context alone; its warnings go to standard error. */
int session_context(ig_context **ctx_out, const char *verb, int64_t threads,
                    const char *isa);
/* Read the model and make a runner and an empty sequence. An exit code; after a failure
 * (which has been said) session_close is still right. */
int session_open(session *s, const char *verb, const char *path, const session_opts *opts);
/* Make s->tmpl from the file, or with NULL from the model; the model having none is no
 * failure. */
int session_template(session *s, const char *path);
/* A sampler as the options say, with seed + i_draw. */
int session_sampler(ig_sampler **sampler_out, const session *s, const draw_opts *draw,
                    int64_t i_draw);
void session_close(session *s);

#endif
