#!/usr/bin/env python3
"""Decoding beside others: another program of its kind, busy loops, one core, a quota.

    bench/neighbours.py [--rounds 3] [--tokens 256] [--ingot build/release/ingot] [--model FILE]

Each round runs every case once, in turn; a figure is the median over the rounds. `fair` is what
a program would have that shares the cores equally with what runs beside it, in proportion to the
figure alone; below it is loss. The quota needs root and control groups (version 1 or 2); where
they are not there, its rows are left out.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("INGOT_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or
                                  pathlib.Path(os.environ.get("HOME") or ROOT) / ".cache") / "ingot")
CORES = sorted(os.sched_getaffinity(0))
N = len(CORES)
SEVERAL = [sys.executable, "-c", "while True: pass"]


class Quota:
    """A control group of so many cores for the processes that `enter` is called in."""

    def __init__(self, cores):
        self.quota = str(int(cores * 100000))
        v1 = pathlib.Path("/sys/fs/cgroup/cpu")
        self.v1 = v1.is_dir()
        self.folder = (v1 if self.v1 else pathlib.Path("/sys/fs/cgroup")) / f"ingot-{os.getpid()}"

    def __enter__(self):
        self.folder.mkdir()
        if self.v1:
            (self.folder / "cpu.cfs_period_us").write_text("100000")
            (self.folder / "cpu.cfs_quota_us").write_text(self.quota)
        else:
            (self.folder / "cpu.max").write_text(f"{self.quota} 100000")
        return self

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        self.folder.rmdir()


def start(o, threads=0, enter=None):
    command = [o.ingot, "run", o.model, "--raw", "-p", "Once upon a time", "--temp", "0",
               "--ignore-eos", "--json", "-n", str(o.tokens), "-t", str(threads)]
    if not threads:
        command = command[:-2]
    return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=enter)


def rate(process):
    out, _ = process.communicate()
    return json.loads(out)["timings"]["decode_tps"]


def beside_loops(o, n):
    loops = [subprocess.Popen(SEVERAL) for _ in range(n)]
    try:
        return rate(start(o))
    finally:
        for p in loops:
            p.kill()
            p.wait()


def two(o):
    both = [start(o), start(o)]
    return statistics.mean([rate(p) for p in both])


def on_one_core(o):
    return rate(start(o, enter=lambda: os.sched_setaffinity(0, CORES[:1])))


def under_quota(o, cores):
    try:
        with Quota(cores) as q:
            return rate(start(o, enter=q.enter))
    except OSError:
        return None


def cases(o):
    share = {f"{N} threads alone": (lambda: rate(start(o)), 1),
             "1 thread alone": (lambda: rate(start(o, threads=1)), 1 / N),
             "two such programs, each": (lambda: two(o), 1 / 2)}
    for n in (1, 2):
        share[f"beside {n} busy loop{'s' if n > 1 else ''}"] = (
            lambda n=n: beside_loops(o, n), N / (N + n) if n <= N else 1 / (1 + n))
    share["affinity mask of one core"] = (lambda: on_one_core(o), 1 / N)
    for cores in (1.5, 1, 0.5):
        if cores < N:
            share[f"quota of {cores} cores"] = (lambda c=cores: under_quota(o, c), cores / N)
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--ingot", default=str(ROOT / "build/release/ingot"))
    parser.add_argument("--model", default=str(CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--json", action="store_true", help="the rounds themselves")
    o = parser.parse_args()
    table = cases(o)
    found = {name: [] for name in table}
    for _ in range(o.rounds):
        for name, (measure, _) in table.items():
            found[name].append(measure())
    if o.json:
        print(json.dumps(found))
        return
    alone = statistics.median(found[next(iter(table))])
    print("| | tokens/s | of alone | fair |\n| --- | ---: | ---: | ---: |")
    for name, (_, fair) in table.items():
        rates = [r for r in found[name] if r is not None]
        if rates:
            middle = statistics.median(rates)
            print(f"| {name} | {middle:.0f} | {middle / alone:.2f} | {fair:.2f} |")


main()
