"""Traced functions: what counts as a signature, what optimizers step, and what ends with the interpreter."""
import subprocess
import sys
import unittest

import numpy as np

import neurim as nm
from neurim import nn


class Signatures(unittest.TestCase):
    def test_each_signature_has_a_result_of_its_own(self):
        function = nm.compile(lambda x: (x * 2, x.shape[0]) if x.shape[0] == 3 else x)
        for _ in range(2):
            twice, size = function(nm.ones(3))
            self.assertEqual((twice.tolist(), size), ([2, 2, 2], 3))
            self.assertEqual(function(nm.ones(2)).tolist(), [1, 1])

    def test_equal_constants_of_other_kinds_are_others(self):
        function = nm.compile(lambda x, k: x * k)
        self.assertEqual([function(nm.tensor([3]), k).dtype for k in (1, 1.0, 1)], ["i64", "f32", "i64"])
        traces = []
        function = nm.compile(lambda x, k: traces.append(k) or x + k)
        for _ in range(2):
            function(nm.ones(1), float("nan")), function(nm.ones(1), 0.0), function(nm.ones(1), -0.0)
        self.assertEqual(len(traces), 3)
        self.assertEqual(nm.compile(lambda x, axis: x.sum(axis))(nm.ones((2, 3)), np.int64(1)).shape, (2,))

    def test_methods_are_compiled(self):
        class Scale:
            by = 3

            @nm.compile
            def apply(self, x):
                return x * self.by

        self.assertEqual(Scale().apply(nm.ones(2)).tolist(), [3, 3])


class Optimizers(unittest.TestCase):
    def test_what_cannot_be_minimized_is_said(self):
        net = nn.Linear(2, 1)
        opt = nm.optim.SGD(net.parameters(), lr=0.1)
        with self.assertRaisesRegex(nm.UsageError, r"shape \(3, 1\)"):
            nm.compile(lambda x: opt.minimize(net(x)), training=True)(nm.ones((3, 2)))
        with self.assertRaisesRegex(nm.UsageError, "none of the optimizer's weights"):
            nm.compile(lambda x: opt.minimize(nn.Linear(2, 1)(x).mean()), training=True)(nm.ones((3, 2)))
        with self.assertRaisesRegex(nm.UsageError, "no groups"):
            nm.optim.SGD([{"params": net.parameters()}])

    def test_frozen_parameters_stay(self):
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        net[0].requires_grad_(False)
        before = [p.tolist() for p in net.parameters()]
        opt = nm.optim.SGD(net.parameters(), lr=0.1)
        nm.compile(lambda x: opt.minimize(net(x).mean()), training=True)(nm.ones((3, 2)))
        after = [p.tolist() for p in net.parameters()]
        self.assertEqual((after[:2], after[2:] == before[2:]), (before[:2], False))
        net.requires_grad_(False)
        with self.assertRaisesRegex(nm.UsageError, "no parameters"):
            nm.optim.SGD(net.parameters())

    def test_networks_may_share_names(self):
        a, b = nn.Linear(2, 1), nn.Linear(2, 1)
        nm.optim.Adam(a.parameters())
        self.assertEqual(len(nm.optim.Adam([*b.parameters(), *a.parameters()]).state_dict()), 2 + 2 * 4)


class Ending(unittest.TestCase):
    def ends(self, program):
        run = subprocess.run([sys.executable, "-c", "import neurim as nm, numpy as np, time, threading, builtins\n" + program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])

    def test_loaders_that_are_at_work(self):
        self.ends("""
class Slow:
    def __len__(self): return 40
    def __getitem__(self, i):
        if i >= 40: raise IndexError
        time.sleep(0.05)
        return np.zeros((8, 8, 3), np.uint8), i % 2
loader = nm.data.samples(Slow(), imgsz=8).loader(4)
loader._core.start(0)
keep = [loader]
keep.append(keep)
builtins.keep = keep
""")

    def test_trainings_of_other_threads(self):
        self.ends("""
images = np.zeros((400, 28, 28), np.uint8)
model = nm.create_model("lenet5", num_classes=2)
work = lambda: model.fit(nm.data.arrays(images, [0, 1] * 200), epochs=1000, project="/tmp/neurim-ending", exist_ok=True, verbose=False)
threading.Thread(target=work, daemon=True).start()
time.sleep(2)
""")


if __name__ == "__main__":
    unittest.main(verbosity=2)
