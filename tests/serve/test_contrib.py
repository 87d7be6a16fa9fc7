"""What contrib/ holds fits the server: the board's metrics are there, the unit's and the image's
commands have options that exist, and systemd reads the unit where it is installed.

    test_contrib.py BINARY
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import tiny_gguf
from served import Served

BINARY = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRIB = ROOT / "contrib"


def options_of_serve():
    said = subprocess.run([BINARY, "help", "serve"], capture_output=True, text=True).stdout
    return set(re.findall(r"--[a-z][a-z-]*", said))


class Board(unittest.TestCase):
    def setUp(self):
        self.board = json.loads((CONTRIB / "grafana.json").read_text())

    def test_metrics_exist(self):
        used = set()
        for panel in self.board["panels"]:
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                names = set(re.findall(r"ingot:\w+", target["expr"]))
                self.assertTrue(names, target)
                used |= names
        used |= set(re.findall(r"ingot:\w+", json.dumps(self.board["templating"])))
        self.assertGreater(len(used), 15)
        with tempfile.TemporaryDirectory() as folder:
            s = Served(BINARY, tiny_gguf.write(folder + "/tiny.gguf"), "--ctx", "256", "--quiet",
                       measure=True)
            try:
                s.complete("x", max_tokens=3)
                end = time.monotonic() + 60  # shares of a limit come when it was measured
                there = ""
                while "limit_share" not in there and time.monotonic() < end:
                    time.sleep(0.2)
                    there = s.ask("GET", "/metrics")[2].decode()
            finally:
                self.assertEqual(s.stop(), 0)
        names = set(re.findall(r"^(ingot:\w+)\{", there, re.M))
        self.assertEqual(used - names, set())

    def test_layout(self):
        """Ids are apart, and no panel lies on another."""
        panels = self.board["panels"]
        self.assertEqual(len({p["id"] for p in panels}), len(panels))
        taken = set()
        for p in panels:
            at = p["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, p["title"])
            taken |= cells


class Unit(unittest.TestCase):
    def setUp(self):
        self.text = (CONTRIB / "ingot.service").read_text()

    def test_command(self):
        command = re.search(r"^ExecStart=(.*)$", self.text, re.M).group(1)
        settings = (CONTRIB / "ingot.env").read_text()
        self.assertEqual(set(re.findall(r"--[a-z][a-z-]*", command + settings)) -
                         options_of_serve(), set())
        self.assertEqual(set(re.findall(r"\$(\w+)", command)),
                         set(re.findall(r"^(\w+)=", settings, re.M)))

    def test_systemd_reads_it(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ingot.service"
            path.write_text(self.text.replace("/usr/local/bin/ingot", BINARY))
            got = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True,
                                 text=True)
            if "bus" in got.stderr:
                self.skipTest("systemd-analyze does not run here")
            self.assertEqual((got.returncode, got.stderr), (0, ""))
            path.write_text(self.text.replace("[Service]", "[Service]\nNoSuchThing=1"))
            got = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True,
                                 text=True)
            self.assertIn("NoSuchThing", got.stderr)  # it looks at all


class Image(unittest.TestCase):
    def test_steps(self):
        text = (CONTRIB / "Containerfile").read_text()
        build, _, run = text.partition("-slim")
        setup = (ROOT / "scripts/setup.sh").read_text()
        needs = set(re.search(r"\n    build\)\n(.*?);;", setup, re.S).group(1).split()) & \
            set(re.findall(r"[a-z0-9.-]+-dev|gcc|cmake|ninja-build|pkg-config", setup))
        optional = {"libedit-dev"}  # for a terminal, which the server has not
        installed = set(re.findall(r"[a-z0-9.+-]+", build))
        self.assertEqual({n.strip("'") for n in needs} - installed - optional, set())
        for preset in re.findall(r"--preset (\w+)", build):
            self.assertIn(preset, [p["name"] for p in json.loads(
                (ROOT / "CMakePresets.json").read_text())["configurePresets"]])
        entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", run, re.M).group(1))
        self.assertEqual({w for w in entry if w.startswith("--")} - options_of_serve(), set())
        self.assertIn("EXPOSE 8080", run)

    def test_context(self):
        """What was built here stays here: the cache of a build names this folder."""
        kept_out = (ROOT / ".dockerignore").read_text().split()
        for name in ".git", "build", "build-*":
            self.assertIn(name, kept_out)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
