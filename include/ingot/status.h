/* Status codes and errors.
 *
 * Every fallible step of the library returns an ig_status and takes, last, an `ig_error *`
 * (may be NULL) that it fills on failure: one clear sentence that names the call, what was
 * wanted and what was found. An ig_error is plain data of the caller; nothing needs
 * freeing.
 */
#ifndef INGOT_STATUS_H
#define INGOT_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define IG_API              __attribute__((visibility("default")))
#    define IG_WARN_UNUSED      __attribute__((warn_unused_result))
#    define IG_PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#else
#    define IG_API
#    define IG_WARN_UNUSED
#    define IG_PRINTF(fmt, arg)
#endif

/* X(name, value, sentence) */
#define IG_STATUS_MAP(X)                                                                   \
    X(OK, 0, "no error")                                                                   \
    X(ERR_ARGUMENT, -1, "an argument is outside its domain")                               \
    X(ERR_MEMORY, -2, "out of memory")                                                     \
    X(ERR_IO, -3, "a file cannot be read or written")                                      \
    X(ERR_FORMAT, -4, "a file or text is malformed")                                       \
    X(ERR_UNSUPPORTED, -5, "well-formed, but not supported")                               \
    X(ERR_SHAPE, -6, "shapes or types do not fit together")                                \
    X(ERR_LIMIT, -7, "a limit would be passed")                                            \
    X(ERR_NUMERIC, -8, "a NaN or an infinity appeared")                                    \
    X(ERR_CANCELLED, -9, "cancelled by the caller")                                        \
    X(ERR_INTERNAL, -10, "an invariant of the library does not hold")                      \
    X(ERR_BUSY, -11, "no room now, but later")

typedef enum ig_status {
#define IG_STATUS_ENUM(name, value, text) IG_##name = value,
    IG_STATUS_MAP(IG_STATUS_ENUM)
#undef IG_STATUS_ENUM
} ig_status;

typedef struct ig_error {
    ig_status status;
    int line;          /* where in the library's source it arose */
    const char *file;  /* static storage */
    char message[480]; /* one line of UTF-8, no newline at its end */
} ig_error;

/* "ERR_FORMAT"; static storage; "UNKNOWN" for a value that is not in the list. */
IG_API const char *ig_status_name(ig_status status);

/* "a file or text is malformed"; static storage. */
IG_API const char *ig_status_text(ig_status status);

/* "0.1.0"; static storage. */
IG_API const char *ig_version(void);

#ifdef __cplusplus
}
#endif
#endif
