/* What the tests of the reader share: one small file that has some of everything, and an
 * allocator that counts and fails on demand.
 */
#ifndef INGOT_TESTS_FORMAT_FIXTURE_H
#define INGOT_TESTS_FORMAT_FIXTURE_H

#include "gguf_writer.h"

/* Where the fields of the small file stand. */
typedef struct small_marks {
    size_t alignment_name, alignment; /* general.alignment, u32 64 */
    size_t u8, i8, u16, i16, u32, i32, f32, flag, u64, i64, f64; /* t.u8 ... */
    size_t text;                                                 /* t.text: "two\nlines" */
    size_t bytes; /* t.bytes: u8[3] 1 2 3, an odd length before what must be aligned */
    size_t ids;   /* t.ids: i32[3] -1 0 7 */
    size_t wides; /* t.wides: f64[2] 0.5 -2 */
    size_t flags; /* t.flags: bool[2] true false */
    size_t words; /* t.words: string[3] "a" "" "ccc" */
    size_t none;  /* t.none: u32[0] */
    size_t first; /* tensor "first": f32 [3], 12 bytes at 0 */
    size_t block; /* tensor "block": q4_1 [64, 2], 80 bytes at 64 */
    size_t later; /* tensor "later": type 250 [5], at 192, the last byte */
    size_t data;  /* 193 bytes: 0, 1, 2 ... */
} small_marks;

void small_file(gguf_writer *w, small_marks *m);

/* Live blocks and the most bytes ever live; `fail_at` 1 fails the next allocation, 0
 * none. */
typedef struct counting_allocator {
    ig_allocator allocator;
    int64_t n_live, n_allocs, fail_at;
    size_t live_bytes, peak_bytes;
} counting_allocator;

void counting_allocator_init(counting_allocator *c); /* must not move afterwards */

/* The descriptor that the next open would get: the same again unless one was leaked. */
int next_descriptor(void);

/* Is it one line of valid printable text that names the path? */
bool is_one_line(const ig_error *err, const char *path);

/* Call every getter with every key and list everything: must never crash. Returns a number
 * that depends on all bytes seen, so that a sanitizer sees each of them read. */
uint64_t use_everything(const ig__gguf *gguf);

#endif
