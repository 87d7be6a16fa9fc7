/* The bytes of the chat page. page_files.cmake writes the included numbers into the build
 * folder from the sources beside this file. */
#include "serve/page.h"

static const unsigned char html[] = {
#include "serve/page/page_html.inc"
};
static const unsigned char css[] = {
#include "serve/page/page_css.inc"
};
static const unsigned char js[] = {
#include "serve/page/page_js.inc"
};

const ig__page ig__pages_of_server[] = {
    {"/", "text/html; charset=utf-8", html, sizeof html},
    {"/page.css", "text/css; charset=utf-8", css, sizeof css},
    {"/page.js", "text/javascript; charset=utf-8", js, sizeof js},
};
const int ig__n_pages = sizeof ig__pages_of_server / sizeof *ig__pages_of_server;
