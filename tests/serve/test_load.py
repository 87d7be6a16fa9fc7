"""`ingot bench --serve`: against a server of ours with a tiny model, and against sockets that
answer as they are told.

    test_load.py BINARY [unittest's arguments]
"""
import csv
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tiny_gguf
from served import Served

BINARY = None
FOLDER = tempfile.TemporaryDirectory(prefix="ingot-load-")


def bench(url, *options, code=0):
    done = subprocess.run([BINARY, "bench", "--serve", url, *options], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != code:
        raise AssertionError(f"exit code {done.returncode}: {done.stdout} {done.stderr}")
    return done


def load(url, *options, code=0):
    return json.loads(bench(url, *options, "--json", code=code).stdout)


class Answering:
    """A server that reads one request a connection and gives it to `answer(i, socket, head,
    body)`."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.requests, self.threads = [], []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            t = threading.Thread(target=self.serve, args=(s,), daemon=True)
            t.start()
            self.threads.append(t)

    def serve(self, s):
        with s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            got = b""
            while b"\r\n\r\n" not in got:
                piece = s.recv(65536)
                if not piece:
                    return  # the look whether anybody is there
                got += piece
            head, body = got.split(b"\r\n\r\n", 1)
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            while len(body) < int(fields["Content-Length"]):
                body += s.recv(65536)
            i = len(self.requests)
            self.requests.append((head.decode().split("\r\n")[0], fields, json.loads(body)))
            try:
                self.answer(i, s)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for t in self.threads:
            t.join(10)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def chunk(raw, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(raw), extension, raw)


def event(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def token(text):
    return event(choices=[{"index": 0, "delta": {"content": text}}])


USAGE = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 3,
                                 "prompt_tokens_details": {"cached_tokens": 5}})
DONE = b"data: [DONE]\n\n"
STREAM = (event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}]) +
          b": a comment\n\n" + token("a") + token("b") + token("\u00e9") + USAGE + DONE)


class Client(unittest.TestCase):
    def of_bytes(self, *raws, code=0, options=()):
        """The figures of one request answered by these bytes, a send each."""
        def answer(_, s):
            for raw in raws:
                s.sendall(raw)
        with Answering(answer) as a:
            return load(a.url, "--requests", "1", "--input", "3", *options, code=code)

    def kind(self, name, *raws, words=""):
        got = self.of_bytes(*raws, code=1)
        self.assertEqual((list(got["errors"]), got["ok"]), ([name], 0), got)
        self.assertEqual(got["errors"][name]["n"], 1)
        self.assertIn(words, got["errors"][name]["first"])
        self.assertIsNone(got["ttft_ms"]["mean"])

    def assert_stream(self, got):
        self.assertEqual((got["ok"], got["requests"], got["errors"]), (1, 1, {}))
        self.assertEqual((got["tokens"], got["prompt_tokens"], got["cached_tokens"]), (3, 7, 5))

    def test_framing(self):
        """Every way to cut the same stream."""
        whole = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(STREAM) + b"0\r\n\r\n"
        small = HEAD + b"transfer-encoding:  Chunked\r\n\r\n" + b"".join(
            chunk(STREAM[i:i + 7], b";x=y") for i in range(0, len(STREAM), 7)) + \
            b"0\r\nTrailer: x\r\n\r\n"
        sized = HEAD + b"Content-Length: %d\r\n\r\n" % len(STREAM) + STREAM
        to_end = b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"\r\n" + STREAM
        crlf = HEAD + b"\r\n" + STREAM.replace(b"\n", b"\r\n")
        for raw in whole, small, sized, to_end, crlf:
            self.assert_stream(self.of_bytes(raw))
        self.assert_stream(self.of_bytes(*(small[i:i + 1] for i in range(len(small)))))

    def test_times(self):
        """First token after 0.1 s, gaps of 0.1 and 0.3 s."""
        def answer(_, s):
            s.sendall(HEAD + b"\r\n")
            for wait, raw in (0.1, token("a")), (0.1, token("b")), (0.3, token("c")), (0.1, USAGE):
                time.sleep(wait)
                s.sendall(raw)
            s.sendall(DONE)
        with Answering(answer) as a:
            got = load(a.url, "--requests", "2", "--users", "2")
        self.assertEqual((got["ok"], got["most_open"]), (2, 2))
        for value, least in ((got["ttft_ms"]["p50"], 100), (got["itl_ms"]["p50"], 100),
                             (got["itl_ms"]["longest"], 300), (got["itl_ms"]["mean"], 200),
                             (got["e2e_ms"]["p99"], 600), (1000 * got["wall_s"], 600)):
            self.assertGreater(value, least - 40, got)
            self.assertLess(value, least + 1500, got)
        self.assertLess(got["itl_ms"]["p50"] + 100, got["itl_ms"]["longest"])
        self.assertAlmostEqual(got["tps"], 6 / got["wall_s"], 3)

    def test_without_usage(self):
        """A server that counts nothing: a token an event."""
        got = self.of_bytes(HEAD + b"\r\n" + STREAM.replace(USAGE, b""))
        self.assertEqual((got["ok"], got["tokens"], got["tokens_are_events"]), (1, 3, True))

    def test_kinds_of_errors(self):
        refusal = b'{"error": {"message": "no such\\nmodel"}}'
        refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(refusal) + refusal
        self.kind("refused", refused, words="404: no such?model")
        self.kind("busy", refused.replace(b"404", b"429"), words="429: ")
        self.kind("busy", b"HTTP/1.1 503 Not Yet\r\n\r\nloading", words="503: loading")
        self.kind("failed", HEAD + b"\r\n" + token("a") + event(error={"message": "boom"}),
                  words="boom")
        self.kind("closed", HEAD + b"\r\n" + STREAM.replace(DONE, b""))
        self.kind("closed", HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(STREAM)[:-9])
        self.kind("closed")
        self.kind("closed", b"HTTP/1.1 200 O")
        self.kind("malformed", b"SSH-2.0-x\r\n")
        self.kind("malformed", HEAD + b"Transfer-Encoding: gzip\r\n\r\n")
        self.kind("malformed", HEAD + b"Content-Length: -1\r\n\r\n")
        self.kind("malformed", HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        self.kind("malformed", HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n")
        self.kind("malformed", HEAD + b"X: " + b"x" * 5000 + b"\r\n\r\n")
        self.kind("malformed", HEAD + b"\r\ndata: {\n\n", words="{")
        self.kind("malformed", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", words="stream")
        self.kind("malformed", HEAD + b"\r\n" + DONE, words="before it began")
        for count in -3, "x", 1.5:
            self.kind("malformed", HEAD + b"\r\n" + token("a") + event(
                choices=[], usage={"prompt_tokens": 1, "completion_tokens": count}) + DONE,
                      words="completion_tokens")
        self.kind("malformed", HEAD + b"\r\n" + USAGE + DONE, words="before it began")

    def test_timeout(self):
        with Answering(lambda _, s: (s.sendall(HEAD + b"\r\n" + token("a")), s.recv(1))) as a:
            start = time.monotonic()
            got = load(a.url, "--requests", "2", "--timeout", "0.2", code=1)
            self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(got["errors"]["timeout"]["n"], 2)

    def test_some_fail(self):
        """Those that fail are no part of the figures."""
        def answer(i, s):
            s.sendall(HEAD + b"\r\n" + (STREAM if i % 2 else token("x")))
        with Answering(answer) as a:
            got = load(a.url, "--requests", "6", "--users", "1")
        self.assertEqual((got["ok"], got["errors"]["closed"]["n"], got["tokens"]), (3, 3, 9))

    def test_requests(self):
        """What is asked; the same again with the same seed, other texts with another."""
        def bodies(*options, path="/v1/chat/completions", base="", users="1"):
            with Answering(lambda _, s: s.sendall(HEAD + b"\r\n" + STREAM)) as a:
                load(a.url + base, "--requests", "12", "--users", users, "--input", "2-5", "--output",
                     "3-9", *options)
                for line, fields, _ in a.requests:
                    self.assertEqual(line, f"POST {path} HTTP/1.1")
                    self.assertEqual(fields["Host"], a.url[7:])
                return [body for _, _, body in a.requests], a.requests[0][1]
        first, fields = bodies("--shared", "40", "--model", "m\u00e9", "--ignore-eos")
        self.assertNotIn("Authorization", fields)
        systems = {b["messages"][0]["content"] for b in first}
        self.assertEqual([len(s.split()) for s in systems], [40])
        lengths = {len(b["messages"][1]["content"].split()) for b in first}
        self.assertTrue(lengths <= {2, 3, 4, 5} and len(lengths) > 1, lengths)
        outputs = {b["max_tokens"] for b in first}
        self.assertTrue(outputs <= set(range(3, 10)) and len(outputs) > 1, outputs)
        self.assertEqual({(b["model"], b["stream"], b["ignore_eos"]) for b in first},
                         {("m\u00e9", True, True)})
        again, _ = bodies("--shared", "40", "--model", "m\u00e9", "--ignore-eos", base="/v1/")
        self.assertEqual(first, again)
        other, _ = bodies("--shared", "40", "--seed", "1")
        self.assertNotEqual(first[0]["messages"], other[0]["messages"])
        key = os.path.join(FOLDER.name, "key")
        with open(key, "w") as f:
            f.write("# ours\nsecret\n")
        texts, fields = bodies("--completions", "--api-key-file", key, path="/v1/completions")
        self.assertEqual(fields["Authorization"], "Bearer secret")
        self.assertNotIn("ignore_eos", texts[0])
        self.assertIn(len(texts[0]["prompt"].split()), range(2, 6))

    def test_arrivals(self):
        """200 a second for half a second, whatever the answers take."""
        def answer(_, s):
            time.sleep(0.3)
            s.sendall(HEAD + b"\r\n" + STREAM)
        with Answering(answer) as a:
            got = load(a.url, "--rate", "200", "--seconds", "0.5", "--input", "1")
        self.assertIn(got["ok"], range(60, 150))
        self.assertGreater(got["most_open"], 20)
        self.assertIn(round(got["ttft_ms"]["p50"]), range(290, 2000))

    def test_wrong_lines(self):
        for options, words in ((("--input", "5-4"), "--input is '5-4'"),
                               (("--output", "0"), "--output is '0'"),
                               (("--json", "--csv"), "exclude each other"),
                               (("model.gguf",), "not 'model.gguf'"),
                               (("--users", "5000"), "--users is '5000'")):
            self.assertIn(words, bench("http://127.0.0.1:1", *options, code=2).stderr)
        for url, words in (("https://127.0.0.1", "no http://"), ("http://", "no address"),
                           ("http://h:x", "no address"), ("http://a b", "no address"),
                           ("http://[::1", "no address"), ("ftp://a", "no http://"),
                           ("http://127.0.0.1:65536", "no address")):
            self.assertIn(words, bench(url, code=2).stderr)
        self.assertIn("cannot connect", bench("http://127.0.0.1:1", code=1).stderr)


class Ours(unittest.TestCase):
    def test_load(self):
        model = os.path.join(FOLDER.name, "tiny.gguf")
        tiny_gguf.write(model)
        s = Served(BINARY, model, "--ctx", "1024", "--max-running", "4", "--quiet")
        try:
            url = f"http://127.0.0.1:{s.port}"
            exact = ("--ignore-eos", "--input", "5-20", "--output", "7", "--shared", "60")
            got = load(url, "--requests", "24", "--users", "6", *exact)
            self.assertEqual((got["ok"], got["errors"], got["tokens"]), (24, {}, 7 * 24))
            self.assertGreater(got["cached_tokens"], 23 * 200)
            self.assertFalse(got["tokens_are_events"])
            for name in "ttft_ms", "itl_ms", "e2e_ms":
                f = got[name]
                self.assertTrue(f["p50"] <= f["p90"] <= f["p99"] <= f["longest"], got)
            self.assertLessEqual(got["ttft_ms"]["longest"], got["e2e_ms"]["longest"])
            self.assertEqual(s.metric("generation_tokens_total"), 7 * 24)
            rows = list(csv.DictReader(io.StringIO(bench(
                url, "--requests", "3", "--completions", *exact, "--csv").stdout)))
            self.assertEqual((rows[0]["ok"], rows[0]["tokens"]), ("3", "21"))
            self.assertGreater(float(rows[0]["e2e_longest_ms"]), 0)
            table = bench(url, "--requests", "3", *exact).stdout
            self.assertIn("3 well, 0 not", table)
            self.assertIn("between tokens", table)
        finally:
            code = s.stop()
        self.assertEqual(code, 0, s.said)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
