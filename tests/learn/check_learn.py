"""Runs a program of the course in a short form and checks what it says.

    check_learn.py PROGRAM DATA [--once] [--noisy] [--words WORD...] [--args ARG...]

DATA goes to its standard input (a .gz is unpacked); without the file: 77, skipped. An argument "models/NAME" is
looked for in INGOT_TEST_MODEL_DIR. The program runs on one core and on all: it must succeed, the losses of its
steps be numbers and fall, each of the words be in what it says, and all of that be the same for both but the
lines about speed. --noisy: batches differ more than so few steps bring; the program itself looks at the loss held out.
"""
import argparse
import gzip
import math
import os
import re
import subprocess
import sys

CURVE = re.compile(r"^(?:step|epoch) +(\d+)  loss ([0-9.naif+-]+)  ", re.M)
SPEED = re.compile(r"^(?:speed|limit|program): .*\n", re.M)


def run(command, data, cores):
    done = subprocess.run(command, input=data, capture_output=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores))
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}\n{text}{done.stderr.decode()}")
    return text


def check(text, words, noisy):
    curve = [float(loss) for _, loss in CURVE.findall(text)]
    if len(curve) < 2 or not all(map(math.isfinite, curve)):
        sys.exit(f"no curve: {curve}\n{text}")
    if not noisy and not sum(curve[-2:]) / 2 < curve[0]:
        sys.exit(f"the loss does not fall: {curve}")
    for word in ["speed: ", "limit: ", *words]:
        if not re.search(word, text):
            sys.exit(f"it does not say '{word}':\n{text}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--words", nargs="*", default=[])
    parser.add_argument("--args", nargs="*", default=[])
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--noisy", action="store_true")
    args = parser.parse_args()
    models = os.environ.get("INGOT_TEST_MODEL_DIR", "/nowhere")
    args.args = [re.sub("^models/", models + "/", x) for x in args.args]
    for path in (args.data, *(x for x in args.args if "/" in x)):
        if not os.path.exists(path):
            print(f"skipped: no {path}")
            sys.exit(77)
    with (gzip.open if args.data.endswith(".gz") else open)(args.data, "rb") as f:
        data = f.read()
    all_cores = os.sched_getaffinity(0)
    said = [run([args.program, *args.args], data, cores)
            for cores in (all_cores, {min(all_cores)})[: 1 if args.once else 2]]
    check(said[0], args.words, args.noisy)
    if not args.once and SPEED.sub("", said[0]) != SPEED.sub("", said[1]):
        sys.exit(f"one core says something else:\n{said[0]}\n----\n{said[1]}")
    print(said[0])


main()
