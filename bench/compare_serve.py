#!/usr/bin/env python3
"""Serving many users: Ingot against llama.cpp's server and batched bench, in turn in one run.

Three parts, for each model: "batch", streams decoded at once, without HTTP; "chats", 32 chats at once
that share a system prompt of 1,500 tokens, answers of 64; "mix", three streams that decode while a
prompt of 4,000 tokens arrives, and a short chat just after it. The last two go over HTTP, by
`ingot bench --serve` against both servers, each started anew for each measurement, so that neither
has seen a prompt before. A row's ratio is the median of the pairs' ratios; above 1 Ingot is better.
"""
import argparse
import contextlib
import json
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
        yield url
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def commands(ingot, tools, model, context):
    """Both servers at their best: eight slots of the peer, as many answers at once of ours as come."""
    return dict(ours=[ingot, "serve", model, "-t", "2", "--ctx", context, "--max-running", 32, "--quiet",
                      "--no-measure"],
                peer=[tools / "llama-server", "-m", model, "-t", "2", "-np", 8, "-c", 8 * context, "-fa",
                      "on"])


def begin_load(ingot, url, **options):
    words = [w for name, value in options.items() for w in (f"--{name}", str(value))]
    return subprocess.Popen([ingot, "bench", "--serve", url, "--json", "--ignore-eos", *words],
                            stdout=subprocess.PIPE, text=True)


def end_load(process):
    """Its figures; every request has to have ended well."""
    figures = json.loads(process.communicate()[0])
    if figures["errors"] or process.returncode:
        raise RuntimeError(f"requests failed: {figures['errors']}")
    return figures


# ---- one measurement ------------------------------------------------------------------------------


def batch_ours(ingot, model):
    answer = json.loads(run([ingot, "bench", model, "--json", "--repeat", 1, "-t", 2, "--prompt", 0,
                             "--decode", 64, "--depth", 128, "--batch", ",".join(map(str, STREAMS))]))
    return {r["batch"]: r["tps"] for r in answer["results"]}


def batch_peer(tools, model):
    text = run([tools / "llama-batched-bench", "-m", model, "-t", 2, "-fa", "on", "-npp", 128, "-ntg", 64,
                "-npl", ",".join(map(str, STREAMS)), "-c", 4096, "--output-format", "jsonl"])
    lines = [json.loads(t) for t in text.splitlines() if t.startswith("{")]
    return {r["pl"]: r["speed_tg"] for r in lines}


def chats(ingot, command):
    with served(command) as url:
        got = end_load(begin_load(ingot, url, users=32, requests=32, shared=1500, input=16, output=64))
    return dict(seconds=got["wall_s"], prompt_tokens=got["prompt_tokens"] / 32, tokens=got["tokens"],
                cached_tokens=got["cached_tokens"] / 32, first=got["ttft_ms"]["mean"] / 1e3,
                longest_first=got["ttft_ms"]["longest"] / 1e3)


def mix(ingot, command):
    with served(command) as url:
        long = dict(requests=1, input=LONG, output=1)
        alone = end_load(begin_load(ingot, url, seed=1, **long))
        streams = begin_load(ingot, url, users=3, requests=3, input=32, output=STREAM_TOKENS)
        time.sleep(1)  # they decode
        prompt = begin_load(ingot, url, seed=2, **long)
        time.sleep(0.3)  # it is being read
        short = begin_load(ingot, url, seed=3, requests=1, input=16, output=8)
        short, prompt = end_load(short), end_load(prompt)
        if streams.poll() is not None:
            raise RuntimeError("the streams ended before the long prompt: give them more tokens")
        streams = end_load(streams)
    return dict(gap=streams["itl_ms"]["longest"] / 1e3, p99=streams["itl_ms"]["p99"] / 1e3,
                alone=alone["e2e_ms"]["mean"] / 1e3, beside=prompt["e2e_ms"]["mean"] / 1e3,
                first=short["ttft_ms"]["mean"] / 1e3, prompt_tokens=prompt["prompt_tokens"])


# ---- rows -----------------------------------------------------------------------------------------


def batch_rows(args, tools, kind, model):
    rows = [dict(name=f"{KINDS[kind]} decode, streams: {b}; tokens/s", floor=f, pairs=[])
            for b, f in zip(STREAMS, FLOORS[kind])]
    for i in range(args.pairs):
        ours, theirs = batch_ours(args.ingot, model), batch_peer(tools, model)
        for b, row in zip(STREAMS, rows):
            row["pairs"].append(dict(ours=ours[b], peer=theirs[b], ratio=ours[b] / theirs[b]))
        say(f"{KINDS[kind]} batch, pair {i + 1}: " +
            ", ".join(f"{b}: {ours[b]:.0f} / {theirs[b]:.0f}" for b in STREAMS))
    return rows


def pairs_of(args, tools, kind, model, measure, context):
    """What `measure` gave of both servers, in turn."""
    both = commands(args.ingot, tools, model, context)
    pairs = []
    for i in range(args.pairs):
        pairs.append({who: measure(args.ingot, command) for who, command in both.items()})
        say(f"{KINDS[kind]} {measure.__name__}, pair {i + 1}: {json.dumps(pairs[-1])}")
    return pairs


def less_is_better(name, pairs, value, **wanted):
    return dict(name=name, **wanted, pairs=[
        dict(ours=value(p["ours"]), peer=value(p["peer"]), ratio=value(p["peer"]) / value(p["ours"]),
             figures=p) for p in pairs])


def chat_rows(args, tools, kind, model):
    pairs = pairs_of(args, tools, kind, model, chats, 2048)
    return [less_is_better(f"{KINDS[kind]} 32 chats, shared prompt of 1,500; s", pairs,
                           lambda f: f["seconds"], floor=6)]


def mix_rows(args, tools, kind, model):
    pairs = pairs_of(args, tools, kind, model, mix, 6144)
    name = KINDS[kind]
    return [
        less_is_better(f"{name} longest gap of 3 streams beside a prompt of 4,000; s", pairs,
                       lambda f: f["gap"], most=0.3),
        less_is_better(f"{name} that prompt's time against alone; times", pairs,
                       lambda f: f["beside"] / f["alone"], most=1.5),
        less_is_better(f"{name} first token of a short chat beside it; s", pairs, lambda f: f["first"],
                       most=0.5),
    ]


PARTS = {"batch": batch_rows, "chats": chat_rows, "mix": mix_rows}


def summary(row):
    ratios = [p["ratio"] for p in row["pairs"]]
    return dict(row, ratio=statistics.median(ratios), ratio_least=min(ratios), ratio_most=max(ratios),
                ours=statistics.median(p["ours"] for p in row["pairs"]),
                peer=statistics.median(p["peer"] for p in row["pairs"]))


def print_table(rows):
    print("| row | Ingot | llama.cpp | ratio (least - most) | wanted |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for r in rows:
        met = r["ratio"] >= r["floor"] if "floor" in r else r["ours"] <= r["most"]
        wanted = f"{r['floor']:.1f} x" if "floor" in r else f"at most {r['most']}"
        digits = 2 if r["ours"] < 50 else 0
        print(f"| {r['name']} | {r['ours']:.{digits}f} | {r['peer']:.{digits}f} | {r['ratio']:.2f} "
              f"({r['ratio_least']:.2f} - {r['ratio_most']:.2f}) | {wanted}{'' if met else ' (missed)'} |")


def main():
    parser = argparse.ArgumentParser(prog="compare.sh serve", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=3, help="pairs a row [3]")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; repeatable [all]")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only this model; repeatable [all]")
    parser.add_argument("--json", default="", help="write all figures to this file")
    parser.add_argument("--ingot", default=str(ROOT / "build/release/ingot"))
    args = parser.parse_args()
    if not pathlib.Path(args.ingot).exists() or not (CACHE / SMOL).exists():
        sys.exit("compare: run scripts/test.sh first: it builds Ingot and fetches the models")
    tools, note = peer(CACHE / SMOL)
    files = models(tools)
    rows = []
    for part in args.part or PARTS:
        for kind in args.kind or KINDS:
            rows += map(summary, PARTS[part](args, tools, kind, files[kind]))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(dict(cpu=cpu_name(), peer=f"llama-cpp-python {PEER_VERSION}", note=note,
                           date=time.strftime("%Y-%m-%d"), rows=rows), out, indent=1)
    print(f"{cpu_name()}, two threads, SmolLM2-135M-Instruct; {args.pairs} pairs a row. Peer: llama.cpp of "
          f"llama-cpp-python {PEER_VERSION} {note}\n")
    print_table(rows)


if __name__ == "__main__":
    main()
