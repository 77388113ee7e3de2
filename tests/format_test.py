#!/usr/bin/env python3
"""Checks that clang-format, of the version that tests/parity/requirements.txt names, would change no C++ source.

Exit code 77: it is not installed (scripts/venv installs it).
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_FORMAT = ROOT / ".venv" / "bin" / "clang-format"


class Format(unittest.TestCase):
    def test_every_source_is_formatted(self):
        run = subprocess.run([ROOT / "scripts" / "format", "--check"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, f"scripts/format changes these:\n{run.stderr}")

    def test_a_source_that_is_not_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "x.cpp"
            source.write_text("int  main( ) {return 0 ;}\n")
            run = subprocess.run([ROOT / "scripts" / "format", "--check", source], capture_output=True, text=True)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("x.cpp:1:", run.stderr)


if __name__ == "__main__":
    if not CLANG_FORMAT.exists():
        print("no clang-format in .venv")
        sys.exit(77)
    unittest.main()
