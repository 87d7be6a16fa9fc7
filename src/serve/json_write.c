/* JSON written straight into a buffer. */
#include "serve/json_write.h"

#include "ingot/tokenizer.h"

#include <math.h>
#include <string.h>

static void write_escape(ig__buffer *b, unsigned char c)
{
    static const char names[] = "btn?fr"; /* from 8 on; 11 has none */
    if (c >= 8 && c <= 13 && c != 11)
        ig__buffer_printf(b, "\\%c", names[c - 8]);
    else if (c < 0x20 || c == 0x7f)
        ig__buffer_printf(b, "\\u%04x", (unsigned)c);
    else
        ig__buffer_printf(b, "\\%c", c);
}

static void write_valid(ig__buffer *b, const char *bytes, size_t n)
{
    size_t begin = 0; /* bytes[begin..i) need no escape */
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        ig__buffer_append(b, bytes + begin, i - begin);
        write_escape(b, c);
        begin = i + 1;
    }
    ig__buffer_append(b, bytes + begin, n - begin);
}

void ig__json_write_string(ig__buffer *b, const char *bytes, size_t n)
{
    enum { PIECE = 64 };
    ig_utf8_stream stream = {0};
    ig__buffer_append_char(b, '"');
    for (size_t i = 0; i < n;) {
        /* room as ig_utf8_stream_push asks for: n + 3 + 3 * (n + 3) */
        char out[PIECE + 3 + 3 * (PIECE + 3)];
        const size_t piece = n - i < PIECE ? n - i : PIECE;
        write_valid(b, out, ig_utf8_stream_push(&stream, bytes + i, piece, out));
        i += piece;
    }
    char rest[16];
    write_valid(b, rest, ig_utf8_stream_push(&stream, NULL, 0, rest));
    ig__buffer_append_char(b, '"');
}

void ig__json_write_text(ig__buffer *b, const char *text)
{
    if (text)
        ig__json_write_string(b, text, strlen(text));
    else
        ig__buffer_append_text(b, "null");
}

void ig__json_write_int(ig__buffer *b, int64_t x)
{
    char digits[24];
    int i = sizeof digits;
    uint64_t rest = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    do {
        digits[--i] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (x < 0)
        digits[--i] = '-';
    ig__buffer_append(b, digits + i, sizeof digits - (size_t)i);
}

void ig__json_write_real(ig__buffer *b, double x)
{
    if (isfinite(x))
        ig__buffer_printf(b, "%.9g", x);
    else
        ig__buffer_append_text(b, "null");
}

void ig__json_write_bytes(ig__buffer *b, const char *bytes, size_t n)
{
    ig__buffer_append_char(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            ig__buffer_append_char(b, ',');
        ig__json_write_int(b, (unsigned char)bytes[i]);
    }
    ig__buffer_append_char(b, ']');
}

void ig__json_write_ids(ig__buffer *b, const int32_t *ids, int64_t n)
{
    ig__buffer_append_char(b, '[');
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            ig__buffer_append_char(b, ',');
        ig__json_write_int(b, ids[i]);
    }
    ig__buffer_append_char(b, ']');
}
