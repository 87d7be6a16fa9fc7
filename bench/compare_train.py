#!/usr/bin/env python3
"""Training: Ingot against PyTorch, alternating in one run.

A row is one model. For each row both programs make it, then run STEPS steps in turn, ROUNDS times, the one
that waits stopped; a figure is the median step, the row's ratio the median of the rounds' ratios. PyTorch runs
at its best on two threads: fused AdamW, scaled_dot_product_attention, its own LSTM; 16-bit rows by torch.autocast. The peak of memory is that of the whole process; what each needs
before its first step (code and interpreter) is told apart.

With --json FILE the rounds are kept in FILE and a later run goes on from there: `--seconds 50` ends a run
after about so long. llm.c is not in a package: its figure is PyTorch's of this run times what llm.c
took beside PyTorch on another machine (4.35 s to 1.87 s).

Needs torch in this Python, or else makes an environment in the cache folder.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("INGOT_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or
                                  pathlib.Path(os.environ.get("HOME") or ROOT) / ".cache") / "ingot")
LLM_C = 4.35 / 1.87
ROUNDS = 7

# name, model, dtype, captured, steps a round, floor of the ratio
ROWS = [
    ("GPT-2 124M, 4 x 64", "gpt2", "f32", 0, 1, 1.6),
    ("GPT-2 124M, bf16", "gpt2", "bf16", 0, 1, 1.4),
    ("GPT 4 x 128, 12 x 64", "gpt", "f32", 0, 10, 1.8),
    ("LSTM 2 x 256, 32 x 64", "lstm", "f32", 0, 5, 1.1),
    ("CNN, 64 of 28 x 28", "cnn", "f32", 0, 20, 1.5),
    ("attention 1 x 12 x 1024 x 64, both ways", "attention", "f32", 0, 10, 1.5),
    ("MLP 64-64-10, 32: eager", "mlp", "f32", 0, 500, 287 / 60),
    ("MLP 64-64-10, 32: captured", "mlp", "f32", 1, 500, 287 / 20),
    ("GPT 4 x 128, captured", "gpt", "f32", 1, 10, 1.8),
    ("GPT-2 124M, captured", "gpt2", "f32", 1, 1, 1.6),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- the peer -----------------------------------------------------------------------------------


def gpt(batch, t, layers, width, heads, vocab, context):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.c_fc, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, n, d = x.shape
            q, k, v = (z.view(b, n, heads, d // heads).transpose(1, 2)
                       for z in self.c_attn(self.ln_1(x)).split(d, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.c_proj(y.transpose(1, 2).reshape(b, n, d))
            return x + self.down(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.ln_f = nn.LayerNorm(width)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)

        def forward(self, ids):
            x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return F.linear(self.ln_f(x), self.wte.weight)

    x, y = torch.randint(vocab, (batch, t)), torch.randint(vocab, (batch * t,))
    return Model(), x, y


def lstm():
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(65, 256), nn.Linear(256, 65)
            self.lstm = nn.LSTM(256, 256, num_layers=2, batch_first=True)

        def forward(self, ids):
            return self.out(self.lstm(self.embed(ids))[0])

    return Model(), torch.randint(65, (32, 64)), torch.randint(65, (32 * 64,))


def cnn():
    import torch
    from torch import nn
    model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.randn(64, 1, 28, 28), torch.randint(10, (64,))


def mlp():
    import torch
    from torch import nn
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, torch.randn(32, 64), torch.randint(10, (32,))


def attention():
    import torch
    from torch.nn import functional as F
    q, k, v = (torch.randn(1, 12, 1024, 64, requires_grad=True) for _ in range(3))
    dy = torch.randn(1, 12, 1024, 64)

    def step():
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dy)

    return step


MODELS = {"gpt2": lambda: gpt(4, 64, 12, 768, 12, 50257, 1024),
          "gpt": lambda: gpt(12, 64, 4, 128, 4, 65, 64),
          "lstm": lstm, "cnn": cnn, "mlp": mlp}


def peer_step(name, dtype):
    import torch
    from torch.nn import functional as F
    if name == "attention":
        return attention()
    model, x, y = MODELS[name]()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)

    def step():
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            logits = model(x)
        F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), y).backward()
        opt.step()

    return step


def peak_mib():
    """Not ru_maxrss, which counts what the parent held too."""
    with open("/proc/self/status") as f:
        return next(int(t.split()[1]) for t in f if t.startswith("VmHWM:")) / 1024


def work(name, dtype):
    import torch
    torch.set_num_threads(2)
    torch.manual_seed(1)
    before = peak_mib()
    step = peer_step(name, dtype)
    print(json.dumps({"ready": name}), flush=True)
    for line in sys.stdin:
        ms = []
        for _ in range(int(line)):
            begun = time.perf_counter_ns()
            step()
            ms.append((time.perf_counter_ns() - begun) / 1e6)
        print(json.dumps({"ms": ms, "process_peak_mib": peak_mib(), "start_mib": before}), flush=True)


# ---- the run ------------------------------------------------------------------------------------


class Worker:
    def __init__(self, command):
        env = dict(os.environ, OMP_NUM_THREADS="2", MKL_NUM_THREADS="2")
        env.pop("OPENBLAS_CORETYPE", None)
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env=env)
        self.is_ready = "ready" in json.loads(self.process.stdout.readline() or "{}")
        self.pause()

    def pause(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)

    def steps(self, n):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(f"{n}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = json.loads(self.process.stdout.readline() or "null")
        self.pause()
        return answer

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def measure(row, args, kept, until):
    """Rounds of one row, added to kept[name]; False: time is up."""
    name, model, dtype, captured, steps, _ = row
    rounds = kept.setdefault(name, [])
    if len(rounds) >= args.rounds:
        return True
    if time.monotonic() > until:
        return False
    ours = Worker([args.program, model, "--serve", "--captured", captured, "-t", "2",
                   *(["--dtype", dtype] if dtype != "f32" else [])])
    peer = Worker([sys.executable, __file__, "--worker", model, "--dtype", dtype]) if ours.is_ready else None
    try:
        if not ours.is_ready or not peer.is_ready:
            say(f"{name}: not here, left out")
            return True
        for worker, whose in ((ours, "Ingot"), (peer, "PyTorch")):
            if not worker.steps(max(2, steps // 5)):
                say(f"{name}: {whose}'s program ends, left out")
                return True
        while len(rounds) < args.rounds and time.monotonic() < until:
            order = (ours, peer) if len(rounds) % 2 == 0 else (peer, ours)
            answers = {worker: worker.steps(steps) for worker in order}
            rounds.append({"ingot": answers[ours], "torch": answers[peer]})
            say(f"{name}: " + ", ".join(f"{k} {statistics.median(v['ms']):.3f} ms"
                                        for k, v in rounds[-1].items()))
    finally:
        ours.end()
        if peer:
            peer.end()
    return len(rounds) >= args.rounds


def show(rows, kept):
    print("| step | Ingot, ms | PyTorch, ms | ratio (least - most) | wanted | peak MiB, Ingot | PyTorch "
          "(before its first step) |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, model, dtype, captured, _, floor in rows:
        rounds = kept.get(name)
        if not rounds:
            continue
        ms = {k: statistics.median(statistics.median(r[k]["ms"]) for r in rounds)
              for k in ("ingot", "torch")}
        ratios = [statistics.median(r["torch"]["ms"]) / statistics.median(r["ingot"]["ms"])
                  for r in rounds]
        last = rounds[-1]
        print(f"| {name} | {ms['ingot']:.4g} | {ms['torch']:.4g} | {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} - {max(ratios):.2f}) | {floor:.1f} | "
              f"{last['ingot']['process_peak_mib']:.0f} | {last['torch']['process_peak_mib']:.0f} "
              f"({last['torch'].get('start_mib', 0):.0f}) |")
        if model == "gpt2" and dtype == "f32" and not captured:
            print(f"| the same, llm.c by PyTorch's time | | {ms['torch'] * LLM_C:.4g} | "
                  f"{statistics.median(ratios) * LLM_C:.2f} | 3.5 | | |")


def with_torch(argv):
    """This program under a Python that has torch."""
    try:
        import torch  # noqa: F401
        return
    except ImportError:
        pass
    folder = CACHE / "peers/torch"
    python = folder / "bin/python3"
    if not python.exists():
        say(f"setting up PyTorch in {folder} (minutes)")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "torch", "numpy"], check=True)
    os.execv(python, [str(python), "-B", *argv])


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--dtype", default="f32", help=argparse.SUPPRESS)
    p.add_argument("--program", default=ROOT / "build/release/bench/bench_step")
    p.add_argument("--rows", default="", help="only rows whose name has one of these, by semicolons")
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--seconds", type=float, default=1e9, help="end after about so long")
    p.add_argument("--json", help="a file that keeps the rounds")
    args = p.parse_args()
    if args.worker:
        return work(args.worker, args.dtype)
    with_torch(sys.argv)
    kept = {}
    if args.json and pathlib.Path(args.json).exists():
        kept = json.loads(pathlib.Path(args.json).read_text())
    wanted = [w for w in args.rows.split(";") if w]
    rows = [r for r in ROWS if not wanted or any(w in r[0] for w in wanted)]
    until = time.monotonic() + args.seconds
    done = True
    for row in rows:
        done = measure(row, args, kept, until) and done
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(kept))
    show(rows, kept)
    if not done:
        say("not all rounds are there: run it again with the same --json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
