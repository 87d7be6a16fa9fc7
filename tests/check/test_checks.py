"""The checks notice what they are for: each is run over a small tree, clean and then with
one fault put in."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

CLEAN = {
    "docs/layers.txt": "base:\nop: tensor\ntensor:\n",
    "include/ingot/status.h": "#ifndef INGOT_STATUS_H\n#define INGOT_STATUS_H\n\n#endif\n",
    "src/base/README.md": "# base\n",
    "src/base/alloc.c": "#include \"base/alloc.h\"\n\nvoid f(void)\n{\n    free(0);\n}\n",
    "src/base/alloc.h": "#ifndef INGOT_BASE_ALLOC_H\n#define INGOT_BASE_ALLOC_H\n\n#endif\n",
    "src/op/README.md": "# op\n",
    "src/op/row.c": "/* free(p), \"x/y.h\" */\n#include \"base/alloc.h\"\n",
    "src/op/row_int.h": "#ifndef INGOT_OP_ROW_INT_H\n#define INGOT_OP_ROW_INT_H\n\n#endif\n",
    "src/tensor/README.md": "# tensor\n",
    "src/tensor/shape.c": "#include \"ingot/status.h\"\n",
    "cli/README.md": "# cli\n\n[a link](../docs/layers.txt)\n",
    "cli/main.c": "#include \"args.h\"\n#include \"ingot/status.h\"\n",
    "fuzz/README.md": "# fuzz\n",
}

# check, its arguments, a file, its faulty text, a word of the verdict
FAULTS = [
    ("layers", [], "src/tensor/shape.c", '#include "op/row.h"\n', "may not include op"),
    ("layers", [], "src/op/row.c", '#include "row_int.h"\n', "name the folder"),
    ("layers", [], "src/base/alloc.c", '  #  include "op/row_int.h"\n', "may not include op"),
    ("layers", [], "src/nn/a.c", '#include "base/alloc.h"\n', "no line for nn"),
    ("layers", [], "cli/main.c", '#include "base/alloc.h"\n', "only public"),
    ("layers", [], "include/ingot/status.h", '#include "base/alloc.h"\n', "public header"),
    ("headers", ["cc"], "src/base/alloc.h",
     "#ifndef INGOT_BASE_ALLOC_H\n#define INGOT_BASE_ALLOC_H\nsize_t n;\n#endif\n", "alone"),
    ("headers", ["cc"], "src/base/alloc.h", "int f(void);\n", "no guard"),
    ("banned", [], "src/op/row.c", "void f(void)\n{\n    free(0);\n}\n", "row.c:3: free"),
    ("banned", [], "src/op/row.c", "void f(char *s)\n{\n    strcpy (s, \"\");\n}\n", "strcpy"),
    ("banned", [], "src/op/row.c", "/* TO" + "DO later */\n", "status.md"),
    ("format", [], "src/op/row.c", "void f(void) { }\n", "row.c:1"),
    ("pages", [], "src/op/README.md", "line\n" * 41, "more than 40"),
    ("pages", [], "src/op/README.md", None, "no README"),
    ("pages", [], "src/op/alloc.c", "\n", "named like"),
    ("pages", [], "cli/README.md", "[lost](nowhere.md)\n", "no nowhere.md"),
    ("pages", [], "cli/README.md", "see `op/lost.c`\n", "no file op/lost.c"),
    ("pages", [], "cli/README.md", "see `lost.h`\n", "no file lost.h"),
]

# as C it is right
if any(shutil.which(x) for x in ("c++", "g++", "clang++")):
    FAULTS.append(("headers", ["cc"], "include/ingot/status.h", "#ifndef INGOT_STATUS_H\n"
                   "#define INGOT_STATUS_H\nint f(int class);\n#endif\n", "alone"))


def run(check, arguments, tree):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            if text is not None:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        style = (HERE.parent.parent / ".clang-format").read_text()
        pathlib.Path(folder, ".clang-format").write_text(style)
        done = subprocess.run([sys.executable, HERE / f"check_{check}.py", folder, *arguments],
                              text=True, capture_output=True)
        return done.returncode, done.stdout + done.stderr


def main():
    failed = 0
    for check, arguments in {x[0]: x[1] for x in FAULTS}.items():
        code, said = run(check, arguments, CLEAN)
        if code not in (0, 77):
            print(f"{check}: not clean over a clean tree:\n{said}")
            failed += 1
    for check, arguments, name, text, words in FAULTS:
        code, said = run(check, arguments, CLEAN | {name: text})
        if code != 77 and (code != 1 or words not in said):
            print(f"{check}: {name}: wanted \"{words}\", got {code}:\n{said}")
            failed += 1
    print(f"{len(FAULTS)} faults, {failed} failures")
    sys.exit(1 if failed else 0)


main()
