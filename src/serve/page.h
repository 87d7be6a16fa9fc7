/* The page's files, embedded by the build (page/CMakeLists.txt).
 */
#ifndef INGOT_SERVE_PAGE_H
#define INGOT_SERVE_PAGE_H

#include <stddef.h>

typedef struct ig__page {
    const char *path;           /* "/page.js" */
    const char *type;           /* its Content-Type */
    const unsigned char *bytes; /* [n] */
    size_t n;
} ig__page;

extern const ig__page ig__pages_of_server[];
extern const int ig__n_pages;

#endif
