"""Runs the Python of the guide, the README and the tutorial, and compares the stubs with the package."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent.parent


class Guide(unittest.TestCase):
    def test_every_block_runs(self):
        for page, least in (("docs/guides/python.md", 6), ("README.md", 1)):
            blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
            self.assertGreaterEqual(len(blocks), least)
            with tempfile.TemporaryDirectory() as folder:
                for name, color in (("red", 0), ("green", 1)):
                    for i in range(12):
                        image = np.random.default_rng(i).integers(0, 90, (40, 40, 3), np.uint8)
                        image[..., color] += 150
                        Path(folder, "photos", name).mkdir(parents=True, exist_ok=True)
                        Image.fromarray(image).save(Path(folder, "photos", name, f"{i}.png"))
                run = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_the_tutorial_runs(self):
        cells = json.loads((ROOT / "docs/tutorial.ipynb").read_text())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_stubs_are_those_of_the_package(self):
        run = subprocess.run([sys.executable, ROOT / "tools" / "python_stubs", "--check"], capture_output=True, text=True, check=False, env=os.environ)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
