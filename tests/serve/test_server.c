/* The server in this process, over a tiny model: memory that fails at every place, all of it
 * given back, stopping in every state.
 */
#include "ingot/serve.h"

#include "tiny_model.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

/* An allocator for two threads that fails once it is armed: the n-th call from then on. */
typedef struct armed {
    int64_t fail_nth, n_calls, n_alive; /* atomic, relaxed: only counted */
} armed;

static void *armed_alloc(void *user, size_t bytes, size_t align)
{
    armed *f = user;
    const int64_t nth = __atomic_load_n(&f->fail_nth, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&f->n_calls, 1, __ATOMIC_RELAXED) == nth)
        return NULL;
    __atomic_add_fetch(&f->n_alive, 1, __ATOMIC_RELAXED);
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void armed_free(void *user, void *p)
{
    armed *f = user;
    if (p)
        __atomic_sub_fetch(&f->n_alive, 1, __ATOMIC_RELAXED);
    free(p);
}

static void arm(armed *f, int64_t nth)
{
    __atomic_store_n(&f->n_calls, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&f->fail_nth, nth, __ATOMIC_RELAXED);
}

typedef struct served {
    armed memory;
    ig_allocator allocator;
    tiny_model tiny;
    ig_context *ctx;
    ig_model *model;
    ig_engine *engine;
    ig_server *server;
    pthread_t thread;
} served;

#define must(call)                                                                         \
    do {                                                                                   \
        if ((call) != IG_OK)                                                               \
            fail_msg("%s", err.message);                                                   \
    } while (0)

static void *run(void *user)
{
    served *s = user;
    ig_server_run(s->server);
    return NULL;
}

static void open_all(served *s)
{
    ig_error err;
    *s = (served){.tiny = {.dtype = IG_DTYPE_F32}};
    s->allocator = (ig_allocator){armed_alloc, armed_free, &s->memory};
    const ig_context_opts ctx = {.n_threads = 1, .allocator = &s->allocator};
    must(ig_context_create(&s->ctx, &ctx, &err));
    const ig_server_opts opts = {.name = "tiny"};
    must(ig_server_create(&s->server, s->ctx, &opts, &err));
    must(ig_model_open(&s->model, s->ctx, tiny_model_save(&s->tiny), NULL, &err));
    const ig_engine_opts engine = {.context = 128, .max_running = 4};
    must(ig_engine_create(&s->engine, s->model, &engine, &err));
    const ig_server_model model = {.engine = s->engine};
    must(ig_server_attach(s->server, &model, &err));
    assert_int_equal(ig_server_attach(s->server, &model, &err), IG_ERR_ARGUMENT);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void close_all(served *s)
{
    ig_server_stop(s->server);
    pthread_join(s->thread, NULL);
    ig_server_destroy(s->server);
    ig_engine_destroy(s->engine);
    ig_model_close(s->model);
    ig_context_destroy(s->ctx);
    tiny_model_fini(&s->tiny);
    assert_int_equal(s->memory.n_alive, 0);
}

static int dial(const served *s)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)ig_server_port(s->server)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    const struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static void send_post(int fd, const char *path, const char *body)
{
    char text[2048];
    const int n = snprintf(text, sizeof text,
                           "POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                           "Content-Length: %zu\r\n\r\n%s",
                           path, strlen(body), body);
    assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
}

/* Everything until the server closes, in `answer`; the status, 0 for none. */
static int read_all(int fd, char *answer, size_t cap)
{
    size_t n = 0;
    ssize_t got;
    while (n + 1 < cap && (got = recv(fd, answer + n, cap - 1 - n, 0)) > 0)
        n += (size_t)got;
    answer[n] = 0;
    close(fd);
    return n > 12 ? atoi(answer + 9) : 0;
}

static int post(const served *s, const char *path, const char *body, char *answer,
                size_t cap)
{
    const int fd = dial(s);
    send_post(fd, path, body);
    return read_all(fd, answer, cap);
}

/* Requests that touch every file: after each failure the same request is answered as ever. */
static void faults(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body;
    } requests[] = {
        {"/v1/completions",
         "{\"prompt\":[1,2,3],\"max_tokens\":3,\"logprobs\":2,\"n\":2,"
         "\"temperature\":0,\"return_token_ids\":true,\"ignore_eos\":true}"},
        {"/v1/completions", "{\"prompt\":[1,2,3],\"max_tokens\":3,\"stream\":true,"
                            "\"logprobs\":1,\"temperature\":0,\"ignore_eos\":true,"
                            "\"stream_options\":{\"include_usage\":true}}"},
        {"/detokenize", "{\"tokens\":[1,2,3]}"},
        {"/tokenize", "{\"content\":\"t1t2\",\"with_pieces\":true}"},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"},
    };
    served s;
    open_all(&s);
    static char wanted[16384], answer[16384];
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const int status =
            post(&s, requests[i].path, requests[i].body, wanted, sizeof wanted);
        assert_int_equal(status, i < 4 ? 200 : 400);
        bool failed = true;
        for (int64_t nth = 1; failed; nth++) {
            assert_in_range(nth, 1, 2000);
            arm(&s.memory, nth);
            const int got =
                post(&s, requests[i].path, requests[i].body, answer, sizeof answer);
            failed = __atomic_load_n(&s.memory.n_calls, __ATOMIC_RELAXED) >= nth;
            arm(&s.memory, 0);
            if (!failed)
                assert_int_equal(got, status);
            else
                assert_true(got == 0 || got == status || got == 500);
        }
        assert_int_equal(
            post(&s, requests[i].path, requests[i].body, answer, sizeof answer), status);
    }
    close_all(&s);
}

static void *stop_twice(void *user)
{
    served *s = user;
    usleep(20000);
    ig_server_stop(s->server);
    ig_server_stop(s->server);
    return NULL;
}

/* Stopped twice while answers run and wait: every client gets an end. */
static void stopping(void **state)
{
    (void)state;
    enum { CLIENTS = 12 };
    served s;
    open_all(&s);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = dial(&s);
        send_post(fds[i], "/v1/completions",
                  i % 2 ? "{\"prompt\":[1],\"max_tokens\":100,\"ignore_eos\":true}"
                        : "{\"prompt\":[1],\"max_tokens\":100,\"ignore_eos\":true,"
                          "\"stream\":true}");
    }
    pthread_t stopper;
    assert_int_equal(pthread_create(&stopper, NULL, stop_twice, &s), 0);
    static char answer[65536];
    for (int i = 0; i < CLIENTS; i++)
        (void)read_all(fds[i], answer, sizeof answer);
    pthread_join(stopper, NULL);
    close_all(&s);
}

/* Before there is a model, and with none at all. */
static void loading(void **state)
{
    (void)state;
    ig_error err;
    served s = {.tiny = {.dtype = IG_DTYPE_F32}};
    must(ig_context_create(&s.ctx, NULL, &err));
    must(ig_server_create(&s.server, s.ctx, NULL, &err));
    char answer[2048];
    assert_int_equal(post(&s, "/v1/completions", "{\"prompt\":[1]}", answer, sizeof answer),
                     503);
    assert_non_null(strstr(answer, "Retry-After: 1"));
    int fd = dial(&s);
    static const char get[] =
        "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_int_equal(send(fd, get, sizeof get - 1, MSG_NOSIGNAL), sizeof get - 1);
    assert_int_equal(read_all(fd, answer, sizeof answer), 503);
    fd = dial(&s); /* one that says nothing, open while the server ends */
    ig_server_destroy(s.server);
    close(fd);
    ig_context_destroy(s.ctx);
}

static void wrong_options(void **state)
{
    (void)state;
    ig_error err;
    ig_context *ctx;
    must(ig_context_create(&ctx, NULL, &err));
    const struct {
        ig_server_opts opts;
        ig_status status;
        const char *words;
    } cases[] = {
        {{.port = 65536}, IG_ERR_ARGUMENT, "65536"},
        {{.port = -1}, IG_ERR_ARGUMENT, "-1"},
        {{.tls_key = "k"}, IG_ERR_ARGUMENT, "only the key"},
        {{.key_file = "/no/such"}, IG_ERR_IO, "/no/such"},
        {{.host = "192.0.2.1"}, IG_ERR_IO, "192.0.2.1"},
        {{.tls_key = "/no/such", .tls_certificate = "/no/cert"}, IG_ERR_IO, "/no/cert"},
        {{.tls_key = "/dev/null", .tls_certificate = "/dev/null"}, IG_ERR_IO, "pair"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ig_server *server = NULL;
        assert_int_equal(ig_server_create(&server, ctx, &cases[i].opts, &err),
                         cases[i].status);
        assert_null(server);
        if (!strstr(err.message, cases[i].words))
            fail_msg("'%s' does not hold '%s'", err.message, cases[i].words);
    }
    ig_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults), cmocka_unit_test(stopping),
                                       cmocka_unit_test(loading),
                                       cmocka_unit_test(wrong_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
