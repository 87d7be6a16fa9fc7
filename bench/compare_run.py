#!/usr/bin/env python3
"""Running models: Ingot against llama.cpp, alternating in one run.

A row is one figure. For each row the two programs run in turn, PAIRS times, each alone on the
machine; the row's ratio is the median of the pairs' ratios. The barrier's time and the read
bandwidth that Ingot's bench measured beside each run are logged, since such machines move under a
measurement. The peer is built from the source package of llama-cpp-python with its own defaults for
this machine's processor; where that build crashes (seen with AMX tiles), it is built again without
AMX, and the table says so.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import time

PEER_VERSION = "0.3.36"
ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("INGOT_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or
                                  pathlib.Path(os.environ.get("HOME") or ROOT) / ".cache") / "ingot")
SMOL = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = "gemma-3-270m-q4_k_m.gguf"
TARGETS = ["llama-bench", "llama-batched-bench", "llama-quantize", "llama-completion"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True, **options).stdout


# ---- setting up ---------------------------------------------------------------------------------


def build_peer(source, build, without_amx):
    flags = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" if without_amx else ""
    say(f"building the peer in {build} (minutes)")
    with open(f"{build}.log", "w") as log:
        for command in (
            ["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
             f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}", "-DLLAMA_CURL=OFF",
             "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"],
            ["cmake", "--build", build, "-j", str(os.cpu_count()), "--target", *TARGETS],
        ):
            subprocess.run([str(c) for c in command], stdout=log, stderr=log, check=True)


def works(build, model):
    test = [build / "bin/llama-bench", "-m", model, "-t", "2", "-p", "64", "-n", "4", "-r", "1",
            "-o", "json"]
    done = subprocess.run([str(c) for c in test], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return done.returncode == 0 and b"avg_ts" in done.stdout


def peer(model):
    """The folder of the peer's programs, and a note on how it was built."""
    folder = CACHE / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    for name, without_amx in (("llama.cpp", False), ("llama.cpp-without-amx", True)):
        build = folder / name
        if not (build / "bin/llama-completion").exists():
            archive = folder / f"llama_cpp_python-{PEER_VERSION}.tar.gz"
            if not archive.exists():
                say("fetching the peer's source package")
                subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                                "--no-binary", ":all:", "-d", str(folder),
                                f"llama-cpp-python=={PEER_VERSION}"], check=True)
            source = folder / f"llama_cpp_python-{PEER_VERSION}"
            if not source.exists():
                with tarfile.open(archive) as tar:
                    tar.extractall(folder)
            build_peer(source / "vendor/llama.cpp", build, without_amx)
        if works(build, model):
            return build / "bin", "built without AMX (with it, it crashes here)" if without_amx else ""
    sys.exit("compare: the peer does not run on this machine")


def models(tools):
    """The files, by name; the peer's tool makes the other types from the Q4_1 file."""
    files = {"q4_1": CACHE / SMOL, "gemma": CACHE / GEMMA}
    for kind in ("Q4_0", "Q8_0", "F16"):
        path = CACHE / f"SmolLM2-135M-Instruct.{kind}.gguf"
        if not path.exists():
            say(f"making {path.name}")
            run([tools / "llama-quantize", "--allow-requantize", files["q4_1"], path, kind])
        files[kind.lower()] = path
    return files


# ---- one figure of each program -----------------------------------------------------------------


def ours_tps(row, files, ingot):
    command = [ingot, "bench", files[row["model"]], "--json", "--repeat", "1", "-t", "2",
               "--kv-type", row.get("kv", "f16"),
               "--prompt", row.get("prompt", 0), "--decode", row.get("decode", 0),
               "--depth", row.get("depth", 0), "--batch", row.get("batch", 1)]
    answer = json.loads(run(command))
    result = answer["results"][0]
    return result["tps"], result, answer["machine"]


def peer_tps(row, files, tools):
    common = ["-m", files[row["model"]], "-t", "2"]
    kv = row.get("kv", "f16")
    if row.get("batch", 1) > 1:
        text = run([tools / "llama-batched-bench", *common, "-fa", "on", "-npp", "128", "-ntg", "64",
                    "-npl", row["batch"], "-c", "4096", "--output-format", "jsonl"])
        lines = [json.loads(t) for t in text.splitlines() if t.startswith("{")]
        return lines[-1]["speed_tg"]
    text = run([tools / "llama-bench", *common, "-fa", "1", "-p", row.get("prompt", 0), "-n",
                row.get("decode", 0), "-d", row.get("depth", 0), "-ctk", kv, "-ctv", kv, "-r", "1",
                "-o", "json"])
    return json.loads(text)[-1]["avg_ts"]


def seconds(command):
    start = time.monotonic()
    subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return time.monotonic() - start


ROWS = [
    dict(name="Q4_1 decode 128", model="q4_1", decode=128, floor=2.0),
    dict(name="Q4_1 prompt 512", model="q4_1", prompt=512, floor=5.0),
    dict(name="Q4_0 decode 128", model="q4_0", decode=128, floor=1.5),
    dict(name="Q4_0 prompt 512", model="q4_0", prompt=512, floor=2.0),
    dict(name="Q8_0 decode 128", model="q8_0", decode=128, floor=1.4),
    dict(name="Q8_0 prompt 512", model="q8_0", prompt=512, floor=1.8),
    dict(name="F16 decode 128", model="f16", decode=128, floor=1.0),
    dict(name="F16 prompt 512", model="f16", prompt=512, floor=1.8),
    dict(name="gemma-3-270m Q4_K_M decode 128", model="gemma", decode=128, floor=1.2),
    dict(name="gemma-3-270m Q4_K_M prompt 512", model="gemma", prompt=512, floor=2.0),
    dict(name="Q4_1 decode at depth 4096, F16 cache", model="q4_1", decode=32, depth=4096, floor=2.5),
    dict(name="Q4_1 decode at depth 4096, Q8_0 cache", model="q4_1", decode=32, depth=4096,
         kv="q8_0", floor=3.0),
    dict(name="Q4_1 decode, 2 sequences", model="q4_1", decode=64, depth=128, batch=2, floor=3.0),
    dict(name="Q4_1 decode, 4 sequences", model="q4_1", decode=64, depth=128, batch=4, floor=3.5),
    dict(name="Q4_1 decode, 8 sequences", model="q4_1", decode=64, depth=128, batch=8, floor=3.5),
    dict(name="Q4_1 decode, 16 sequences", model="q4_1", decode=64, depth=128, batch=16, floor=3.5),
    dict(name="start to first token", start=True, floor=2.0),
]


def measure_pair(row, files, tools, ingot):
    if row.get("start"):
        prompt = "The capital of France is"
        ours = seconds([ingot, "run", files["q4_1"], "--raw", "-p", prompt, "-n", "1", "-t", "2"])
        theirs = seconds([tools / "llama-completion", "-m", files["q4_1"], "-p", prompt, "-n", "1",
                          "-t", "2", "-no-cnv", "-fa", "on"])
        return dict(ours=ours, peer=theirs, ratio=theirs / ours)
    ours, result, machine = ours_tps(row, files, ingot)
    theirs = peer_tps(row, files, tools)
    return dict(ours=ours, peer=theirs, ratio=ours / theirs, share=result["share"],
                limit=result["limit_tps"], barrier_ns=machine["barrier_ns"],
                read_gb_s=machine["read_bytes_s"] / 1e9, isa=machine["isa"])


def summary(row, pairs):
    ratios = [p["ratio"] for p in pairs]
    out = dict(name=row["name"], floor=row["floor"], ratio=statistics.median(ratios),
               ratio_least=min(ratios), ratio_most=max(ratios),
               ours=statistics.median(p["ours"] for p in pairs),
               peer=statistics.median(p["peer"] for p in pairs), pairs=pairs)
    if "share" in pairs[0]:
        # the limit is the best that the machine showed beside any of the runs
        out["share"] = out["ours"] / max(p["limit"] for p in pairs)
    return out


def print_table(rows, note):
    print("| row | Ingot | llama.cpp | ratio (least - most) | floor | share of the limit |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for r in rows:
        share = f"{100 * r['share']:.0f} %" if "share" in r else ""
        mark = "" if r["ratio"] >= r["floor"] else " (below)"
        digits = 3 if r["ours"] < 10 else 0
        print(f"| {r['name']} | {r['ours']:.{digits}f} | {r['peer']:.{digits}f} | {r['ratio']:.2f} "
              f"({r['ratio_least']:.2f} - {r['ratio_most']:.2f}) | {r['floor']:.1f}{mark} | {share} |")
    barriers = [p["barrier_ns"] for r in rows for p in r["pairs"] if "barrier_ns" in p]
    reads = [p["read_gb_s"] for r in rows for p in r["pairs"] if "read_gb_s" in p]
    if barriers:
        print(f"\nBarrier {min(barriers):.0f} to {max(barriers):.0f} ns, streaming read "
              f"{min(reads):.1f} to {max(reads):.1f} GB/s beside the runs. {note}")


def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def main():
    parser = argparse.ArgumentParser(prog="compare.sh run", description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs a row [5]")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", default="", help="write all figures to this file")
    parser.add_argument("--ingot", default=str(ROOT / "build/release/ingot"))
    args = parser.parse_args()
    if not pathlib.Path(args.ingot).exists() or not (CACHE / SMOL).exists():
        sys.exit("compare: run scripts/test.sh first: it builds Ingot and fetches the models")
    tools, note = peer(CACHE / SMOL)
    files = models(tools)
    rows = []
    for row in ROWS:
        if args.only not in row["name"]:
            continue
        if row.get("model") == "gemma" and not files["gemma"].exists():
            continue
        pairs = []
        for i in range(args.pairs):
            pairs.append(measure_pair(row, files, tools, args.ingot))
            say(f"{row['name']}, pair {i + 1}: " +
                ", ".join(f"{k} {v:.3g}" for k, v in pairs[-1].items() if isinstance(v, float)))
        rows.append(summary(row, pairs))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(dict(cpu=cpu_name(), peer=f"llama-cpp-python {PEER_VERSION}", note=note,
                           date=time.strftime("%Y-%m-%d"), rows=rows), out, indent=1)
    print(f"{cpu_name()}, two threads; tokens/s (start: seconds); {args.pairs} pairs a row. Peer: "
          f"llama.cpp of llama-cpp-python {PEER_VERSION} {note}\n")
    print_table(rows, "")


if __name__ == "__main__":
    main()
