#!/usr/bin/env python3
"""Checks that scripts/tidy finds a fault and passes what has none.

Exit code 77: clang-tidy is not installed (scripts/venv installs it), or build/release is not configured.
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tidy(code):
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "x.cpp"
        source.write_text(code)
        return subprocess.run([ROOT / "scripts" / "tidy", source], capture_output=True, text=True, check=False)


class Tidy(unittest.TestCase):
    def test_a_fault_is_found(self):
        run = tidy("int* pointer() { return 0; }\n")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("x.cpp:1:25: error: use nullptr [modernize-use-nullptr", run.stdout)

    def test_a_name_of_another_form_is_found(self):
        run = tidy("int CamelCase() { return 0; }\n")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("readability-identifier-naming", run.stdout)

    def test_a_source_without_faults_passes(self):
        run = tidy("int* pointer() { return nullptr; }\n")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(run.stdout, "tidy: 1 sources, 0 with findings\n")


if __name__ == "__main__":
    for needed in (".venv/bin/clang-tidy", "build/release/compile_commands.json"):
        if not (ROOT / needed).exists():
            print(f"skipped: no {needed}")
            sys.exit(77)
    unittest.main()
