#!/usr/bin/env python3
"""Serving many users: Ingot against llama.cpp's server and batched bench, in turn in one run.

Three parts, for each model: "batch", streams decoded at once, without HTTP; "chats", 32 chats at once
that share a system prompt of 1,500 tokens, answers of 64; "mix", three streams that decode while a
prompt of 4,000 tokens arrives, and a short chat just after it. The last two go over HTTP, by
`ingot bench --serve` against both servers, each started anew for each measurement, so that neither
has seen a prompt before. A fourth, "http", measures ours alone: the processor time of the thread that does
HTTP and JSON while 16 answers are streamed, and requests of /health a second. A row's ratio is the median
of the pairs' ratios; above 1 Ingot is better.

One measurement is one program once. With --keep FILE each is kept there as it ends, and a run does
what is missing, for --slice seconds (then its exit code is 3): so a machine that is quiet only for
a minute now and then will do. A measurement that does not fit a slice is cut, and its time then
counts as "at least".
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import compare_run
from compare_run import CACHE, PEER_VERSION, ROOT, SMOL, cpu_name, models, run, say

KINDS = {"q4_1": "Q4_1", "q4_0": "Q4_0"}
STREAMS = [1, 2, 4, 8, 16]
FLOORS = {"q4_1": [2, 3, 3.5, 3.5, 3.5], "q4_0": [1.5, 2, 2.3, 2.3, 2]}
LONG, STREAM_TOKENS = 4000, 400
STARTS_WITHIN_S = 60


def peer(model):
    """The folder of the peer's programs, its server among them."""
    tools, note = compare_run.peer(model)
    if not (tools / "llama-server").exists():
        say("building the peer's server (minutes)")
        with open(tools.parent / "server.log", "w") as log:
            subprocess.run(["cmake", "--build", str(tools.parent), "-j2", "--target", "llama-server"],
                           stdout=log, stderr=log, check=True)
    return tools, note


# ---- servers --------------------------------------------------------------------------------------


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def wait_for(process, url):
    end = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError(f"{process.args[0]}: does not serve")


@contextlib.contextmanager
def served(command):
    port = free_port()
    process = subprocess.Popen([str(c) for c in command] + ["--port", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(process, url)
        yield url, process.pid
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def begin_load(ingot, url, **options):
    words = [w for name, value in options.items() for w in (f"--{name}", str(value))]
    return subprocess.Popen([ingot, "bench", "--serve", url, "--json", "--ignore-eos", *words],
                            stdout=subprocess.PIPE, text=True)


class Cut(Exception):
    """Time is up in the middle of a measurement."""


def end_load(process, until=None):
    """Its figures; every request has to have ended well."""
    try:
        out = process.communicate(timeout=until and max(until - time.monotonic(), 0.1))[0]
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Cut from None
    figures = json.loads(out)
    if figures["errors"] or process.returncode:
        raise RuntimeError(f"requests failed: {figures['errors']}")
    return figures


# ---- one measurement: its figures -----------------------------------------------------------------


def batch_ours(ingot, model, streams):
    answer = json.loads(run([ingot, "bench", model, "--json", "--repeat", 1, "-t", 2, "--prompt", 0,
                             "--decode", 64, "--depth", 128, "--batch", streams]))
    return dict(tps=answer["results"][0]["tps"])


def batch_peer(tools, model, streams):
    text = run([tools / "llama-batched-bench", "-m", model, "-t", 2, "-fa", "on", "-npp", 128, "-ntg", 64,
                "-npl", streams, "-c", 4096, "--output-format", "jsonl"])
    return dict(tps=[json.loads(t) for t in text.splitlines() if t.startswith("{")][0]["speed_tg"])


def chats(ingot, command, until):
    with served(command) as (url, _):
        begin = time.monotonic()
        try:
            got = end_load(begin_load(ingot, url, users=32, requests=32, shared=1500, input=16,
                                      output=64), until)
        except Cut:
            return dict(seconds=time.monotonic() - begin, cut=True)
    return dict(seconds=got["wall_s"], prompt_tokens=got["prompt_tokens"] / 32, tokens=got["tokens"],
                cached_tokens=got["cached_tokens"] / 32, first=got["ttft_ms"]["mean"] / 1e3,
                longest_first=got["ttft_ms"]["longest"] / 1e3)


def alone(ingot, command, until):
    with served(command) as (url, _):
        begin = time.monotonic()
        try:
            got = end_load(begin_load(ingot, url, seed=1, requests=1, input=LONG, output=1), until)
        except Cut:
            return dict(alone=time.monotonic() - begin, cut=True)
    return dict(alone=got["e2e_ms"]["mean"] / 1e3)


def mix(ingot, command, until):
    with served(command) as (url, _):
        streams = begin_load(ingot, url, users=3, requests=3, input=32, output=STREAM_TOKENS)
        time.sleep(1)  # they decode
        prompt = begin_load(ingot, url, seed=2, requests=1, input=LONG, output=1)
        time.sleep(0.3)  # it is being read
        short = begin_load(ingot, url, seed=3, requests=1, input=16, output=8)
        try:
            short, prompt = end_load(short, until), end_load(prompt, until)
            if streams.poll() is not None:
                raise RuntimeError("the streams ended before the long prompt: give them more tokens")
            streams = end_load(streams, until)
        except Cut:
            for load in (short, prompt, streams):
                if isinstance(load, subprocess.Popen):
                    load.kill()
                    load.communicate()
            raise
    return dict(gap=streams["itl_ms"]["longest"] / 1e3, p99=streams["itl_ms"]["p99"] / 1e3,
                beside=prompt["e2e_ms"]["mean"] / 1e3, first=short["ttft_ms"]["mean"] / 1e3,
                prompt_tokens=prompt["prompt_tokens"])


def processor_s(pid):
    """Of the whole process, and of its thread for HTTP."""
    both = [0, 0]
    for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
        ticks = sum(map(int, fields.split()[11:13]))
        both[0] += ticks
        both[1] += ticks if name == "ingot-http" else 0
    return [x / os.sysconf("SC_CLK_TCK") for x in both]


def health_rate(url, n=20000, at_once=32):
    """Answers a second over 8 connections that are kept, requests sent in groups."""
    host, port = url.rpartition("/")[2].split(":")
    one = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    open_ones = [socket.create_connection((host, int(port))) for _ in range(8)]
    begin, done = time.monotonic(), 0
    while done < n:
        for s in open_ones:
            s.sendall(one * at_once)
        for s in open_ones:
            got = b""
            while got.count(b'{"status":"ok"}') < at_once:
                got += s.recv(1 << 16)
        done += at_once * len(open_ones)
    took = time.monotonic() - begin
    for s in open_ones:
        s.close()
    return done / took


def http(ingot, command, until):
    with served(command) as (url, pid):
        before = processor_s(pid)
        end_load(begin_load(ingot, url, users=16, requests=32, input=64, output=256), until)
        after = processor_s(pid)
        rate = health_rate(url)
    return dict(share=100 * (after[1] - before[1]) / (after[0] - before[0]), health=rate)


# ---- what is to be measured ------------------------------------------------------------------------


def command_of(bench, who, kind, context):
    """Both servers at their best: eight slots of the peer, as many answers at once of ours as come."""
    model = bench.files[kind]
    if who == "ours":
        return [bench.ingot, "serve", model, "-t", "2", "--ctx", context, "--max-running", 32, "--quiet",
                "--no-measure"]
    return [bench.tools / "llama-server", "-m", model, "-t", "2", "-np", 8, "-c", 8 * context, "-fa", "on"]


def measure(bench, what, kind, streams, who):
    if what == "batch":
        return (batch_ours(bench.ingot, bench.files[kind], streams) if who == "ours"
                else batch_peer(bench.tools, bench.files[kind], streams))
    step = {"chats": chats, "alone": alone, "mix": mix, "http": http}[what]
    return step(bench.ingot, command_of(bench, who, kind, 2048 if what == "chats" else 6144), bench.until)


# before a measurement was seen: the seconds it may take, ours and the peer's
EXPECTED = {"batch": (8, 25), "chats": (12, 50), "alone": (12, 30), "mix": (20, 50), "http": (20, 0)}


class Bench:
    def __init__(self, args, tools, files, begin):
        self.ingot, self.tools, self.files, self.keep = args.ingot, tools, files, args.keep
        self.slice = args.slice
        self.end = begin + args.slice if args.slice else None
        self.until = self.end - 3 if self.end else None  # a server has to end, too
        self.kept = {}
        if self.keep and pathlib.Path(self.keep).exists():
            self.kept = json.loads(pathlib.Path(self.keep).read_text())

    def fits(self, key, what, who):
        """Is there time left? What took longer than expected before is begun only at the start."""
        if self.end is None:
            return True
        same = [v["took"] for k, v in self.kept.items() if k.rsplit("/", 2)[0] == key.rsplit("/", 2)[0]
                and k.endswith(who)]
        expected = max(same) * 1.2 + 1 if same else EXPECTED[what][who == "peer"]
        left = self.end - time.monotonic()
        return left > expected or left > 0.85 * self.slice

    def run(self, units):
        """How many are left."""
        missing = [u for u in units if key_of(*u) not in self.kept]
        for i, (what, kind, streams, pair, who) in enumerate(missing):
            key = key_of(what, kind, streams, pair, who)
            if not self.fits(key, what, who):
                return len(missing) - i
            begin = time.monotonic()
            try:
                got = measure(self, what, kind, streams, who)
            except Cut:
                say(f"{key}: cut, and not counted")
                return len(missing) - i
            self.kept[key] = dict(got, took=time.monotonic() - begin)
            say(f"{key}: {json.dumps(self.kept[key])}")
            if self.keep:
                part = pathlib.Path(self.keep + ".new")
                part.write_text(json.dumps(self.kept, indent=1))
                part.replace(self.keep)
        return 0


def key_of(what, kind, streams, pair, who):
    return f"{what}/{kind}/{streams}/{pair}/{who}"


def units_of(args):
    """In the order of pairs, so that a run that is not done has some of all."""
    steps = {"batch": [("batch", b) for b in STREAMS], "chats": [("chats", 0)],
             "mix": [("alone", 0), ("mix", 0)], "http": [("http", 0)]}
    return [(what, kind, n, i, who) for i in range(args.pairs) for part in args.part or steps
            for kind in args.kind or KINDS for what, n in steps[part]
            for who in ("ours", "peer") if what != "http" or who == "ours"]


# ---- rows -----------------------------------------------------------------------------------------


def pairs_of(bench, args, what, kind, streams=0):
    found = [{who: bench.kept.get(key_of(what, kind, streams, i, who)) for who in ("ours", "peer")}
             for i in range(args.pairs)]
    return [p for p in found if p["ours"] and p["peer"]]


def row_of(name, pairs, value, more_is_better=False, **wanted):
    both = [(value(p["ours"], "ours"), value(p["peer"], "peer"), p) for p in pairs]
    return dict(name=name, **wanted, pairs=[
        dict(ours=o, peer=t, ratio=o / t if more_is_better else t / o, cut=p["peer"].get("cut", False))
        for o, t, p in both])


def batch_rows(bench, args, kind):
    return [row_of(f"{KINDS[kind]} decode, streams: {b}; tokens/s",
                   pairs_of(bench, args, "batch", kind, b), lambda f, _: f["tps"], True, floor=floor)
            for b, floor in zip(STREAMS, FLOORS[kind])]


def chat_rows(bench, args, kind):
    return [row_of(f"{KINDS[kind]} 32 chats, shared prompt of 1,500; s",
                   pairs_of(bench, args, "chats", kind), lambda f, _: f["seconds"], floor=6)]


def mix_rows(bench, args, kind):
    name, pairs = KINDS[kind], pairs_of(bench, args, "mix", kind)
    by_itself = {who: statistics.median(p[who]["alone"] for p in pairs_of(bench, args, "alone", kind))
                 for who in ("ours", "peer")} if pairs_of(bench, args, "alone", kind) else {}
    return [
        row_of(f"{name} longest gap of 3 streams beside a prompt of 4,000; s", pairs,
               lambda f, _: f["gap"], most=0.3),
        row_of(f"{name} that prompt's time against alone; times", pairs if by_itself else [],
               lambda f, who: f["beside"] / by_itself[who], most=1.5),
        row_of(f"{name} first token of a short chat beside it; s", pairs, lambda f, _: f["first"],
               most=0.5),
    ]


def http_rows(bench, args, kind):
    found = [bench.kept.get(key_of("http", kind, 0, i, "ours")) for i in range(args.pairs)]
    rows = [dict(name=f"{KINDS[kind]} processor time for HTTP and JSON, 16 streams; %", value="share", most=3),
            dict(name=f"{KINDS[kind]} /health; a second", value="health", least=5000)]
    for row in rows:
        row["pairs"] = [dict(ours=f[row["value"]]) for f in found if f]
    return rows


PARTS = {"batch": batch_rows, "chats": chat_rows, "mix": mix_rows, "http": http_rows}


def summary(row):
    ours = [p["ours"] for p in row["pairs"]]
    row = dict(row, ours=statistics.median(ours), ours_least=min(ours), ours_most=max(ours))
    if "ratio" not in row["pairs"][0]:
        return row
    ratios = [p["ratio"] for p in row["pairs"]]
    return dict(row, ratio=statistics.median(ratios), ratio_least=min(ratios), ratio_most=max(ratios),
                peer=statistics.median(p["peer"] for p in row["pairs"]),
                cut=any(p["cut"] for p in row["pairs"]))


def print_table(rows):
    print("| row | Ingot (least - most) | llama.cpp | ratio (least - most) | wanted | pairs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for r in rows:
        if "floor" in r:
            met, wanted = r["ratio"] >= r["floor"], f"{r['floor']:.1f} x"
        elif "most" in r:
            met, wanted = r["ours"] <= r["most"], f"at most {r['most']}"
        else:
            met, wanted = r["ours"] >= r["least"], f"at least {r['least']}"
        d = 2 if r["ours"] < 50 else 0
        more = "> " if r.get("cut") else ""
        peer = f"{more}{r['peer']:.{d}f}" if "peer" in r else ""
        ratio = f"{more}{r['ratio']:.2f} ({r['ratio_least']:.2f} - {r['ratio_most']:.2f})" if peer else ""
        print(f"| {r['name']} | {r['ours']:.{d}f} ({r['ours_least']:.{d}f} - {r['ours_most']:.{d}f}) | "
              f"{peer} | {ratio} | {wanted}{'' if met else ' (missed)'} | {len(r['pairs'])} |")


def main():
    parser = argparse.ArgumentParser(prog="compare.sh serve", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=3, help="pairs a row [3]")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; repeatable [all]")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this model; repeatable [all]")
    parser.add_argument("--json", default="", help="write all figures to this file")
    parser.add_argument("--keep", default="", help="keep each measurement in this file, and go on from it")
    parser.add_argument("--slice", type=float, default=0, help="seconds of this run; needs --keep [all]")
    parser.add_argument("--table", action="store_true", help="measure nothing: the table of what is kept")
    parser.add_argument("--ingot", default=str(ROOT / "build/release/ingot"))
    args = parser.parse_args()
    if args.slice and not args.keep:
        sys.exit("compare: --slice needs --keep")
    if not pathlib.Path(args.ingot).exists() or not (CACHE / SMOL).exists():
        sys.exit("compare: run scripts/test.sh first: it builds Ingot and fetches the models")
    begin = time.monotonic()
    tools, note = peer(CACHE / SMOL)
    bench = Bench(args, tools, models(tools), begin)
    left = 0 if args.table else bench.run(units_of(args))
    if left:
        say(f"{left} measurements are left")
        sys.exit(3)
    rows = [summary(row) for part in args.part or PARTS for kind in args.kind or KINDS
            for row in PARTS[part](bench, args, kind) if row["pairs"]]
    if args.json:
        with open(args.json, "w") as out:
            json.dump(dict(cpu=cpu_name(), peer=f"llama-cpp-python {PEER_VERSION}", note=note,
                           date=time.strftime("%Y-%m-%d"), rows=rows), out, indent=1)
    print(f"{cpu_name()}, two threads, SmolLM2-135M-Instruct. Peer: llama.cpp of "
          f"llama-cpp-python {PEER_VERSION} {note}\n")
    print_table(rows)


if __name__ == "__main__":
    main()
