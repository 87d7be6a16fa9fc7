/* /openapi.json: the requests' schemas come from the table of fields, the rest stands here. */
#include "serve/server.h"

#include "serve/fields.h"

static const char begin[] =
    "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"ingot serve\",\"version\":\"%s\","
    "\"description\":\"One language model under OpenAI's API\"},"
    "\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}"
    "},"
    "\"schemas\":{";

static const char message[] =
    "\"Message\":{\"type\":\"object\",\"required\":[\"role\",\"content\"],\"properties\":{"
    "\"role\":{\"type\":\"string\",\"enum\":[\"system\",\"developer\",\"user\","
    "\"assistant\"]},"
    "\"content\":{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\",\"required\":[\"type\",\"text\"],\"properties\":{\"type\":{\"type\":"
    "\"string\","
    "\"enum\":[\"text\"]},\"text\":{\"type\":\"string\"}}}}]}}},"
    "\"Error\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{"
    "\"type\":\"object\",\"required\":[\"message\",\"type\"],\"properties\":{"
    "\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"
    "\"param\":{\"type\":[\"string\",\"null\"]},"
    "\"code\":{\"type\":[\"string\",\"null\"]}}}}},"
    "\"TokenizeRequest\":{\"type\":\"object\",\"required\":[\"content\"],\"properties\":{"
    "\"content\":{\"type\":\"string\"},"
    "\"add_special\":{\"type\":[\"boolean\",\"null\"]},"
    "\"parse_special\":{\"type\":[\"boolean\",\"null\"]},"
    "\"with_pieces\":{\"type\":[\"boolean\",\"null\"]}}},"
    "\"DetokenizeRequest\":{\"type\":\"object\",\"required\":[\"tokens\"],\"properties\":{"
    "\"tokens\":{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":0}}}},"
    "\"TemplateRequest\":{\"type\":\"object\",\"required\":[\"messages\"],\"properties\":{"
    "\"messages\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":"
    "\"#/components/schemas/Message\"}}}},";

#define ERROR(code, text)                                                                  \
    "\"" code "\":{\"description\":\"" text "\",\"content\":{\"application/json\":{"       \
    "\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}}"
/* clang-format off */
#define ERRORS                                                                             \
    ERROR("400", "something is wrong with the request") ","                                \
    ERROR("401", "no key") ","                                                             \
    ERROR("403", "a page of another origin") ","                                           \
    ERROR("413", "too large") ","                                                          \
    ERROR("415", "packed by Content-Encoding") ","                                         \
    ERROR("429", "the queue is full") ","                                                  \
    ERROR("500", "the server failed") ","                                                  \
    ERROR("503", "loading or stopping")
/* clang-format on */
#define KEYED "\"security\":[{\"key\":[]},{}],"

#define GET_OF(path, id, type, text, more)                                                 \
    "\"" path "\":{\"get\":{" KEYED "\"operationId\":\"" id "\"," more                     \
    "\"responses\":{\"200\":{\"description\":\"" text "\",\"content\":{\"" type            \
    "\":{}}}," ERROR("404", "no such thing") "," ERRORS "}}}"
#define POST_OF(path, id, schema, more)                                                    \
    "\"" path "\":{\"post\":{" KEYED "\"operationId\":\"" id                               \
    "\",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":" \
    "{\"$ref\":\"#/components/schemas/" schema "\"}}}},\"responses\":{\"200\":{"           \
    "\"description\":\"done\",\"content\":{\"application/json\":{}" more "}}," ERRORS      \
    "}}}"
#define STREAM ",\"text/event-stream\":{}"

/* clang-format off */
static const char paths[] =
    "}},\"paths\":{"
    GET_OF("/health", "health", "application/json", "ready", "") ","
    GET_OF("/metrics", "metrics", "text/plain", "Prometheus's text format", "") ","
    GET_OF("/v1/models", "models", "application/json", "the list of one", "") ","
    GET_OF("/v1/models/{id}", "model", "application/json", "the model",
           "\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
           "\"schema\":{\"type\":\"string\",\"minLength\":1}}],") ","
    POST_OF("/v1/chat/completions", "chat", "ChatRequest", STREAM) ","
    POST_OF("/v1/completions", "completion", "CompletionRequest", STREAM) ","
    POST_OF("/tokenize", "tokenize", "TokenizeRequest", "") ","
    POST_OF("/detokenize", "detokenize", "DetokenizeRequest", "") ","
    POST_OF("/apply-template", "template", "TemplateRequest", "") "}}\n";
/* clang-format on */

void ig__serve_openapi(ig_server *s, ig__exchange *x)
{
    ig__buffer *b = &s->openapi; /* made once */
    if (b->n == 0) {
        ig__buffer_printf(b, begin, ig_version());
        ig__buffer_append_text(b, message);
        ig__buffer_append_text(b, "\"ChatRequest\":");
        ig__fields_write_schema(b, IG_CHAT);
        ig__buffer_append_text(b, ",\"CompletionRequest\":");
        ig__fields_write_schema(b, IG_COMPLETION);
        ig__buffer_append_text(b, paths);
    }
    if (b->failed)
        ig__reply_error(x, 500, "server_error", NULL, NULL, "out of memory");
    else
        ig__http_reply(x, 200, "application/json", b->data, b->n);
}
