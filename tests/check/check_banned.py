"""Calls that the library does not make, and marks that do not stay in the code."""
import re

from source import bare, files, root, verdict

# what, why, where it is allowed
CALLS = [
    (r"strcpy|strcat|sprintf|vsprintf|gets|strtok|strncpy|strncat", "no bound", ()),
    (r"atoi|atol|atoll|atof", "no way to tell an error", ()),
    (r"exit|_exit|abort|raise|system", "the library never ends the program", ()),
    (r"printf|vprintf|fprintf|vfprintf|puts|putchar|fputs|perror", "it never prints", ()),
    (r"getenv|setenv|secure_getenv", "it never reads the environment", ()),
    (r"malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign|alloca|asprintf",
     "memory comes from an ig_allocator", ("src/base/alloc.c",)),
    (r"mmap", "files are read, never mapped", ()),
    (r"assert", "IG_ASSERT", ("src/base/error.h",)),
]
MARKS = r"TODO|FIXME|XXX|HACK"


def main():
    base = root()
    problems = []
    for path in files(base, ("src",)):
        name = str(path.relative_to(base))
        for i, line in enumerate(bare(path.read_text()).splitlines(), 1):
            for calls, why, allowed in CALLS:
                # not a member (x.free) and not a part of a longer name
                found = re.search(rf"(?<![\w.>])({calls})\s*\(", line)
                if found and name not in allowed:
                    problems.append(f"{name}:{i}: {found.group(1)}: {why}")
    for path in files(base):
        for i, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(rf"\b({MARKS})\b", line):
                problems.append(f"{path.relative_to(base)}:{i}: what is missing stands in "
                                "docs/status.md")
    verdict(problems, "banned calls")


main()
