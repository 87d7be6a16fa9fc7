"""The shared library gives out exactly the names in exported.txt, and asks the system for
nothing that would print, exit or read the environment.

    check_exports.py ROOT LIBRARY NM [--write]      --write: take the names as they are now
"""
import re
import subprocess
import sys

from source import root, verdict

FORBIDDEN = re.compile(
    r"_?_?(exit|_exit|_Exit|quick_exit|abort|raise|kill|system|printf|vprintf|fprintf|vfprintf|"
    r"dprintf|puts|putchar|fputs|fputc|putc|fwrite|perror|psignal|getenv|secure_getenv|setenv|"
    r"environ|stdout|stderr|stdin|syslog|assert_fail|strcpy|strcat|sprintf|vsprintf|gets|"
    r"strtok|atoi|atol|atof|setlocale|signal|sigaction)(_chk)?")


def names(nm, library, *options):
    done = subprocess.run([nm, "-D", *options, library], text=True, capture_output=True,
                          check=True)
    return [line.split()[-1].split("@")[0] for line in done.stdout.splitlines()]


def main():
    base, library, nm = root(), sys.argv[2], sys.argv[3]
    listed = base / "tests/check/exported.txt"
    given = sorted(names(nm, library, "--defined-only"))
    if "--write" in sys.argv:
        listed.write_text("\n".join(given) + "\n")
    wanted = listed.read_text().split()
    problems = [f"exported but not in exported.txt: {x}" for x in sorted({*given} - {*wanted})]
    problems += [f"in exported.txt but not exported: {x}"
                 for x in sorted({*wanted} - {*given})]
    problems += [f"exported without the prefix: {x}" for x in given if not x.startswith("ig_")
                 or x.startswith("ig__")]
    problems += [f"the library calls {x}" for x in names(nm, library, "--undefined-only")
                 if FORBIDDEN.fullmatch(x)]
    verdict(problems, f"{len(given)} exported names")


main()
