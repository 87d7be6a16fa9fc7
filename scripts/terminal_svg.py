#!/usr/bin/env python3
"""A picture of a terminal: runs commands, draws what they printed as SVG.

    scripts/terminal_svg.py OUT.svg COMMAND [COMMAND...]

Standard output is drawn white, standard error grey; a command is run by sh in the current folder.
"""
import html
import subprocess
import sys
import textwrap

WIDTH, LINE, GLYPH = 92, 19, 8.4


def lines_of(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    yield "prompt", "$ " + command
    for kind, text in (("out", done.stdout), ("err", done.stderr)):
        for line in text.rstrip("\n").split("\n") if text.strip() else []:
            for part in textwrap.wrap(line, WIDTH, drop_whitespace=False) or [""]:
                yield kind, part
    yield "out", ""


def main():
    rows = [row for command in sys.argv[2:] for row in lines_of(command)][:-1]
    width, height = int(WIDTH * GLYPH) + 40, len(rows) * LINE + 60
    colours = {"prompt": "#9ece6a", "out": "#e6e6e6", "err": "#8b93a7"}
    with open(sys.argv[1], "w") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                  f'viewBox="0 0 {width} {height}" role="img" aria-label="Ingot in a terminal">\n'
                  f'<rect width="{width}" height="{height}" rx="10" fill="#16181d"/>\n')
        for i, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f")):
            out.write(f'<circle cx="{24 + 20 * i}" cy="22" r="6" fill="{colour}"/>\n')
        out.write('<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" '
                  'font-size="14" xml:space="preserve">\n')
        for i, (kind, text) in enumerate(rows):
            out.write(f'<text x="20" y="{56 + i * LINE}" fill="{colours[kind]}">'
                      f'{html.escape(text)}</text>\n')
        out.write("</g>\n</svg>\n")


if __name__ == "__main__":
    main()
