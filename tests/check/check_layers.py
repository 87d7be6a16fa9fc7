"""Every include obeys docs/layers.txt, and the three rings of headers."""
import re

from source import bare, files, root, verdict

PUBLIC_ONLY = ("cli", "examples")


def read_table(path):
    table = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            folder, allowed = line.split(":")
            table[folder] = {folder, "base", *allowed.split()}
    return table


def problem(table, ring, folder, included):
    """Why a file of this ring (src, cli, tests ...) and folder may not include that."""
    parts = included.split("/")
    if parts[0] == "ingot" or (len(parts) == 1 and ring != "src"):
        return None
    if ring in PUBLIC_ONLY:
        return "only public headers may be included here"
    if ring != "src":
        return None
    if len(parts) == 1:
        return "includes name the folder"
    if folder not in table:
        return f"docs/layers.txt has no line for {folder}"
    if parts[0] not in table[folder]:
        return f"{folder} may not include {parts[0]}"
    if parts[-1].endswith("_int.h") and parts[0] != folder:
        return "an inner header of another folder"
    return None


def main():
    base = root()
    table = read_table(base / "docs/layers.txt")
    problems = []
    for path in files(base):
        relative = path.relative_to(base)
        ring, folder = relative.parts[0], relative.parts[1]
        text = bare(path.read_text(), keep_strings=True)
        for i, line in enumerate(text.splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not found:
                continue
            why = problem(table, ring, folder, found.group(1))
            if ring == "include" and not found.group(1).startswith("ingot/"):
                why = "a public header includes public headers only"
            if why:
                problems.append(f'{relative}:{i}: "{found.group(1)}": {why}')
    verdict(problems, "layers")


main()
