"""Faults of processes that train together, of each kind some: scripts/chaos does as many as one likes."""
import subprocess
import unittest

from command import ROOT


class Chaos(unittest.TestCase):
    def test_every_fault_is_noticed_and_nothing_is_lost(self):
        run = subprocess.run([ROOT / "scripts" / "chaos", "10", "10", "5", "5"], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual((run.returncode, run.stdout.splitlines()[-1]), (0, "30 faults, 0 wrong"), run)


if __name__ == "__main__":
    unittest.main()
