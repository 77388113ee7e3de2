"""Runs the commands of docs/guides/*.md, in order, in a folder with a few images, a series, a text and the example's plug-in.

A block of TOML is the file that its first line names: `# own.toml: …`. A block of C++ stands in an example, which
install_test builds, or in a source of the library.
"""
import math
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import ROOT, write_png

GUIDES = sorted(ROOT.glob("docs/guides/*.md"))
PLUGIN = Path(os.environ["NEURIM_BUILD"], "libsquareplus.so").resolve()


def png(path, color, number):
    """An image of a colour with stripes that depend on a number."""
    side = 40
    rows = [bytes(min(255, color[c] + (x * number + y) % 23) for x in range(side) for c in range(3)) for y in range(side)]
    write_png(path, side, side, 8, 2, rows)


class Guides(unittest.TestCase):
    def test_every_command_runs(self):
        self.assertTrue(GUIDES)
        path = f"{os.path.abspath(os.environ['NEURIM_BUILD'])}:{os.environ['PATH']}"
        for guide in GUIDES:
            blocks = re.findall(r"```(sh|toml)\n(.*?)```", guide.read_text(), re.DOTALL)
            self.assertTrue(blocks, guide)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, PLUGIN.name).symlink_to(PLUGIN)
                for i in range(30):
                    name, color = (("red", (200, 20, 20)), ("green", (20, 200, 20)), ("blue", (20, 20, 200)))[i % 3]
                    png(Path(folder, "photos", name, f"{i}.png"), color, i)
                sales = [f"day {day},{100 + 20 * math.sin(day * 2 * math.pi / 7):.2f},{day * day % 11}" for day in range(200)]
                Path(folder, "sales.csv").write_text("day,sold,rain\n" + "\n".join(sales) + "\n")
                Path(folder, "story.txt").write_text("the cat sat on the mat.\n" * 80)
                for kind, block in blocks:
                    if kind == "toml":
                        Path(folder, re.match(r"# ([\w.]+\.toml)", block)[1]).write_text(block)
                        continue
                    for command in block.splitlines():
                        with self.subTest(guide.name, command=command):
                            run = subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path},
                                                 capture_output=True, text=True, timeout=120, check=False)
                            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_cpp_is_built(self):
        sources = [re.sub(r"\s+", " ", path.read_text()) for path in (*ROOT.glob("examples/*.cpp"), *ROOT.glob("neurim/**/*.cpp"), *ROOT.glob("neurim/**/*.h"))]
        for guide in GUIDES:
            for block in re.findall(r"```cpp\n(.*?)```", guide.read_text(), re.DOTALL):
                with self.subTest(guide.name, block=block):
                    self.assertTrue(any(re.sub(r"\s+", " ", block).strip() in source for source in sources))


if __name__ == "__main__":
    unittest.main(verbosity=2)
