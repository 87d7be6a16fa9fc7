#!/usr/bin/env python3
"""Dense products: Ingot against NumPy (its own OpenBLAS), BLIS and PyTorch, alternating in one run.

Every program is a worker that times one product when asked and is stopped while another works, so that
no pool of threads spins beside it. A row is one shape; each round asks every worker in turn; a figure is
the median over rounds, and the ratio that of Ingot's to the best peer's. A peer that is not
installed is left out: NumPy and PyTorch from this Python, BLIS from libblis.so.4 (libblis4-openmp).

Needs: numpy. bench_matmul is built beforehand (release).
"""
import argparse
import ctypes
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = "256x256x256,1024x1024x1024,2048x2048x2048,256x3072x768,64x768x768"
ROUNDS = 7

# ---- workers ------------------------------------------------------------------------------------


def time_calls(call, seconds):
    """Median ns of a call, after 20 ms to warm up."""
    warm = time.perf_counter_ns() + 20_000_000
    call()
    while time.perf_counter_ns() < warm:
        call()
    times = []
    until = time.perf_counter_ns() + int(seconds * 1e9)
    while len(times) < 5 or (time.perf_counter_ns() < until and len(times) < 1000):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times)


def numpy_call(m, n, k, order, dtype):
    import numpy as np
    if dtype not in ("f32", "f64"):
        return None
    t = np.float32 if dtype == "f32" else np.float64
    a, b = (np.random.rand(*((c, r) if o == "t" else (r, c))).astype(t)
            for o, r, c in ((order[0], m, k), (order[1], k, n)))
    a, b = (x.T if o == "t" else x for o, x in ((order[0], a), (order[1], b)))
    out = np.zeros((m, n), t)
    return lambda: np.matmul(a, b, out=out)


def torch_call(m, n, k, order, dtype):
    import torch
    torch.set_num_threads(2)
    t = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16,
         "f16": torch.float16}[dtype]
    a, b = (torch.rand((c, r) if o == "t" else (r, c)).to(t)
            for o, r, c in ((order[0], m, k), (order[1], k, n)))
    a, b = (x.t() if o == "t" else x for o, x in ((order[0], a), (order[1], b)))
    out = torch.zeros((m, n), dtype=t)
    return lambda: torch.mm(a, b, out=out)


def blis_call(m, n, k, order, dtype):
    import numpy as np
    if dtype not in ("f32", "f64"):
        return None
    blis = ctypes.CDLL("libblis.so.4")
    t = np.float32 if dtype == "f32" else np.float64
    call = blis.cblas_sgemm if dtype == "f32" else blis.cblas_dgemm
    one, zero = ((ctypes.c_float(1), ctypes.c_float(0)) if dtype == "f32" else
                 (ctypes.c_double(1), ctypes.c_double(0)))
    a, b, out = np.random.rand(m * k).astype(t), np.random.rand(k * n).astype(t), np.zeros(m * n, t)
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, out)]
    trans = [112 if o == "t" else 111 for o in order]
    lda, ldb = (m if order[0] == "t" else k), (k if order[1] == "t" else n)
    keep = (a, b, out)
    return lambda: (call(101, *trans, m, n, k, one, pointers[0], lda, pointers[1], ldb, zero,
                         pointers[2], n), keep)[0]


CALLS = {"numpy": numpy_call, "torch": torch_call, "blis": blis_call}


def work(name):
    made = CALLS[name](8, 8, 8, "nn", "f32")  # fails here where the peer is absent
    made()
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        q = json.loads(line)
        call = CALLS[name](q["m"], q["n"], q["k"], q["order"], q["type"])
        ns = time_calls(call, q["seconds"]) if call else None
        print(json.dumps({"ns": ns}), flush=True)


# ---- the run ------------------------------------------------------------------------------------


class Worker:
    def __init__(self, name, command, env):
        self.name = name
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=env)
        self.is_ready = json.loads(self.process.stdout.readline() or "{}").get("ready") is not None
        self.pause()

    def pause(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)

    def ask(self, question):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.pause()
        return answer

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def workers(args):
    env = dict(os.environ, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2", MKL_NUM_THREADS="2",
               BLIS_NUM_THREADS="2", OMP_PROC_BIND="true")
    env.pop("OPENBLAS_CORETYPE", None)  # set for old builds; it slows a current NumPy
    made = [Worker("ingot", [args.program, "--serve", "1", "--threads", "2",
                             *(["--isa", args.isa] if args.isa else [])], env)]
    for name in args.peers.split(","):
        made.append(Worker(name, [sys.executable, __file__, "--worker", name], env))
        if not made[-1].is_ready:
            print(f"{name}: not here, left out", file=sys.stderr)
            made.pop().end()
    return made


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--program", default=ROOT / "build/release/bench/bench_matmul")
    p.add_argument("--isa", help="Ingot's instruction set; the best here")
    p.add_argument("--types", default="f32,bf16")
    p.add_argument("--shapes", default=SHAPES, help="MxNxK[:order], order nn, nt, tn or tt")
    p.add_argument("--peers", default="numpy,blis,torch")
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--seconds", type=float, default=0.05, help="of each timing")
    p.add_argument("--json", help="a file for all figures")
    args = p.parse_args()
    if args.worker:
        return work(args.worker)
    made = workers(args)
    rows = []
    print("| product | " + " | ".join(w.name for w in made) + " | share of peak | ingot / best peer |")
    print("|---" * (len(made) + 3) + "|")
    for dtype in args.types.split(","):
        for text in args.shapes.split(","):
            shape, _, order = text.partition(":")
            m, n, k = (int(x) for x in shape.split("x"))
            q = {"type": dtype, "m": m, "n": n, "k": k, "order": order or "nn",
                 "seconds": args.seconds}
            times, shares = {w.name: [] for w in made}, []
            for _ in range(args.rounds):
                for w in made:
                    answer = w.ask(q)
                    if answer["ns"] is not None:
                        times[w.name].append(answer["ns"])
                    shares += [answer["share_of_peak"]] if "share_of_peak" in answer else []
            rate = {name: 2 * m * n * k / statistics.median(ns) for name, ns in times.items() if ns}
            best = max((r for name, r in rate.items() if name != "ingot"), default=None)
            rows.append({**q, "gflop_s": rate, "ns": times, "share_of_peak": shares})
            share = f"{statistics.median(shares):.2f}" if shares else "-"
            print(f"| {dtype} {m} x {n} x {k} {order or 'nn'} | "
                  + " | ".join(f"{rate[w.name]:.0f}" if w.name in rate else "-" for w in made)
                  + f" | {share} | {rate['ingot'] / best:.2f} |" if best else " | - | - |", flush=True)
    for w in made:
        w.end()
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
