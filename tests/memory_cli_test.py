"""The command where there is too little memory: one line and exit code 4, wherever an allocation fails."""
import os
import re
import resource
import subprocess
import tempfile
import unittest
from pathlib import Path

from command import NEURIM, png

SHIM = Path(os.environ["NEURIM_BUILD"], "tests", "libfail_malloc.so")


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.root = Path(cls.home.name)
        for name, level in (("dark", 10), ("bright", 170)):
            for i in range(12):
                png(cls.root / "data" / name / f"{i}.png", 32, 32, level + i)
        cls.words = [NEURIM, "train", f"data={cls.root}/data", "model=resnet20", "imgsz=32", "epochs=1", "batch=4", "threads=2", "workers=1",
                     "plots=false", f"project={cls.root}/runs", "exist_ok=true"]

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def train(self, limit=None, **environment):
        return subprocess.run(self.words, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
                              preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))) if limit else None)

    def with_failing_malloc(self, number):
        run = self.train(LD_PRELOAD=str(SHIM), FAIL_MALLOC=str(number))
        told = re.search(r"(?m)^fail_malloc: (\d+) allocations, (\d+) failed\n", run.stderr)
        self.assertTrue(told, (number, run))
        return run, int(told[1]), int(told[2]), run.stderr.replace(told[0], "")

    def test_any_allocation_may_fail(self):
        run, allocations, failed, _ = self.with_failing_malloc(0)
        self.assertEqual((run.returncode, failed), (0, 0), run)
        codes = []
        for step in range(1, 24):  # before main() begins nothing can be said
            number = allocations * step // 24
            with self.subTest(number=number):
                run, _, failed, said = self.with_failing_malloc(number)
                self.assertIn(run.returncode, (0, 4), run)  # 0: the rest takes no more memory than what is given back
                self.assertTrue(failed > 0 or run.returncode == 0, "nothing was injected")
                if run.returncode == 4:
                    self.assertIn("out of memory", said.splitlines()[-1])
                codes.append(run.returncode)
        self.assertGreater(codes.count(4), len(codes) // 2, "hardly an allocation has failed")

    def test_any_limit_of_memory(self):
        codes = []
        for mib in range(80, 480, 20):
            with self.subTest(mib=mib):
                run = self.train(limit=mib << 20)
                codes.append(run.returncode)
                if run.returncode == 127:
                    self.assertIn("loading shared libraries", run.stderr)  # it has not begun
                elif run.returncode != 0:
                    self.assertEqual(run.returncode, 4, run)
                    self.assertRegex(run.stderr.splitlines()[-1], "memory|the system gives")
        self.assertIn(4, codes)


if __name__ == "__main__":
    unittest.main()
