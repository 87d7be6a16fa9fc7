/* UTF-8: what is whole, what is cut, what is bad; and whole characters out of a stream.
 *
 * The first two bytes decide (Unicode 15, table 3-7): the lead gives the length and the
 * range of the second byte, all later ones are 80..BF.
 *
 *     00..7F             1      E1..EC EE EF  80..BF  3      F0     90..BF  4
 *     C2..DF  80..BF     2      E0            A0..BF  3      F1..F3 80..BF  4
 *                               ED            80..9F  3      F4     80..8F  4
 */
#include "text/text_int.h"

#include <string.h>

static const char replacement[3] = "\xef\xbf\xbd"; /* U+FFFD */

/* Length of the character that a lead byte begins, and the range of its second byte; 0: not
 * a lead byte. */
static size_t lead_length(uint8_t lead, uint8_t *least, uint8_t *most)
{
    *least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

size_t ig__utf8_unit(ig__utf8_kind *kind_out, const char *s, size_t n)
{
    uint8_t least, most;
    const size_t want = lead_length((uint8_t)s[0], &least, &most);
    *kind_out = want ? IG__UTF8_WHOLE : IG__UTF8_BAD;
    for (size_t i = 1; i < want; i++) {
        if (i == n) {
            *kind_out = IG__UTF8_CUT;
            return n;
        }
        const uint8_t byte = (uint8_t)s[i];
        if (byte < least || byte > most) {
            *kind_out = IG__UTF8_BAD;
            return i;
        }
        least = 0x80;
        most = 0xbf;
    }
    return want ? want : 1;
}

bool ig__utf8_is_valid(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t word;
        if (n - i >= sizeof word) { /* eight ASCII bytes at once */
            memcpy(&word, s + i, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                i += sizeof word;
                continue;
            }
        }
        ig__utf8_kind kind;
        i += ig__utf8_unit(&kind, s + i, n - i);
        if (kind != IG__UTF8_WHOLE)
            return false;
    }
    return true;
}

static size_t put_replacement(char *out)
{
    memcpy(out, replacement, sizeof replacement);
    return sizeof replacement;
}

/* Add one byte to what is held; returns the bytes written. */
static size_t push_byte(ig_utf8_stream *stream, char byte, char *out)
{
    size_t n_out = 0;
    stream->held[stream->n_held++] = byte;
    ig__utf8_kind kind;
    size_t n = ig__utf8_unit(&kind, stream->held, (size_t)stream->n_held);
    if (kind == IG__UTF8_BAD) {
        n_out = put_replacement(out);
        if (n == (size_t)stream->n_held) { /* the byte itself is bad */
            stream->n_held = 0;
            return n_out;
        }
        /* it broke what was held, and may begin something itself */
        stream->held[0] = byte;
        stream->n_held = 1;
        n = ig__utf8_unit(&kind, stream->held, 1);
        if (kind == IG__UTF8_BAD) {
            stream->n_held = 0;
            return n_out + put_replacement(out + n_out);
        }
    }
    if (kind == IG__UTF8_WHOLE) {
        memcpy(out + n_out, stream->held, n);
        n_out += n;
        stream->n_held = 0;
    }
    return n_out;
}

size_t ig_utf8_stream_push(ig_utf8_stream *stream, const char *bytes, size_t n, char *out)
{
    if (!bytes) {
        const bool waits = stream->n_held > 0;
        stream->n_held = 0;
        return waits ? put_replacement(out) : 0;
    }
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++)
        n_out += push_byte(stream, bytes[i], out + n_out);
    return n_out;
}
