/* The chat page as it is built in: whole, of the right types, and with nothing inline that the
 * policy of the server would refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/page.h"

static const ig__page *find(const char *path)
{
    for (int i = 0; i < ig__n_pages; i++)
        if (strcmp(ig__pages_of_server[i].path, path) == 0)
            return &ig__pages_of_server[i];
    fail_msg("no page %s", path);
    return NULL;
}

static bool holds(const ig__page *page, const char *text)
{
    return memmem(page->bytes, page->n, text, strlen(text)) != NULL;
}

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *path, *file, *type;
    } wanted[] = {{"/", "page.html", "text/html; charset=utf-8"},
                  {"/page.css", "page.css", "text/css; charset=utf-8"},
                  {"/page.js", "page.js", "text/javascript; charset=utf-8"}};
    assert_int_equal(ig__n_pages, 3);
    for (int i = 0; i < 3; i++) {
        const ig__page *page = find(wanted[i].path);
        assert_string_equal(page->type, wanted[i].type);
        char name[512];
        snprintf(name, sizeof name, "%s/%s", IG_MADE, wanted[i].file);
        FILE *file = fopen(name, "rb");
        assert_non_null(file);
        unsigned char *bytes = malloc(page->n + 1);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, page->n + 1, file), page->n);
        assert_memory_equal(bytes, page->bytes, page->n);
        free(bytes);
        fclose(file);
    }
}

static void test_nothing_inline(void **state)
{
    (void)state;
    const ig__page *page = find("/");
    assert_memory_equal(page->bytes, "<!doctype html>", 15);
    assert_true(holds(page, "href=\"page.css\""));
    assert_true(holds(page, "src=\"page.js\""));
    assert_true(holds(page, "require-trusted-types-for 'script'"));
    assert_false(holds(page, "<style"));
    assert_false(holds(page, " style="));
    assert_false(holds(page, " onclick="));
    assert_false(holds(page, "https://"));
}

static void test_no_markup_from_text(void **state)
{
    (void)state;
    const ig__page *page = find("/page.js");
    static const char *const never[] = {
        ".innerHTML",     ".outerHTML", "insertAdjacentHTML",
        "document.write", "eval(",      "new Function"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        assert_false(holds(page, never[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_nothing_inline),
        cmocka_unit_test(test_no_markup_from_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
