"""benchmarks/lab times each kernel of an op, or says why it declines."""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

if "NEURIM_BUILD" not in os.environ:
    print("NEURIM_BUILD is not set")
    sys.exit(77)
LAB = Path(os.environ["NEURIM_BUILD"], "benchmarks", "lab")
CONV = "conv2d 4x32x28x28 32x32x3x3 pad=1,1,1,1".split()


def lab(*words):
    return subprocess.run([LAB, *words], capture_output=True, text=True, timeout=120, check=False)


def rows(run):
    """{kernel: (ms, best ms, GFLOP/s, percent of the peak, GB/s, bound, percent of the roof)}"""
    found = re.findall(r"^(\S.*?)" + 5 * r" +([\d.]+)" + r" +(fp32|L\d|DRAM) +([\d.]+)$", run.stdout, re.MULTILINE)
    return {name: (*map(float, numbers[:5]), numbers[5], float(numbers[6])) for name, *numbers in found}


class Lab(unittest.TestCase):
    def test_every_kernel_that_takes_it(self):
        run = lab(*CONV, "seconds=0.02", "threads=2")
        self.assertEqual(run.returncode, 0, run.stderr)
        multiply_adds = 4 * 32 * 784 * 32 * 9
        attributes = "{stride=[1,1] dilation=[1,1] pad=[1,1,1,1] groups=1}"
        self.assertIn(f"conv2d f32(4,32,28,28) f32(32,32,3,3) {attributes}: {multiply_adds} multiply-adds\n", run.stdout)
        peak = float(re.search(r"^2 threads at once: fp32 (\d+) GFLOP/s$", run.stdout, re.MULTILINE)[1])
        found = rows(run)
        self.assertLessEqual({"onednn", "cpu winograd"}, set(found), run.stdout)
        self.assertNotIn("reference", found)
        for ms, best, rate, of_peak, _, _, of_roof in found.values():
            self.assertLessEqual(best, ms)
            self.assertAlmostEqual(rate, 2e-6 * multiply_adds / ms, delta=0.01 * rate + 0.1)
            self.assertAlmostEqual(of_peak, 100 * rate / peak, delta=0.05 * of_peak + 0.2)
            self.assertGreater(of_roof, 0)
        self.assertRegex(run.stdout, r"(?m)^cpu winograd fused +declined: takes chains of ops only$")

    def test_one_kernel(self):
        run = lab(*CONV, "seconds=0.001", "threads=1", "only=reference")
        self.assertEqual(list(rows(run)), ["reference"], run.stdout + run.stderr)
        grouped = lab(*CONV[:2], "32x1x3x3", "groups=32", "pad=1,1,1,1", "seconds=0.001", "known=true", "layout=blocked")
        self.assertEqual(grouped.returncode, 0, grouped.stderr)
        self.assertRegex(grouped.stdout, r"(?m)^cpu winograd +declined: .*group")

    def test_mistakes(self):
        for words, said in ((["conv2e", "1x1"], "did you mean 'conv2d'"), (["relu", "2xa"], "'a' is no number"),
                            (["relu", "f31:2"], "no dtype 'f31'"), ([*CONV, "layout=nhwc"], "channels_last"),
                            ([*CONV, "padding=1"], "no attribute 'padding'; it has stride, dilation, pad, groups"),
                            ([*CONV[:3], "pad=1"], "takes 4 numbers"), ([*CONV[:2], "16x8x3x3"], "expects 8"),
                            ([*CONV, "only=cudnn"], "no kernel 'cudnn' takes it"), ([], "usage: lab OP")):
            run = lab(*words)
            self.assertEqual(run.returncode, 1, words)
            self.assertIn(said, run.stderr)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
