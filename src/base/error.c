/* The one place where an ig_error is written. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ig_status ig__fail_at(ig_error *err, ig_status status, const char *file, int line,
                      const char *fmt, ...)
{
    if (!err)
        return status;
    err->status = status;
    err->file = file;
    err->line = line;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    for (char *c = err->message; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    return status;
}

ig_status ig__fail_memory(ig_error *err, const char *what, size_t bytes)
{
    return ig__fail(err, IG_ERR_MEMORY, "%s: out of memory (%zu bytes)", what, bytes);
}

const char *ig_status_name(ig_status status)
{
    switch (status) {
#define NAME(name, value, text)                                                            \
    case IG_##name:                                                                        \
        return #name;
        IG_STATUS_MAP(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

const char *ig_status_text(ig_status status)
{
    switch (status) {
#define TEXT(name, value, text)                                                            \
    case IG_##name:                                                                        \
        return text;
        IG_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *ig_version(void)
{
    return "0.1.0";
}
