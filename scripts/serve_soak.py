"""Load on a server for a while: many connections with random lengths, some of which leave in
the middle, shut their sending side, or read slowly. Every finished answer has to be the quiet
server's; in the end everything has to be free, and the server alive.

    serve_soak.py BINARY MODEL [--connections 200] [--seconds 30] [--seed 1] [--patience 120]

Prints one JSON line; exits 1 when something does not hold.
"""
import argparse
import json
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/serve"))
from served import Served, parse_events, request_bytes  # noqa: E402

WORDS, LENGTHS = 60, (0, 1, 13, 40)  # of a prompt; tokens of an answer


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("model")
    p.add_argument("--connections", type=int, default=200)
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--patience", type=float, default=120, help="seconds without a byte")
    return p.parse_args()


def read_all(s, slowly, rng):
    got = bytearray()
    while piece := s.recv(64 if slowly else 65536):
        got += piece
        if slowly:
            time.sleep(rng.random() * 0.01)
    return bytes(got)


def ask(n_words, most, **fields):
    return {"prompt": "abc " * n_words, "max_tokens": most, "seed": 7, "temperature": 1,
            "ignore_eos": True, **fields}


def texts_of(answers, n):
    """The text of each sample, from chunks or from one answer."""
    got = [""] * n
    for answer in answers:
        for c in answer["choices"]:
            got[c["index"]] += c["text"]
    return got


def body_of(raw):
    """The body of an answer whose connection was closed behind it; chunked or not."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    whole = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        whole, rest = whole + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    return whole


class Load:
    def __init__(self, server, patience, quiet):
        self.server, self.patience = server, patience
        self.quiet = quiet  # of words and length: the texts of two samples
        self.lock = threading.Lock()
        self.counts = {}
        self.faults = []

    def count(self, name):
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def once(self, rng):
        """One request of a random kind."""
        stream = rng.random() < 0.5
        kind = rng.choice(["whole", "whole", "leave", "half", "slow", "wrong"])
        n_words, n, most = rng.randint(1, WORDS), rng.choice([1, 1, 1, 2]), rng.choice(LENGTHS)
        body = ask(n_words, most, stream=stream, n=n)
        if rng.random() < 0.1:
            body["user"] = "long" * 10000  # read on the thread for long ones
        if kind == "wrong":
            body["temperature"] = "hot"
        with self.server.connect(timeout=self.patience) as s:
            s.sendall(request_bytes("/v1/completions", body, "Connection: close"))
            if kind == "leave":
                if rng.random() < 0.5:
                    s.settimeout(rng.random() * 0.2 + 0.001)
                    try:
                        s.recv(256)
                    except TimeoutError:
                        pass
                self.count("left")
                return
            if kind == "half":
                s.shutdown(socket.SHUT_WR)
            got = read_all(s, kind == "slow", rng)
        status = got[9:12]
        self.count(status.decode())
        if kind == "wrong" and status != b"400":
            self.fault(f"a wrong request got {got[:100]!r}")
        elif status == b"200" and stream and b"data: [DONE]" not in got:
            self.fault(f"a stream without its end: {got[-200:]!r}")
        elif status == b"200" and not stream and b'"usage"' not in got:
            self.fault(f"an answer that is not whole: {got[-200:]!r}")
        elif status not in (b"200", b"400", b"429"):
            self.fault(f"{kind}, stream {stream}: {got[:200]!r}")
        elif status == b"200":
            raw = body_of(got)
            answers = ([e for e in parse_events(raw) if isinstance(e, dict)] if stream
                       else [json.loads(raw)])
            if texts_of(answers, n) != self.quiet[n_words, most][:n]:
                self.fault(f"{n_words} words, n {n}, {most} tokens, stream {stream}: "
                           f"another answer than alone: {raw[:300]!r}")
            self.count("compared")

    def run(self, seed, end):
        rng = random.Random(seed)
        while time.monotonic() < end:
            try:
                self.once(rng)
            except OSError as err:
                self.fault(f"{type(err).__name__}: {err}")


def main():
    o = arguments()
    server = Served(o.binary, o.model, "--ctx", "512", "--max-running", "8", "--quiet",
                    "--kv-memory", "1")
    quiet = {(k, most): texts_of([server.json("/v1/completions", ask(k, most, n=2))], 2)
             for k in range(1, WORDS + 1) for most in LENGTHS}
    load = Load(server, o.patience, quiet)
    end = time.monotonic() + o.seconds
    threads = [threading.Thread(target=load.run, args=(o.seed * 1000 + i, end))
               for i in range(o.connections)]
    for t in threads:
        t.start()
    time.sleep(o.seconds / 2)
    half = server.resident()
    for t in threads:
        t.join()
    took = server.wait_idle(60)
    if texts_of([server.json("/v1/completions", ask(1, 40, n=2))], 2) != quiet[1, 40]:
        load.fault("the same request gives another answer now")
    grown = server.resident() - half
    code = server.stop(timeout=120)
    if code != 0:
        load.fault(f"exit code {code}: {server.said[-2000:]}")
    print(json.dumps({"counts": load.counts, "idle_after_s": round(took, 3),
                      "grown_bytes": grown, "faults": load.faults[:5],
                      "n_faults": len(load.faults)}))
    sys.exit(1 if load.faults else 0)


main()
