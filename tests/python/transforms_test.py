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

    def test_arrays_without_axes_are_tensors(self):
        torch = __import__("torch")
        traces = []
        function = nm.compile(lambda x, k: traces.append(1) or x * k)
        for kind in (torch.tensor, lambda value: np.array(value, np.float32)):
            k = kind(2.0)
            self.assertEqual(function(nm.ones(2), k).tolist(), [2, 2])
            k[()] = 5.0
            self.assertEqual(function(nm.ones(2), k).tolist(), [5, 5])
        self.assertEqual(len(traces), 1)

    def test_what_has_no_gradient_is_said(self):
        x, net = nm.ones(2), nn.Linear(2, 1)

        def square(x):
            return (x * x).sum()

        for function, words in (
            (lambda: nm.grad(square)(nm.tensor([1, 2])), "grad: argument 0 is i64"), (lambda: nm.value_and_grad(square)(nm.tensor([True])), "value_and_grad: argument 0 is bool"),
            (lambda: nm.grad(square)(x=x), "0 arguments by position"), (lambda: nm.grad(square)(), "0 arguments"), (lambda: nm.grad(square, argnums=1)(x), "argnums has 1"),
            (lambda: nm.grad(square, argnums="a"), "argnums is 'a'"), (lambda: nm.grad(square)(3.0), r"no tensor \(float\)"), (lambda: nm.grad(lambda x: x[0].sum())([x, 3]), r"no tensor \(list\)"),
            (lambda: nm.grad(square)([]), r"no tensor \(list\)"), (lambda: nm.compile(3), "compile: takes a function, got int"), (lambda: nm.grad(3), "grad: takes a function"),
            (lambda: nm.value_and_grad(square, trainig=True), "value_and_grad: there is no option 'trainig'; did you mean training"), (lambda: nm.grad(square, foo=1), "grad: there is no option"),
            (lambda: nm.grad(square, np.ones(2)), "wrt is a ndarray"), (lambda: nm.grad(square, [net]), r"wrt\[0\] is a Linear"), (lambda: nm.grad(square, nm.tensor([1])), "of wrt is i64"),
            (lambda: nm.grad(square, x, argnums=0), "both given"), (lambda: nm.compile(square, seed=-1), "compile: seed is -1"), (lambda: nm.compile(square, precision=3), "precision is a int"),
        ):  # fmt: skip
            with self.assertRaisesRegex(nm.UsageError, words) as raised:
                function()
            self.assertNotIn("\n", str(raised.exception))

    def test_gradients_of_lists_and_dictionaries(self):
        x = nm.ones(2)
        a, b = nm.grad(lambda pair: (pair[0] * pair[1]).sum())([x, x * 3])
        self.assertEqual((a.tolist(), b.tolist()), ([3, 3], [1, 1]))
        self.assertEqual(nm.grad(lambda named: (named["a"] * 2).sum())({"a": x})["a"].tolist(), [2, 2])
        value, (of_x, of_named) = nm.value_and_grad(lambda x, named: (x * named["a"]).sum(), argnums=[0, -1])(x, {"a": x * 4})
        self.assertEqual((value.item(), of_x.tolist(), of_named["a"].tolist()), (8, [4, 4], [1, 1]))
        net = nn.Linear(2, 1)
        step = nm.value_and_grad(lambda x: net(x).sum(), net.parameters())
        self.assertEqual([step(nm.ones(rows, 2))[1][1].tolist() for rows in (1, 3)], [[1], [3]])

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

    def test_wrong_arguments_are_said_in_a_line(self):
        net = nn.Linear(2, 1)
        opt = nm.optim.SGD(net.parameters(), lr=1)
        weight = net.weight
        for function, words in (
            (lambda: nm.optim.SGD(weight), "single Tensor; give a list"), (lambda: nm.optim.SGD(np.ones(2)), "single ndarray"), (lambda: nm.optim.SGD([1.0]), "parameter 0 is a float"),
            (lambda: nm.optim.SGD([nm.tensor([1])]), "parameter 0 is i64"), (lambda: nm.optim.SGD([weight], lr="0.1"), "lr is '0.1'; it has to be a number"), (lambda: nm.optim.SGD([weight], momentum=None), "momentum is None"),
            (lambda: nm.optim.Adam([weight], betas=(0.9, 0.99, 0.999)), "betas is .* two numbers"), (lambda: nm.optim.AdamW([weight], betas=0.9), "betas is 0.9"), (lambda: nm.optim.AdamW([weight], eps="a"), "eps is 'a'"),
            (lambda: setattr(opt, "lr", "x"), "lr is 'x'"), (lambda: nm.optim.SGD([weight], clip_norm="x"), "clip_norm is 'x'"), (lambda: opt.step([weight]), "1 gradients for 2 parameters"),
            (lambda: opt.step(weight), "list of gradients, got a Tensor"), (lambda: opt.step([weight, None]), "gradient of .* is a NoneType"),
        ):  # fmt: skip
            with self.assertRaisesRegex(nm.UsageError, words) as raised:
                function()
            self.assertNotIn("\n", str(raised.exception))
        before = weight.numpy().copy()
        opt.step([np.ones((1, 2), np.float32), nm.zeros(1)])
        np.testing.assert_allclose(weight.numpy(), before - 1, rtol=1e-6)

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
