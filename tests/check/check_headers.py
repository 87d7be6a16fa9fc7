"""Every header compiles alone and twice, as C; the public ones as C++ too. Guards are named
after the path.

    check_headers.py ROOT CC [CXX]
"""
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from source import files, root, verdict

WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Werror"]
X86 = ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq",
       "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"]
IS_X86 = platform.machine() in ("x86_64", "AMD64")


def compile_alone(base, header, command):
    name = header.relative_to(base)
    name = name.relative_to(name.parts[0])
    unit = f'#include "{name}"\n#include "{name}"\nint ig_nothing;\n'
    done = subprocess.run([*command, *WARNINGS, "-fsyntax-only", "-I", base / "include", "-I",
                           base / "src", "-"], input=unit, text=True, capture_output=True)
    if done.returncode == 0:
        return None
    lines = [x for x in done.stderr.splitlines() if "error" in x] or ["?"]
    return f"{header.relative_to(base)}: alone, {command[0]}: {lines[0]}"


def guard_problem(base, header):
    name = header.relative_to(base)
    name = str(name.relative_to(name.parts[0])).removeprefix("ingot/")
    wanted = "INGOT_" + re.sub(r"\W", "_", name).upper()
    if not re.search(rf"^#ifndef {wanted}\n#define {wanted}$", header.read_text(), re.M):
        return f"{header.relative_to(base)}: no guard {wanted}"
    return None


def main():
    base, cc = root(), sys.argv[2]
    cxx = next((x for x in [*sys.argv[3:], "c++", "g++", "clang++"] if shutil.which(x)), None)
    if not cxx:
        print("no C++ compiler here: public headers are tried as C alone")
    jobs = []
    problems = []
    for header in files(base, ("include", "src"), (".h",)):
        isa = re.search(r"/kernel/(avx|amx)", str(header))
        problems.append(guard_problem(base, header))
        if not isa or IS_X86:
            jobs.append((header, [cc, "-x", "c", "-std=gnu17", "-D_GNU_SOURCE"]
                         + (X86 if isa else [])))
        if header.is_relative_to(base / "include"):
            jobs.append((header, [cc, "-x", "c", "-std=c11", "-pedantic"]))
            if cxx:
                jobs.append((header, [cxx, "-x", "c++", "-std=c++11", "-pedantic"]))
    with ThreadPoolExecutor(2) as pool:
        problems += pool.map(lambda job: compile_alone(base, *job), jobs)
    verdict([x for x in problems if x], f"{len(jobs)} headers alone")


main()
