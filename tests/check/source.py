"""What the checks share: the files of the project, C text without comments, the verdict."""
import pathlib
import re
import sys

SKIPPED = 77  # ctest's sign for a check that could not run

CODE = ("src", "include", "cli", "tests", "bench", "fuzz", "examples")


def root():
    """The checkout: the first argument."""
    return pathlib.Path(sys.argv[1]).resolve()


def files(base, folders=CODE, endings=(".c", ".h", ".inc")):
    for folder in folders:
        for path in sorted((base / folder).rglob("*")):
            if path.suffix in endings and path.is_file():
                yield path


def bare(text, keep_strings=False):
    """C text with comments (and what stands in strings) blanked; lines stay lines."""
    def blank(match):
        piece = match.group(0)
        if piece[0] == "/":
            return re.sub(r"[^\n]", " ", piece)
        return piece if keep_strings else piece[0] + " " * (len(piece) - 2) + piece[-1]

    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  blank, text, flags=re.S)


def verdict(problems, what):
    """One line a problem; the exit code for ctest."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problems" if problems else f"{what}: clean")
    sys.exit(1 if problems else 0)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)
