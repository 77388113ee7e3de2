"""Runs the commands of docs/guides/*.md, in order, in a folder with a few pictures, a series and a text."""
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

if "NEURIM_BUILD" not in os.environ:
    print("NEURIM_BUILD is not set")
    sys.exit(77)
GUIDES = sorted(Path(__file__).resolve().parent.parent.glob("docs/guides/*.md"))


def png(path, color, number):
    """A picture of a colour with stripes that depend on a number."""
    side = 40
    rows = b"".join(b"\0" + bytes(min(255, color[c] + (x * number + y) % 23) for x in range(side) for c in range(3)) for y in range(side))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Guides(unittest.TestCase):
    def test_every_command_runs(self):
        self.assertTrue(GUIDES)
        path = f"{os.path.abspath(os.environ['NEURIM_BUILD'])}:{os.environ['PATH']}"
        for guide in GUIDES:
            commands = [line for block in re.findall(r"```sh\n(.*?)```", guide.read_text(), re.DOTALL) for line in block.splitlines()]
            self.assertTrue(commands, guide)
            with tempfile.TemporaryDirectory() as folder:
                for i in range(30):
                    name, color = (("red", (200, 20, 20)), ("green", (20, 200, 20)), ("blue", (20, 20, 200)))[i % 3]
                    png(Path(folder, "photos", name, f"{i}.png"), color, i)
                sales = [f"day {day},{100 + 20 * math.sin(day * 2 * math.pi / 7):.2f},{day * day % 11}" for day in range(200)]
                Path(folder, "sales.csv").write_text("day,sold,rain\n" + "\n".join(sales) + "\n")
                Path(folder, "story.txt").write_text("the cat sat on the mat.\n" * 80)
                for command in commands:
                    with self.subTest(guide.name, command=command):
                        run = subprocess.run(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path},
                                             capture_output=True, text=True, timeout=120, check=False)
                        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
