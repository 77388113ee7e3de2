"""Runs the examples in Python, and checks their types and those of the package."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples" / "python"


class Examples(unittest.TestCase):
    def run_in(self, folder, *words, **environment):
        run = subprocess.run([sys.executable, *words], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_every_example_runs(self):
        names = sorted(one.name for one in EXAMPLES.glob("*.py"))
        self.assertGreaterEqual(len(names), 4)
        with tempfile.TemporaryDirectory() as folder:
            for name, color in (("red", 0), ("green", 1)):
                for i in range(20):
                    image = np.random.default_rng(i).integers(0, 90, (40, 40, 3), np.uint8)
                    image[..., color] += 150
                    Path(folder, "photos", name).mkdir(parents=True, exist_ok=True)
                    Image.fromarray(image).save(Path(folder, "photos", name, f"{i}.png"))
            for name in names:
                with self.subTest(name):
                    said = self.run_in(folder, EXAMPLES / name, *(["photos", "resnet20", "2"] if name == "classify_folder.py" else []))
                    self.assertTrue(said)

    def test_types_are_strict(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as cache:
            self.run_in(EXAMPLES, "-m", "mypy", "--strict", "--cache-dir", cache, ".", ROOT / "python" / "neurim", MYPYPATH=str(ROOT / "python"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
