/* ingot chat: a conversation, line by line.
 *
 * Input is a message a line. A line that ends in a backslash goes on in the next; one that
 * begins with three double quotes opens a block that the next three close. A line whose
 * first word is a slash and letters is a command.
 */
#include "verbs.h"

#include "conversation.h"
#include "interrupt.h"
#include "terminal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct chat_opts {
    const char *system, *template_file;
    bool json;
    int64_t max_tokens;
    args_texts stop;
    draw_opts draw;
    session_opts session;
} chat_opts;

#define AT(field) offsetof(chat_opts, field)
static const args_option options[] = {
    {"--system", 0, ARGS_TEXT, AT(system), "TEXT", "", 0, 0, "template's"},
    {"--template", 0, ARGS_TEXT, AT(template_file), "FILE", "", 0, 0, "the model's"},
    {"--tokens", 'n', ARGS_INT, AT(max_tokens), "N", "an answer", -1, 1 << 30, NULL},
    {"--stop", 0, ARGS_TEXTS, AT(stop), "TEXT", "repeatable", 0, 0, ""},
    DRAW_ROWS(chat_opts, draw),
    SESSION_ROWS(chat_opts, session),
    {"--json", 0, ARGS_FLAG, AT(json), NULL, "one object", 0, 0, ""},
};

static void defaults(void *at)
{
    chat_opts *o = at;
    o->max_tokens = -1;
    draw_defaults(&o->draw);
}

typedef struct chat {
    report *out;
    const chat_opts *o;
    terminal *terminal;
    conversation talk;
    json_t *turns; /* with --json */
    bool quit;
    int code; /* of the last failure, for input that no person types */
} chat;

/* A remark beside the conversation: to standard error, dim where a person reads it. */
IG_PRINTF(2, 3) static void remark(const chat *c, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    const bool dim = terminal_is_interactive(c->terminal) && isatty(STDERR_FILENO) &&
                     !getenv("NO_COLOR");
    fprintf(stderr, dim ? "\033[2m%s\033[0m\n" : "%s\n", line);
}

static bool keep_turn(chat *c, const answer *a, int64_t n_kept)
{
    return !json_array_append_new(
        c->turns,
        json_pack("{s:I, s:I, s:o, s:o, s:s}", "cached_tokens", (json_int_t)n_kept,
                  "evaluated_tokens", (json_int_t)(a->prompt.n - n_kept), "tokens",
                  report_json_ids(a->ids, a->n_ids), "text",
                  report_json_text(a->text, a->n_text), "finish_reason",
                  ig_finish_name(a->result.finish)));
}

static void tell_turn(const chat *c, const answer *a, int64_t n_kept)
{
    const int64_t length = ig_sequence_length(c->talk.s->seq);
    const int64_t context = ig_runner_context(c->talk.s->runner);
    remark(c, "[%lld new and %lld kept tokens, %.1f/s; answer %lld, %.1f/s, %s]",
           (long long)(a->prompt.n - n_kept), (long long)n_kept, answer_prompt_tps(a),
           (long long)a->result.n_generated, answer_decode_tps(a),
           ig_finish_name(a->result.finish));
    if (a->result.finish == IG_FINISH_LENGTH && length + 1 >= context)
        remark(c, "[the context is full: %lld of %lld tokens; /clear begins anew]",
               (long long)(length + 1), (long long)context); /* the last is not evaluated */
}

/* False: the message was not answered. */
static bool give_answer(chat *c)
{
    answer a = {.out = c->out,
                .shown = !c->o->json,
                .n_logprobs = -1,
                .max_tokens = c->o->max_tokens,
                .stop = c->o->stop.at,
                .n_stop = c->o->stop.n};
    int64_t n_kept;
    interrupt_clear();
    int code = conversation_answer(&c->talk, &a, &n_kept);
    interrupt_clear();
    if (a.n_ids && !c->o->json && !report_print(c->out, "\n"))
        c->quit = true;
    if (!report_flush(c->out))
        c->quit = true;
    if (code == EXIT_OK && c->turns && !keep_turn(c, &a, n_kept))
        code = report_fail("chat: out of memory");
    if (code == EXIT_OK && !c->quit)
        tell_turn(c, &a, n_kept);
    answer_free(&a);
    if (code != EXIT_OK)
        c->code = code;
    return code == EXIT_OK;
}

static void say(chat *c, const char *text)
{
    if (!conversation_add(&c->talk, "user", text, strlen(text)))
        c->code = report_fail("chat: out of memory");
    else if (!give_answer(c))
        conversation_drop(&c->talk, "user");
}

/* ---- commands --------------------------------------------------------------------------
 */

static void do_help(chat *c, const char *rest);

static void do_system(chat *c, const char *rest)
{
    const char *system = conversation_system(&c->talk);
    if (!*rest)
        remark(c, "%s",
               system ? system : "no system message (the template may add its own)");
    else if (!conversation_set_system(&c->talk, strcmp(rest, "-") != 0 ? rest : ""))
        c->code = report_fail("chat: out of memory");
}

static void do_regenerate(chat *c, const char *rest)
{
    (void)rest;
    json_t *messages = c->talk.messages;
    json_t *old = json_incref(json_array_get(messages, json_array_size(messages) - 1));
    if (!conversation_has_answer(&c->talk) || !conversation_drop(&c->talk, "assistant"))
        remark(c, "no answer to regenerate");
    else if (!give_answer(c))
        json_array_append(messages, old);
    json_decref(old);
}

static void do_clear(chat *c, const char *rest)
{
    (void)rest;
    conversation_clear(&c->talk);
}

static void do_save(chat *c, const char *rest)
{
    const int code =
        *rest ? conversation_save(&c->talk, rest) : report_fail("chat: /save needs a file");
    if (code != EXIT_OK)
        c->code = code;
}

static void do_load(chat *c, const char *rest)
{
    const int code =
        *rest ? conversation_load(&c->talk, rest) : report_fail("chat: /load needs a file");
    if (code != EXIT_OK)
        c->code = code;
}

static void do_quit(chat *c, const char *rest)
{
    (void)rest;
    c->quit = true;
}

static const struct command {
    const char *name, *help;
    void (*run)(chat *c, const char *rest);
    bool takes_rest;
} commands[] = {
    {"/help", "this", do_help, false},
    {"/system", "TEXT: set the system message; -: none; alone: show it", do_system, true},
    {"/regenerate", "draw the last answer anew", do_regenerate, false},
    {"/clear", "forget the conversation, keep the system message", do_clear, false},
    {"/save", "FILE: write the conversation as JSON", do_save, true},
    {"/load", "FILE: go on with a saved one", do_load, true},
    {"/quit", "end (Ctrl-D too)", do_quit, false},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void do_help(chat *c, const char *rest)
{
    (void)rest;
    for (int i = 0; i < N_COMMANDS; i++)
        remark(c, "%-12s %s", commands[i].name, commands[i].help);
    remark(c,
           "a line that ends in \\ goes on in the next; \"\"\" opens and closes a block");
}

/* Bytes of the command's name; 0: the line is a message ("/usr/bin is ..." is one). */
static size_t command_name(const char *line)
{
    size_t n = line[0] == '/';
    while (n && isalpha((unsigned char)line[n]))
        n++;
    return n > 1 && (!line[n] || isspace((unsigned char)line[n])) ? n : 0;
}

static void obey(chat *c, char *line, size_t n)
{
    char *rest = line + n;
    if (*rest)
        *rest++ = 0;
    while (isspace((unsigned char)*rest))
        rest++;
    for (size_t end = strlen(rest); end && isspace((unsigned char)rest[end - 1]);)
        rest[--end] = 0;
    const struct command *nearest = NULL;
    int best = 3; /* letters that a guess may change */
    for (int i = 0; i < N_COMMANDS; i++) {
        if (!strcmp(commands[i].name, line)) {
            if (*rest && !commands[i].takes_rest)
                c->code = report_usage("chat: %s takes no argument", line);
            else
                commands[i].run(c, rest);
            return;
        }
        const bool begins = !strncmp(commands[i].name, line, strlen(line));
        const int distance = begins ? 0 : args_distance(line, commands[i].name);
        if (distance < best) {
            best = distance;
            nearest = &commands[i];
        }
    }
    c->code = nearest ? report_usage("chat: no command '%s', the nearest is '%s'", line,
                                     nearest->name)
                      : report_usage("chat: no command '%s', /help lists them", line);
}

/* ---- messages of several lines ---------------------------------------------------------
 */

static const char fence[] = "\"\"\"";

/* Collect a message that `line` begins. INPUT_INTERRUPTED drops it. */
static input_got collect(chat *c, input *message, char *line)
{
    input_got got = INPUT_LINE;
    bool block = !strncmp(line, fence, 3);
    const char *p = line + (block ? 3 : 0);
    char *next = NULL;
    for (;;) {
        const char *close = block ? strstr(p, fence) : NULL;
        const size_t n = close ? (size_t)(close - p) : strlen(p);
        const bool more = block ? !close : n && p[n - 1] == '\\';
        if (!input_append(message, p, n - (more && !block)) ||
            (more && !input_append(message, "\n", 1))) {
            c->code = report_fail("chat: out of memory");
            got = INPUT_INTERRUPTED;
        }
        free(next);
        next = NULL;
        if (!more || got != INPUT_LINE)
            return got;
        got = terminal_line(&next, c->terminal, "... ");
        if (got != INPUT_LINE)
            return got;
        p = next;
    }
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == 0;
}

/* Ctrl-C while typing. */
static void drop_line(const chat *c)
{
    interrupt_clear();
    if (terminal_is_interactive(c->terminal)) {
        report_print(c->out, "\n");
        report_flush(c->out);
    }
}

/* True, and said: no line came, and none can come. What would follow was part of it. */
static bool input_broke(chat *c, input_got got)
{
    if (got == INPUT_FAILED)
        c->code = report_fail("chat: standard input: %s", strerror(errno));
    else if (got == INPUT_ZERO)
        c->code = report_fail("chat: standard input holds a zero byte");
    return got == INPUT_FAILED || got == INPUT_ZERO;
}

static void converse(chat *c)
{
    while (!c->quit) {
        char *line;
        input_got got = terminal_line(&line, c->terminal, "> ");
        if (got == INPUT_INTERRUPTED && terminal_is_interactive(c->terminal)) {
            drop_line(c);
            continue;
        }
        if (input_broke(c, got) || got != INPUT_LINE)
            break;
        const size_t n_name = command_name(line);
        input message = {0};
        if (n_name) {
            obey(c, line, n_name);
        } else {
            got = collect(c, &message, line);
            if (input_broke(c, got))
                c->quit = true;
            else if (got == INPUT_INTERRUPTED)
                drop_line(c);
            else if (message.text && !is_blank(message.text))
                say(c, message.text);
        }
        input_free(&message);
        free(line);
    }
    if (terminal_is_interactive(c->terminal) && !c->quit)
        report_print(c->out, "\n");
}

static int prepare(chat *c, session *s, const char *path)
{
    int code = session_open(s, "chat", path, &c->o->session);
    if (code == EXIT_OK)
        code = session_template(s, c->o->template_file);
    if (code != EXIT_OK)
        return code;
    if (!s->tmpl)
        return report_fail("chat: %s has no chat template; --template FILE gives one",
                           path);
    ig_sampler *sampler; /* made once to see that the options are right */
    code = session_sampler(&sampler, s, &c->o->draw, 0);
    ig_sampler_destroy(sampler);
    interrupt_catch(false); /* before the terminal's mode changes */
    c->terminal = terminal_open();
    c->turns = c->o->json ? json_array() : NULL;
    if (!c->terminal || (c->o->json && !c->turns) ||
        !conversation_init(&c->talk, s, &c->o->draw, c->o->system))
        return report_fail("chat: out of memory");
    return code;
}

static int run(report *out, const void *opts, const char *const *operands, int n_operands)
{
    (void)n_operands;
    chat c = {.out = out, .o = opts};
    session s;
    int code = prepare(&c, &s, operands[0]);
    if (code == EXIT_OK) {
        char name[128];
        if (terminal_is_interactive(c.terminal))
            remark(&c, "[%s, context %lld tokens, %d threads (%s); /help]",
                   report_clean(name, sizeof name, ig_model_get_info(s.model).name),
                   (long long)ig_runner_context(s.runner), ig_context_threads(s.ctx),
                   ig_context_threads_reason(s.ctx));
        converse(&c);
        if (!terminal_is_interactive(c.terminal))
            code = c.code;
        if (c.turns) {
            const int told = report_json(out, json_pack("{s:O, s:O}", "messages",
                                                        c.talk.messages, "turns", c.turns));
            code = code != EXIT_OK ? code : told;
        }
    }
    terminal_close(c.terminal);
    interrupt_release();
    json_decref(c.turns);
    conversation_fini(&c.talk);
    session_close(&s);
    return code;
}

const args_verb verb_chat = {
    "chat",
    "MODEL",
    "Talk with a model; needs a chat template.\n"
    "/help lists the commands; Ctrl-C ends an answer, Ctrl-D the talk.",
    1,
    1,
    options,
    sizeof options / sizeof *options,
    sizeof(chat_opts),
    defaults,
    run};
