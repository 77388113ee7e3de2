"""tools/test_totals counts the cases that GoogleTest and unittest report, and a silent failure as one."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.sax.saxutils import escape

TOOL = Path(__file__).resolve().parent.parent / "tools" / "test_totals"


def totals(*cases):
    """Runs the tool on one report of (status, output) entries; returns (exit code, last line)."""
    entries = "".join(f'<testcase name="t" status="{status}"><system-out>{escape(output)}</system-out></testcase>'
                      for status, output in cases)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        report.write_text(f"<testsuite>{entries}</testsuite>")
        run = subprocess.run([sys.executable, TOOL, report], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout.splitlines()[-1]


class TestTotals(unittest.TestCase):
    def test_googletest(self):
        output = "[==========] 6 tests from 2 test suites ran. (1 ms total)\n[  PASSED  ] 3 tests.\n" \
                 "[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.B\n[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] A.C\n"
        self.assertEqual(totals(("fail", output)), (1, "3 passed, 2 failed, 1 skipped"))

    def test_unittest(self):
        self.assertEqual(totals(("fail", "Ran 6 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n")),
                         (1, "2 passed, 3 failed, 1 skipped"))
        self.assertEqual(totals(("run", "Ran 3 tests in 0.1s\n\nOK (skipped=1)\n")), (0, "2 passed, 0 failed, 1 skipped"))

    def test_a_failure_that_no_case_names_counts(self):
        self.assertEqual(totals(("fail", "[==========] 2 tests from 1 test suite ran. (1 ms total)\n[  PASSED  ] 2 tests.\n")),
                         (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(totals(("run", ""), ("fail", "Segmentation fault")), (1, "1 passed, 1 failed, 0 skipped"))

    def test_nothing_passed_is_a_failure(self):
        self.assertEqual(totals(), (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
