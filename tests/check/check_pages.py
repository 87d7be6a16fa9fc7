"""Every folder has its README of at most 40 lines; file names are unique; links in pages
lead somewhere, and so do the names of source files in them."""
import re

from source import files, root, verdict


# `src/op/linear.c`, `linear.c`; not `cmd_<verb>.c`, `fuzz_NAME.c`
NAMED = re.compile(r"`([a-z0-9_./-]+\.(?:c|h|inc|py|sh))`")


def missing_names(base, pages):
    """Names of source files, in pages, that no file has."""
    folders = [base, *(base / x for x in ("src", "include", "docs", "tests", "src/kernel"))]
    known = {p.name for x in ("src", "include", "cli", "tests", "fuzz", "bench", "examples",
                              "scripts") for p in (base / x).rglob("*")}
    for page in pages:
        for name in NAMED.findall(page.read_text()):
            if "/" in name:
                found = any((x / name).exists() for x in [*folders, page.parent])
            else:
                found = name in known or name.startswith("_")  # `_cell.c`: the end of a name
            if not found:
                yield f"{page.relative_to(base)}: no file {name}"


def main():
    base = root()
    problems = []
    folders = [x for x in sorted((base / "src").iterdir()) if x.is_dir()]
    for folder in [*folders, base / "cli", base / "fuzz"]:
        page = folder / "README.md"
        if not page.is_file():
            problems.append(f"{folder.relative_to(base)}: no README.md")
        elif len(page.read_text().splitlines()) > 40:
            problems.append(f"{page.relative_to(base)}: more than 40 lines")
    seen = {}
    for path in files(base, ("src", "cli"), (".c",)):
        if path.name in seen and path.parts[-2] != "cli":
            problems.append(f"{path.relative_to(base)}: named like {seen[path.name]}")
        seen.setdefault(path.name, path.relative_to(base))
    pages = [*base.glob("*.md"), *files(base, ("docs", "src", "cli", "fuzz", "tests"), (".md",))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                problems.append(f"{page.relative_to(base)}: no {target}")
    problems += missing_names(base, pages)
    verdict(problems, f"{len(pages)} pages")


main()
