#include "serve/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void has(const ig__buffer *b, const char *line)
{
    if (!strstr(b->data, line))
        fail_msg("no line '%s' in:\n%s", line, b->data);
}

static void histogram(void **state)
{
    (void)state;
    ig_allocator a = ig__allocator_default();
    ig__metrics m = {.n_cancelled = 3};
    ig__metrics_observe(&m, IG_HISTOGRAM_first_token, 0.001); /* a bound belongs below it */
    ig__metrics_observe(&m, IG_HISTOGRAM_first_token, 0.0011);
    ig__metrics_observe(&m, IG_HISTOGRAM_first_token, 1000);
    ig__buffer b = ig__buffer_init(&a);
    const ig__metrics_view view = {.model = "a\"b\\c"};
    ig__metrics_write(&b, &m, &view);
    assert_false(b.failed);
    const char *label = "{model_name=\"a\\\"b\\\\c\"";
    char line[160];
    const struct {
        const char *bound;
        int n;
    } wanted[] = {{"0.001", 1}, {"0.0025", 2}, {"160", 2}, {"+Inf", 3}};
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line,
                 "\ningot:time_to_first_token_seconds_bucket%s,le=\"%s\"} %d\n", label,
                 wanted[i].bound, wanted[i].n);
        has(&b, line);
    }
    snprintf(line, sizeof line, "\ningot:time_to_first_token_seconds_sum%s} 1000.0021\n",
             label);
    has(&b, line);
    snprintf(line, sizeof line, "\ningot:time_to_first_token_seconds_count%s} 3\n", label);
    has(&b, line);
    snprintf(line, sizeof line, "\ningot:requests_cancelled_total%s} 3\n", label);
    has(&b, line);
    assert_null(strstr(b.data, "limit_share")); /* nothing was measured */
    ig__buffer_fini(&b);
}

static void shares(void **state)
{
    (void)state;
    ig_allocator a = ig__allocator_default();
    const ig__metrics m = {.n_requests = 1};
    const ig_machine limits = {.read_bytes_s = 8e9, .int8_ops_s = 4e12, .f32_ops_s = 1e11};
    ig__metrics_view view = {.model = "m",
                             .limits = &limits,
                             .info = {.weight_dtype = IG_DTYPE_Q4_1},
                             .stats = {.prompt_ns = 2000000000,
                                       .decode_ns = 500000000,
                                       .prompt_ops = 2e12,
                                       .decode_bytes = 2e9,
                                       .n_pages = 8,
                                       .n_pages_used = 2}};
    ig__buffer b = ig__buffer_init(&a);
    ig__metrics_write(&b, &m, &view);
    has(&b, "\ningot:limit_share{model_name=\"m\",phase=\"prompt\"} 0.25\n");
    has(&b, "\ningot:limit_share{model_name=\"m\",phase=\"decode\"} 0.5\n");
    has(&b, "\ningot:kv_cache_usage_perc{model_name=\"m\"} 0.25\n");
    b.n = 0;
    view.info.exact = true; /* then the weights' products are float32's */
    ig__metrics_write(&b, &m, &view);
    has(&b, "\ningot:limit_share{model_name=\"m\",phase=\"prompt\"} 10\n");
    ig__buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(histogram),
                                       cmocka_unit_test(shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
