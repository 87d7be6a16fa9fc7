/* One request to /v1/chat/completions and its stream of events.
 *
 * Server-sent events as the wire has them: lines end in LF or CRLF, `data:` lines until an empty
 * line are one event, a line with a colon in front is a comment (the server's ping). A stream
 * that ends without [DONE] was cut. What goes wrong becomes a ChatError: a kind, by which the
 * page chooses what to offer, and a sentence for people. */

class ChatError extends Error {
    constructor(kind, text, more = {}) {
        super(text);
        this.kind = kind; /* key, busy, long, loading, gone, refused, server */
        this.retryAfter = more.retryAfter || 0;
        this.detail = more.detail || "";
    }
}

function headers() {
    const key = apiKey();
    return key ? { Authorization: "Bearer " + key } : {};
}

/* Feeds text in pieces, gives each event's data to `onData`. */
class EventReader {
    constructor(onData) {
        this.onData = onData;
        this.rest = "";
        this.data = [];
    }

    push(text) {
        const lines = (this.rest + text).split("\n");
        this.rest = lines.pop();
        for (const raw of lines) {
            const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
            if (line === "") {
                if (this.data.length) {
                    this.onData(this.data.join("\n"));
                }
                this.data = [];
            } else if (line.startsWith("data:")) {
                this.data.push(line.slice(line[5] === " " ? 6 : 5));
            }
        }
    }
}

/* Seconds from a Retry-After header, in either of its two forms. */
function retrySeconds(value) {
    const seconds = Number(value);
    if (value && Number.isFinite(seconds)) {
        return Math.min(Math.max(Math.ceil(seconds), 1), 3600);
    }
    const date = Date.parse(value || "");
    return Number.isFinite(date) ? Math.min(Math.max(Math.ceil((date - Date.now()) / 1000), 1), 3600) : 0;
}

/* The server's error object into words. */
function errorFrom(status, error, retryAfter) {
    const message = typeof error.message === "string" ? error.message : "";
    const kind = `${error.code || ""} ${error.type || ""}`;
    if (status === 401 || status === 403) {
        return new ChatError("key", apiKey() ? "The server does not take this key." : "This server asks for a key.",
            { detail: apiKey() ? message : "" });
    }
    if (status === 429) {
        return new ChatError("busy", "The server is busy.",
            { retryAfter: retryAfter || 5, detail: message });
    }
    if (/context_length_exceeded|exceed_context_size/.test(kind)) {
        const counts = Number.isFinite(error.n_prompt_tokens) && Number.isFinite(error.n_ctx)
            ? ` It has ${NUMBER.format(error.n_prompt_tokens)} tokens; the context holds ${NUMBER.format(error.n_ctx)}.` : "";
        return new ChatError("long", "This conversation is longer than the model's context." + counts,
            { detail: counts ? "" : message });
    }
    if (status === 503) {
        return new ChatError("loading", "The server is not ready yet.", { retryAfter: retryAfter || 2, detail: message });
    }
    if (status >= 500) {
        return new ChatError("server", "The server ran into an error.", { detail: message });
    }
    return new ChatError("refused", message || `The server refused the request (${status}).`);
}

async function errorOf(response) {
    let error = {};
    try {
        const body = await response.json();
        error = body.error || body;
    } catch (nothing) {
        error = {};
    }
    return errorFrom(response.status, typeof error === "string" ? { message: error } : error,
        retrySeconds(response.headers.get("Retry-After")));
}

const GONE = "The server does not answer. Is it still running?";

async function post(body, signal) {
    let response;
    try {
        response = await fetch("v1/chat/completions", {
            method: "POST", signal, credentials: "omit", cache: "no-store",
            headers: { "Content-Type": "application/json", ...headers() },
            body: JSON.stringify(body),
        });
    } catch (error) {
        throw error.name === "AbortError" ? error : new ChatError("gone", GONE);
    }
    if (!response.ok) {
        throw await errorOf(response);
    }
    return response;
}

/* Sends the request and calls onDelta({ content, reasoning, finish, usage, model }) for what
 * comes. Returns true when the stream was whole. An abort by `signal` throws AbortError. */
async function streamChat(body, signal, onDelta) {
    const response = await post({ ...body, stream: true, stream_options: { include_usage: true } }, signal);
    let whole = false;
    let failure = null;
    const events = new EventReader((data) => {
        if (data === "[DONE]") {
            whole = true;
            return;
        }
        let chunk;
        try {
            chunk = JSON.parse(data);
        } catch (error) {
            failure ||= new ChatError("server", "The server sent something that is no answer.");
            return;
        }
        if (chunk.error) {
            failure ||= errorFrom(chunk.error.status || chunk.error.code || 500, chunk.error, 0);
            return;
        }
        const choice = (chunk.choices || [])[0] || {};
        const delta = choice.delta || {};
        onDelta({ content: delta.content || "", reasoning: delta.reasoning_content || "",
                  finish: choice.finish_reason || null, usage: chunk.usage || null, model: chunk.model });
    });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) {
                break;
            }
            events.push(decoder.decode(value, { stream: true }));
        }
    } catch (error) {
        if (error.name === "AbortError") {
            throw error;
        }
        return false; /* the connection broke */
    }
    if (failure) {
        throw failure;
    }
    return whole;
}

/* The models that the server has: [{ id, context }], or throws a ChatError. */
async function fetchModels() {
    let response;
    try {
        response = await fetch("v1/models", { headers: headers(), credentials: "omit", cache: "no-store" });
    } catch (error) {
        throw new ChatError("gone", GONE);
    }
    if (!response.ok) {
        throw await errorOf(response);
    }
    const list = (await response.json()).data || [];
    return list.map((x) => ({ id: String(x.id), context: Number(x.max_model_len || x.context_length || x.meta?.n_ctx) || 0 }));
}
