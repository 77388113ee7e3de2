"""Compares the ranges of each way of calibration with plain ones over all numbers.

ctest sets NEURIM_BUILD (the build folder, whose tests/ranges runs our side). Exit code 77: not here.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "ranges")


def run(cases):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        return subprocess.run([RUNNER, file.name], capture_output=True, text=True, check=False)


def answers(cases):
    done = run(cases)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def samples():
    random = np.random.default_rng(0)
    normal = random.normal(size=20000)
    return {"relu": np.maximum(normal, 0) * 3, "normal": normal, "shifted": normal * 0.1 + 7, "outlier": np.append(normal, 60.0),
            "long tails": random.standard_t(3, size=20000), "negative": -np.abs(normal) * 1e-3, "large": normal * 1e6}


def candidates(values, symmetric):
    low, high = min(values.min(), 0), max(values.max(), 0)
    if symmetric:
        low, high = -max(-low, high), max(-low, high)
    return [(low * part / 100, high * part / 100) for part in range(100, 19, -1)]


def squared_error(values, low, high, levels):
    step = (high - low) / levels
    return np.mean((values - (low + np.rint((np.clip(values, low, high) - low) / step) * step)) ** 2)


def relative_entropy(values, low, high, levels):
    """Of bins of a 4096th of the next power of two, as the article has it: what lies beyond is counted at the ends of the one
    distribution; the other has the same number in all bins of a level that are not empty."""
    width = 2.0 ** (np.floor(np.log2(np.abs(values).max())) + 1) / 4096
    bins, counts = np.unique(np.floor(values / width), return_counts=True)
    first, last = np.floor(low / width), min(np.floor(high / width), 4095)
    inside = np.clip(bins, first, last)
    level = np.clip(np.rint((np.clip((bins + 0.5) * width, low, high) - low) / ((high - low) / levels)), 0, levels)
    kept = bins == inside
    sums, filled = {}, {}
    for l, c in zip(level[kept], counts[kept]):
        sums[l], filled[l] = sums.get(l, 0) + c, filled.get(l, 0) + 1
    total = counts[kept].sum()
    p, q = {}, {}
    for b, at, l, c, k in zip(bins, inside, level, counts, kept):
        p[at] = p.get(at, 0) + c
        if k:
            q[at] = sums[l] / filled[l] / total
    return sum(c / len(values) * np.log(c / len(values) / max(q.get(at, 0), 1e-12)) for at, c in p.items())


class Ranges(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.values = {name: values.astype(np.float32) for name, values in samples().items()}
        cls.found = dict(zip(cls.values, answers([{"values": values.tolist()} for values in cls.values.values()])))

    def test_minmax(self):
        for name, values in self.values.items():
            low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
            self.assertEqual(self.found[name]["minmax"], [low, high], name)
            self.assertEqual(self.found[name]["minmax_symmetric"], [-max(-low, high), max(-low, high)], name)

    def test_percentile(self):
        for name, values in self.values.items():
            width = 2.0 ** (np.floor(np.log2(np.abs(values).max())) + 1) / 4096
            beyond = int(len(values) * 1e-4)
            ordered = np.sort(values)
            low, high = self.found[name]["percentile"]
            self.assertAlmostEqual(low, min(0, ordered[beyond]), delta=width, msg=name)
            self.assertAlmostEqual(high, max(0, ordered[-1 - beyond]), delta=width, msg=name)
        self.assertLess(self.found["outlier"]["percentile"][1], 10)

    def test_mse_is_the_least_of_its_candidates(self):
        for name, values in self.values.items():
            for symmetric in (False, True):
                levels, exact = (254 if symmetric else 255), values.astype(np.float64)
                best = min(squared_error(exact, *range_, levels) for range_ in candidates(exact, symmetric))
                ours = squared_error(exact, *self.found[name]["mse_symmetric" if symmetric else "mse"], levels)
                self.assertLess(ours, best * 1.05, name)
        self.assertLess(self.found["outlier"]["mse"][1], 60)

    def test_entropy_is_the_least_of_its_candidates(self):
        for name, values in self.values.items():
            for symmetric in (False, True):
                levels, exact = (254 if symmetric else 255), values.astype(np.float64)
                best = min(relative_entropy(exact, *range_, levels) for range_ in candidates(exact, symmetric))
                ours = relative_entropy(exact, *self.found[name]["entropy_symmetric" if symmetric else "entropy"], levels)
                self.assertLess(ours, best + 1e-6, name)

    def test_parts_in_any_order_hold_the_same(self):
        values = self.values["long tails"]
        tests = [{"values": values.tolist(), "parts": parts} for parts in ([1], [5000, 5001, 19999], [0, 10000])]
        tests.append({"values": values[::-1].tolist()})
        for found in answers(tests):
            self.assertEqual(found, self.found["long tails"])

    def test_zeros_one_number_and_none(self):
        zeros, one, none = answers([{"values": [0.0] * 9}, {"values": [3.5]}, {"values": []}])
        for method in ("minmax", "percentile", "mse", "entropy"):
            self.assertEqual((zeros[method], none[method]), ([0, 0], [0, 0]))
            self.assertEqual(one[method][0], 0)
            self.assertTrue(0.2 * 3.5 <= one[method][1] <= 3.5, (method, one[method]))


if __name__ == "__main__":
    unittest.main()
