"""The life of a server: starting, measuring, stopping, and files that are no model (S15).

    test_life.py BINARY [unittest's arguments]
"""
import json
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import tiny_gguf
from served import Served, read_until, request_bytes

BINARY = None
FOLDER = tempfile.TemporaryDirectory(prefix="ingot-life-")
FORCE_A = {str(tiny_gguf.byte_id(ord("a"))): 100}  # "a" is what every draw gives


def tiny_path():
    path = os.path.join(FOLDER.name, "tiny.gguf")
    return path if os.path.exists(path) else tiny_gguf.write(path)


class Measuring(unittest.TestCase):
    """What the machine can do is measured in quiet moments, and nobody waits for it."""

    def test_a_request_ends_it(self):
        # on a busy machine the measurement may be over before the request is there
        self.assertTrue(any(self.is_ended() for _ in range(5)))

    def is_ended(self):
        s = Served(BINARY, tiny_path(), "--ctx", "256", "--quiet", measure=True)
        try:
            s.complete("x", max_tokens=1)
            self.until(lambda start=s.cpu_s(): s.cpu_s() - start > 0.05)
            s.complete("x", max_tokens=1)
            # it was given up: a moment later nothing is known yet
            ended = "limit_share" not in s.ask("GET", "/metrics")[2].decode()
            self.until(lambda: "limit_share" in s.ask("GET", "/metrics")[2].decode(), 60)
            return ended
        finally:
            self.assertEqual(s.stop(), 0)

    def until(self, holds, seconds=20):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class Ending(unittest.TestCase):
    """Starting and stopping."""

    def test_kill(self):
        """Killed in the middle of answers: the next one has the port at once, and nothing of
        the first is left."""
        before = set(os.listdir(FOLDER.name))
        tiny_path()
        port = 0
        for i in range(4):
            s = Served(BINARY, tiny_path(), "--ctx", "2048", "--quiet", port=port)
            self.assertIn(port, (0, s.port))
            port = s.port
            self.assertEqual(s.json("/health"), {"status": "ok"})
            self.assertEqual(s.metric("prefix_cache_hits_total"), 0)
            held = [s.connect() for _ in range(6)]
            for c in held:
                c.sendall(request_bytes("/v1/completions", {
                    "prompt": "x", "max_tokens": 2000, "ignore_eos": True, "stream": True,
                    "logit_bias": FORCE_A}))
            read_until(held[0], b"data: ")
            s.process.kill()
            s.process.wait()
            for c in held:
                c.settimeout(10)
                try:
                    while c.recv(65536):
                        pass
                except ConnectionError:
                    pass
                c.close()
            s.stop()
        self.assertEqual(set(os.listdir(FOLDER.name)) - before, {"tiny.gguf"} - before)

    def test_drain(self):
        """SIGTERM: what was begun is finished, nothing new is taken, the exit code is 0."""
        s = Served(BINARY, tiny_path(), "--ctx", "2048")
        body = {"prompt": "secret-word", "max_tokens": 1500, "ignore_eos": True,
                "logit_bias": FORCE_A, "stream": True}
        c = s.connect()
        c.sendall(request_bytes("/v1/completions", body, "Connection: close"))
        read_until(c, b"data: ")
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with self.assertRaises(OSError):
            s.connect(timeout=2)
        got = b""
        while piece := c.recv(65536):
            got += piece
        self.assertIn(b"[DONE]", got)
        self.assertEqual(s.stop(), 0)
        self.assertNotIn("secret-word", s.said)
        lines = [json.loads(x) for x in s.said.splitlines() if x.startswith("{")]
        [line] = [x for x in lines if x.get("path") == "/v1/completions"]
        self.assertEqual((line["status"], line["finish"], line["completion_tokens"]),
                         (200, "length", 1500))

    def test_stop_twice(self):
        """A second signal ends what still runs."""
        s = Served(BINARY, tiny_path(), "--ctx", "2048", "--max-running", "1", "--quiet")
        held = []
        for _ in range(20):
            c = s.connect()
            c.sendall(request_bytes("/v1/completions", {
                "prompt": "x", "max_tokens": 2000, "ignore_eos": True, "logit_bias": FORCE_A}))
            held.append(c)
        time.sleep(0.1)
        s.process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        started = time.monotonic()
        self.assertEqual(s.stop(signal.SIGINT), 0)
        self.assertLess(time.monotonic() - started, 10)

    def test_unread_answer(self):
        """A client that does not read its answer holds up the end no longer than a second."""
        s = Served(BINARY, tiny_path(), "--quiet")
        c = s.connect()
        c.sendall(request_bytes("/tokenize", {"content": "a" * (1 << 20), "with_pieces": True}))
        c.recv(10)
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        self.assertIsNone(s.process.poll())
        started = time.monotonic()
        self.assertEqual(s.stop(), 0)
        self.assertLess(time.monotonic() - started, 5)
        c.close()

    def test_held(self):
        """Bodies on their way are bounded together; what was held is free again afterwards."""
        s = Served(BINARY, tiny_path(), "--quiet")
        n = 8 << 20
        head = (b"POST /tokenize HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n" % n)
        for clients in 40, 1:
            held = [s.connect() for _ in range(clients)]
            for c in held:
                c.sendall(head + b" " * (n - 1))
            seen = []  # what is small finds room all the same
            self.assertEqual(s.json("/tokenize", {"content": "a" * 300})["count"], 300)
            for c in held:
                c.sendall(b"x")
                seen.append(int(read_until(c, b"\r\n")[9:12]))
                c.close()
            self.assertLessEqual(set(seen), {400, 429, 503})
            self.assertEqual(503 in seen, clients > 32, seen)
        self.assertEqual(s.stop(), 0)

    def test_arriving(self):
        """A request whose body is on its way at SIGTERM is answered."""
        s = Served(BINARY, tiny_path(), "--quiet")
        body = request_bytes("/v1/completions", {"prompt": "a", "max_tokens": 3})
        c = s.connect()
        c.sendall(body[:-5])
        time.sleep(0.2)
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        c.sendall(body[-5:])
        self.assertIn(b"total_tokens", read_until(c, b"total_tokens"))
        c.close()
        self.assertEqual(s.stop(), 0)

    def test_logged_bodies(self):
        """--log-prompts: the bodies of those who left too."""
        s = Served(BINARY, tiny_path(), "--ctx", "2048", "--log-prompts")
        c = s.connect()
        c.sendall(request_bytes("/v1/completions", {
            "prompt": "left-behind", "max_tokens": 2000, "ignore_eos": True, "stream": True}))
        read_until(c, b"data: ")
        c.close()
        s.wait_idle(10)
        self.assertEqual(s.stop(), 0)
        lines = [json.loads(x) for x in s.said.splitlines() if x.startswith("{")]
        [line] = [x for x in lines if x.get("path") == "/v1/completions"]
        self.assertEqual(line["finish"], "cancelled")
        self.assertIn("left-behind", line["body"])

    def test_context_that_fits(self):
        s = Served(BINARY, tiny_path(), "--quiet", "--ctx", "100000", "--kv-memory", "1")
        n = s.about["context"]
        self.assertEqual(s.stop(), 0)
        self.assertIn(f"a context of {n} tokens, not 100000: --kv-memory holds no more", s.said)

    def test_no_descriptors(self):
        """More clients than descriptors: some wait, and all are answered as others leave."""
        s = Served(BINARY, tiny_path(), "--quiet", limits={resource.RLIMIT_NOFILE: (40, 40)})
        try:
            clients = [s.connect(timeout=10) for _ in range(100)]
            for c in clients:
                c.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            before = s.cpu_s()
            time.sleep(0.5)
            self.assertLess(s.cpu_s() - before, 0.2)  # waiting is no work
            for c in clients:
                self.assertIn(b" 200 ", read_until(c, b"}\n"))
                c.close()
            self.assertEqual(s.json("/health"), {"status": "ok"})
        finally:
            self.assertEqual(s.stop(), 0)

    def test_refusals(self):
        def fails(*options, words):
            with self.assertRaises(RuntimeError) as caught:
                Served(BINARY, *options)
            self.assertIn(words, str(caught.exception))
        fails("/no/such/file", words="/no/such/file")
        fails(tiny_path(), "--api-key-file", "/no/such/keys", words="/no/such/keys")
        fails(tiny_path(), "--tls-cert", "/no/such/cert", words="both --tls-cert and --tls-key")
        fails(tiny_path(), "--host", "no.such.host.invalid", words="no.such.host.invalid")
        for name in "", "a" * 128:
            fails(tiny_path(), "--alias", name, words="1 to 127")
        for origin in ("a.example", "https://a.example/", "://a", "https://", "https://a, https://b",
                       ""):
            fails(tiny_path(), "--cors", origin, words="no origin")
        s = Served(BINARY, tiny_path(), "--quiet", "--alias", "org/" + "a" * 123, "--cors", "*",
                   "--cors", "null", "--cors", "http://[::1]:80")
        self.assertEqual(s.json("/v1/models/org/" + "a" * 123)["id"], "org/" + "a" * 123)
        fails(tiny_path(), "--port", str(s.port), words="cannot listen")
        s.stop()


def header(tensors=0, kvs=0, version=3, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, tensors, kvs)


def one_key(kind, value, name=b"x", length=None):
    """A file with one key; its name's length as it is, or as it says."""
    n = len(name) if length is None else length
    return header(kvs=1) + struct.pack("<Q", n) + name + struct.pack("<I", kind) + value


def damaged():
    """The cases of S15, and what the line must name."""
    u64 = struct.Struct("<Q").pack
    array = struct.Struct("<IQ").pack
    deep = b"".join(array(9, 1) for _ in range(1000)) + array(0, 0)
    with open(tiny_path(), "rb") as f:
        tiny = f.read()
    types, tokens = (tiny.index(name) + len(name) + 4 for name in
                     (b"tokenizer.ggml.token_type", b"tokenizer.ggml.tokens"))
    alignment = b"general.alignment"
    return {
        "a": (b"GGUF", "byte"),
        "b": (header(tensors=1 << 63), "tensor"),
        "c": (header(kvs=(1 << 64) - 1), "key"),
        "d": (one_key(0, b"", length=1 << 63), "byte"),
        "e": (one_key(0, b"\0", name=b""), "byte"),
        "f": (one_key(8, u64((1 << 64) - 1)), "byte"),
        "g": (one_key(9, array(0, 1 << 63)), "byte"),
        "h": (one_key(9, deep), "byte"),
        "i": (one_key(13, b""), "13"),
        "j": (one_key(7, b"\2"), "2"),
        "k0": (one_key(4, struct.pack("<I", 0), alignment), "alignment"),
        "k3": (one_key(4, struct.pack("<I", 3), alignment), "alignment"),
        "ks": (one_key(8, u64(2) + b"32", alignment), "alignment"),
        "l1": (header(version=1), "version"),
        "l4": (header(version=4), "version"),
        "lb": (header(version=0x03000000), "version"),
        "m": (header(kvs=2) + 2 * (u64(1) + b"x" + struct.pack("<IB", 0, 1)), "x"),
        "n": (header(magic=b"GGJT"), "byte 0"),
        "o": (tiny[:types] + struct.pack("<I", 0) + tiny[types + 4:], "byte"),
        "p": (tiny[:tokens + 4] + u64(1 << 40) + tiny[tokens + 12:], "tokens"),
    }


class Damaged(unittest.TestCase):
    """S15: a file that is no model is one line and exit code 1, at once, and nobody is served."""

    def refuse(self, path):
        """What was said, and the seconds of processor time and peak bytes of the process."""
        with socket.socket() as s:  # a port that nobody has
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        p = subprocess.Popen([BINARY, "serve", path, "--port", str(port), "--no-measure"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = p.stdout.read(), p.stderr.read()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        p.stdout.close()
        p.stderr.close()
        self.assertEqual((p.returncode, out), (1, ""), err)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
        return err, used

    def test_s15(self):
        path = os.path.join(FOLDER.name, "damaged.gguf")
        base = None  # what a process of this build takes that has nothing to read
        for name, (raw, word) in {"-": (b"", "byte"), **damaged()}.items():
            with self.subTest(case=name):
                with open(path, "wb") as f:
                    f.write(raw)
                err, used = self.refuse(path)
                self.assertEqual(err.count("\n"), 1, err)
                for part in path, "byte", word:
                    self.assertIn(part, err)
                base = base or used
                self.assertLess(used.ru_utime + used.ru_stime,
                                0.2 + base.ru_utime + base.ru_stime)
                self.assertLess(used.ru_maxrss, (64 << 10) + base.ru_maxrss)
        os.remove(path)

    def test_truncated(self):
        """Cut anywhere."""
        path = os.path.join(FOLDER.name, "cut.gguf")
        with open(tiny_path(), "rb") as f:
            raw = f.read()
        for n in 7, 23, 100, 4000, 9000, len(raw) // 2, len(raw) - 1:
            with open(path, "wb") as f:
                f.write(raw[:n])
            err, _ = self.refuse(path)
            self.assertEqual(err.count("\n"), 1, err)
            self.assertIn(path, err)
        os.remove(path)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
