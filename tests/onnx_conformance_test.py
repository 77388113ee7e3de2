"""ONNX's backend tests, in this process's build: shares of each tier that pass, planned and op by op."""
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

DATA = Path(os.environ.get("NEURIM_DATA", "none")) / "onnx"
PROGRAM = Path(os.environ.get("NEURIM_BUILD", "build/release")) / "tests" / "onnx_conformance"
LEAST = {"core": 0.985, "expanded": 1, "oldopset": 0.95, "lowbit": 0.8, "newop": 0.8, "trained": 1}


def run(folder, *options):
    result = subprocess.run([PROGRAM, folder, *options], capture_output=True, text=True, check=False)
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    tiers = {line[1]: (int(line[2]), int(line[3])) for line in lines if line[0] == "tier"}
    return result, tiers, [line for line in lines if line[0] == "FAIL"]


class Conformance(unittest.TestCase):
    def test_backend_tests(self):
        for archive in ("onnx-conformance-tests.tar.gz", "onnx-trained-models.tar.gz"):
            with tempfile.TemporaryDirectory() as folder:
                with tarfile.open(DATA / archive) as tar:
                    tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # since Python 3.11.4
                for options in ([], ["--eager"]):
                    result, tiers, failed = run(folder, *options)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertTrue(tiers)
                    for tier, (passed, tests) in tiers.items():
                        print(archive, *options, tier, passed, "of", tests)
                        why = "\n".join(" ".join(line) for line in failed if line[1] == tier)
                        self.assertGreaterEqual(passed / tests, LEAST.get(tier, 0), why)


if __name__ == "__main__":
    if not DATA.is_dir():
        print("no data: NEURIM_DATA is not set")
        sys.exit(77)
    unittest.main(verbosity=2)
