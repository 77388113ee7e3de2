#!/usr/bin/env python3
"""Checks that every name in the headers that neurim.h reaches is documented: Doxygen has no warning."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from command import ROOT

BUILD = os.environ["NEURIM_BUILD"]


def api_docs(*words):
    return subprocess.run([ROOT / "tools" / "api_docs", *words], capture_output=True, text=True, check=False)


class ApiDocs(unittest.TestCase):
    def test_every_name_is_documented(self):
        run = api_docs(BUILD)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        pages = Path(BUILD, "docs", "html")
        self.assertIn("Batch normalization", (pages / "structneurim_1_1nn_1_1BatchNorm2d.html").read_text())

    def test_an_undocumented_name_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            header = Path(folder, "x.h")
            header.write_text("/// A pair.\nstruct Pair {\n  int left = 1, right = 2;  ///< both\n  int sum() const;\n};\n")
            run = api_docs(folder, str(header))
        self.assertEqual(run.returncode, 1)
        self.assertIn("sum", run.stderr)
        for documented in ("left", "right"):
            self.assertNotIn(documented, run.stderr)


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("skipped: no doxygen; scripts/setup doxygen installs it")
        sys.exit(77)
    unittest.main()
