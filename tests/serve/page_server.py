"""Stands in for `ingot serve` where the chat page is tested: the same paths, answers that are
written here. What it answers follows from words in the last message:

    markdown, hostile, rtl, wide   a text of TEXTS
    long N                         N tokens as fast as they go; "slow" adds 50 ms a token
    think, length                  with reasoning_content; with finish_reason "length"
    cut                            half an answer, then the connection breaks
    busy                           429 with Retry-After: 1, twice
    ... full                       at its end: the context is exceeded
    broken                         500
    anything else                  "You said: " and the message

    page_server.py FOLDER [PORT]   serves page.html, page.css and page.js of the folder (a build
                                   makes them: made/serve/page) until it is ended
"""
import contextlib
import json
import pathlib
import re
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES = {"/": ("page.html", "text/html; charset=utf-8"), "/page.css": ("page.css", "text/css; charset=utf-8"),
         "/page.js": ("page.js", "text/javascript; charset=utf-8")}

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

HOSTILE = """<script>window.broken = 1</script> <img src=x onerror="window.broken = 2">

[plain](javascript:window.broken=3) [upper](JAVASCRIPT:window.broken=4) [tab](java\tscript:window.broken=5)
[data](data:text/html,<script>window.broken=6</script>) [vb](vbscript:x) [relative](/v1/models) [blob](blob:x)
![picture](https://example.org/track.png) <javascript:window.broken=7> <a href="javascript:window.broken=8">x</a>
[good](https://example.org/a?b=c&d=%22) https://example.org/bare). [quote](https://example.org/"onclick="x)

<iframe srcdoc="<script>parent.broken=9</script>"></iframe>

| <b>a</b> | [x](javascript:window.broken=10) |
|---|---|
| `<script>window.broken = 11</script>` | <svg onload=window.broken=12> |

```<script>
</code></pre><script>window.broken = 13</script>
```

&lt;script&gt;window.broken = 14&lt;/script&gt; <style>* { display: none }</style> <base href="//evil">

""" + ">" * 3000 + " deep\n\n" + "- " * 500 + "x\n\n" + "*" * 4000 + "a" + "[" * 4000 + "](" * 2000 + "\n\n" \
    + "x " + "`" * 99 + " ``" * 500 + "\n\n" + "**a *b " * 2000 + "\n\n" + "*a **b " * 100 + "c" + "** d* e" * 100 + "\n\n" + "1. " * 400 + "\n\nend of it\n\n```\nunclosed <b>"

MARKDOWN = """## A ladder of speeds

Ingot keeps **all weights packed** for the machine's own instructions, so that *one* pass over memory makes a token. What bounds it is the bandwidth: `bytes / second`.

1. Read the prompt in pieces
2. Write keys and values into **pages**
   - counted, so forks share them
   - copied only when written
3. Draw the next token

```c
/* y = x / rms(x) * g, for each row */
static void rms_norm(float *y, const float *x, const float *g, int64_t D)
{
    double sum = 0.0;
    for (int64_t i = 0; i < D; i++) {
        sum += (double)x[i] * x[i];
    }
    const float scale = 1.0f / sqrtf((float)(sum / D) + 1e-5f);
    for (int64_t i = 0; i < D; i++) {
        y[i] = x[i] * scale * g[i];
    }
}
```

| Phase | Bound by | Share |
|:------|:---------|------:|
| Prompt | products | 71 % |
| Decode | bandwidth | 84 % |

> The same request gives the same bits, whatever runs beside it.

- [x] measured on this machine
- [ ] measured on yours: see [the page on it](https://example.org/benchmarks)
"""

RTL = """### \u0645\u0631\u062d\u0628\u0627 \u0628\u0643

\u0647\u0630\u0627 \u0646\u0635 \u0628\u0627\u0644\u0644\u063a\u0629 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u0645\u0639 **\u0643\u0644\u0645\u0629 \u0645\u0647\u0645\u0629** \u0648 `int x = 1;` \u0641\u064a \u0627\u0644\u0633\u0637\u0631.

- \u0627\u0644\u0623\u0648\u0644
- \u0627\u0644\u062b\u0627\u0646\u064a

And a paragraph in English \U0001f999.
"""

TEXTS = {"markdown": MARKDOWN, "hostile": HOSTILE, "rtl": RTL,
         "wide": "Donaudampfschifffahrt" * 60 + "\n\n`" + "x" * 900 + "`\n\n```\n" + "y" * 900 + "\n```\n\n"
                 + "|" + " column with words |" * 14 + "\n|" + "---|" * 14 + "\n|" + " cell |" * 14}


def tokens_of(text):
    return re.findall(r"\s*\S{1,6}|\s+", text)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json", more=()):
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in more:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def fail(self, status, message, more=(), **fields):
        self.send(status, json.dumps({"error": {"message": message, "type": "error", "code": None, **fields}}),
                  more=more)

    def refused(self):
        key = self.server.key
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.fail(401, "a key is needed: Authorization: Bearer KEY")
            return True
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in FILES:
            name, kind = FILES[path]
            self.send(200, (self.server.folder / name).read_bytes(), kind, [
                ("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff"),
                ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-cache")])
        elif self.refused():
            return
        elif path == "/v1/models":
            self.send(200, json.dumps({"object": "list", "data": [
                {"id": x, "object": "model", "max_model_len": 8192} for x in self.server.models]}))
        elif path == "/metrics":
            self.send(200, self.server.metrics(), "text/plain; version=0.0.4")
        else:
            self.fail(404, "no such path")

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length))
        if self.refused():
            return
        self.server.requests.append(body)
        words = body["messages"][-1]["content"]
        if "busy" in words and self.server.busy > 0:
            self.server.busy -= 1
            self.fail(429, "the queue is full: 64 requests wait", [("Retry-After", "1")])
        elif words.endswith("full"):
            self.fail(400, "the prompt has 9000 tokens, the context 8192", type="invalid_request_error",
                      code="context_length_exceeded", n_prompt_tokens=9000, n_ctx=8192)
        elif "broken" in words:
            self.fail(500, "decode: layer 3, ffn_norm: NaN")
        else:
            self.stream(body, words)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def event(self, delta, finish=None, **more):
        # in two pieces, so that a reader meets characters and lines that are not whole
        choice = [{"index": 0, "delta": delta, "finish_reason": finish}]
        data = "data: " + json.dumps({"id": "x", "choices": choice, "model": "mock", **more}, ensure_ascii=False) + "\n\n"
        raw = data.encode()
        cut = len(raw) // 2
        self.chunk(raw[:cut])
        self.chunk(raw[cut:])

    def stream(self, body, words):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        name = next((x for x in TEXTS if x in words), None)
        long = re.search(r"long (\d+)", words)
        tokens = tokens_of(TEXTS[name] if name else f"You said: {words}")
        if long:
            tokens = (tokens_of(MARKDOWN) * (int(long[1]) // 100))[:int(long[1])]
        pause = 0.05 if "slow" in words else 0.012 if "pretty" in words else 0
        prompt = sum(len(tokens_of(x["content"])) for x in body["messages"])
        self.server.running += 1
        try:
            self.chunk(b": ping\n\n")
            self.event({"role": "assistant", "content": ""})
            if "think" in words:
                for token in tokens_of("The question is short. A short answer is right."):
                    self.event({"reasoning_content": token})
            for i, token in enumerate(tokens):
                if "cut" in words and i == len(tokens) // 2:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                self.event({"content": token})
                self.server.made += 1
                if pause:
                    time.sleep(pause)
            self.event({}, "length" if "length" in words else "stop")
            usage = {"prompt_tokens": prompt, "completion_tokens": len(tokens), "total_tokens": prompt + len(tokens),
                     "prompt_tokens_details": {"cached_tokens": prompt // 2}}
            if (body.get("stream_options") or {}).get("include_usage"):
                self.chunk(("data: " + json.dumps({"id": "x", "choices": [], "usage": usage}) + "\n\n").encode())
            self.chunk(b"data: [DONE]\n\n")
            self.chunk(b"")
        except OSError:
            self.server.left += 1
            self.close_connection = True
        finally:
            self.server.running -= 1


class PageServer(ThreadingHTTPServer):
    """The page and a made-up model. `key`, `busy` and `models` may be set while it runs;
    `requests` are the bodies that came, `left` counts clients that went away."""
    daemon_threads = True
    block_on_close = False

    def __init__(self, folder, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.folder = pathlib.Path(folder)
        self.key = None
        self.busy = 2
        self.models = ["SmolLM2-135M-Instruct"]
        self.requests = []
        self.left = self.running = self.made = 0
        self.sockets = []

    def handle_error(self, *_):
        pass

    def process_request(self, request, address):
        self.sockets.append(request)
        super().process_request(request, address)

    def stop(self):
        """As a server that was ended: no connection stays."""
        self.shutdown()
        self.server_close()
        for open_socket in self.sockets:
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def metrics(self):
        busy = min(1, self.running)
        return "".join(f"# TYPE ingot:{name.split('{')[0]} gauge\ningot:{name} {value}\n" for name, value in {
            'num_requests_running{model_name="mock"}': self.running, 'num_requests_waiting{model_name="mock"}': 0,
            'kv_cache_usage_perc{model_name="mock"}': 0.07 + 0.11 * busy,
            'prompt_tokens_total{model_name="mock"}': 37 * len(self.requests),
            'generation_tokens_total{model_name="mock"}': self.made,
            'limit_share{phase="decode"}': 0.84 * busy, 'limit_share{phase="prefill"}': 0.71 * busy}.items())

    def at_rest(self, patience=30):
        """Nobody is answered any more: who left was noticed."""
        end = time.time() + patience
        while self.running:
            assert time.time() < end, "an answer goes on for nobody"
            time.sleep(0.02)

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server_address[1]}/"


if __name__ == "__main__":
    server = PageServer(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8080)
    print(f"http://127.0.0.1:{server.server_address[1]}/")
    server.serve_forever()
