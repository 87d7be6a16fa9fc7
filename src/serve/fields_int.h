/* What the table of fields is made of, and the readers of fields with a shape of their own.
 */
#ifndef INGOT_SERVE_FIELDS_INT_H
#define INGOT_SERVE_FIELDS_INT_H

#include "serve/fields.h"

/* One call's state. */
typedef struct ig__reading {
    ig__params *p;
    ig__bad *bad;
    ig__endpoint endpoint;
    int64_t vocab;
} ig__reading;

typedef enum ig__field_kind {
    IG_FIELD_INT,  /* int64_t */
    IG_FIELD_REAL, /* double */
    IG_FIELD_BOOL, /* bool */
    IG_FIELD_OWN,  /* `read` knows */
    IG_FIELD_TAKEN /* has no effect on the answer; any value */
} ig__field_kind;

typedef struct ig__field {
    const char *name;
    int endpoints; /* of ig__endpoint, or-ed */
    ig__field_kind kind;
    double min, max; /* of numbers, both allowed */
    size_t offset;   /* in ig__params */
    /* of IG_FIELD_OWN: the value is not null */
    bool (*read)(ig__reading *r, const struct ig__field *f, const ig__json *v);
    const char *schema;   /* of IG_FIELD_OWN: JSON without its braces */
    const char *standard; /* the default, as JSON; NULL: absent */
    const char *help;
} ig__field;

/* The words of a refusal: what was found. */
const char *ig__kind_name(const ig__json *v);
/* A copy without zero bytes in the arena; NULL: refused. */
const char *ig__copy_text(ig__reading *r, const char *field, const ig__json *v);
/* A whole number (1 and 1.0) in a range; false: refused. */
bool ig__read_int(ig__reading *r, const char *field, const ig__json *v, double min,
                  double max, int64_t *out);

bool ig__read_real(ig__reading *r, const ig__field *f, const ig__json *v, double *out);
bool ig__read_bool(ig__reading *r, const ig__field *f, const ig__json *v, bool *out);

/* The `read` of fields. */
bool ig__read_model(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_seed(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_stop(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_bias(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_logprobs(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_stream_options(ig__reading *r, const ig__field *f, const ig__json *v);
/* Of fields that are not done: what asks for nothing is let through. */
bool ig__read_undone(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_response_format(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_modalities(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_tool_choice(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_messages(ig__reading *r, const ig__field *f, const ig__json *v);
bool ig__read_prompt(ig__reading *r, const ig__field *f, const ig__json *v);

#endif
