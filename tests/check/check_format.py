"""Every C file is as clang-format 14 lays it out (another version lays out otherwise).

    check_format.py ROOT
"""
import re
import shutil
import subprocess

from source import files, root, skip, verdict


def main():
    base = root()
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        skip("no clang-format here")
    version = subprocess.run([tool, "--version"], text=True, capture_output=True).stdout
    if not re.search(r"version 14\.", version):
        skip(f"clang-format 14 is wanted, here is: {version.strip()}")
    done = subprocess.run([tool, "--dry-run", "-Werror", *files(base)], text=True,
                          capture_output=True, cwd=base)
    lines = re.findall(r"^(\S+:\d+):\d+: error", done.stderr, re.M)
    seen = {}
    for line in lines:
        name, at = line.rsplit(":", 1)
        seen.setdefault(name.removeprefix(f"{base}/"), at)
    if done.returncode and not seen:
        seen[tool] = done.stderr.strip()
    verdict([f"{name}:{at}: not as clang-format has it" for name, at in seen.items()],
            "clang-format")


main()
