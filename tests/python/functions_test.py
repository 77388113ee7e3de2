"""Functions with a gradient of their own: the classes of PyTorch stay as they are but for the imports, and so do their results."""
import gc
import tempfile
import unittest
import weakref

import numpy as np
import torch

import neurim as nm
from neurim import nn

SOURCE = '''
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x + 0.5).floor()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.view(x.shape)

    @staticmethod
    def backward(ctx, grad):
        return grad * -ctx.by, None


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0) + (1 + (-x.abs()).exp()).log()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sigmoid()


class Scale(torch.autograd.Function):
    """Several inputs and results, and constants between them."""

    @staticmethod
    def forward(ctx, x, power, w, shape):
        y = (x * w).reshape(*shape)
        top = x.argmax(1)
        ctx.save_for_backward(x, w, y, None)
        ctx.shape, ctx.power = x.shape, power
        ctx.mark_non_differentiable(top)
        return y, x + w, top

    @staticmethod
    def backward(ctx, a, b, none):
        x, w, y, nothing = ctx.saved_tensors
        assert nothing is None and none.shape == (3,) and ctx.needs_input_grad[1] is False
        a = a.reshape(*ctx.shape) * ctx.power
        return a * w + b, None, (a * x).sum(0) + b.sum(0) * 3, None


class Exp(torch.autograd.Function):
    """A result is saved, so that gradients of gradients go through this backward again."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * 2


def scaled(x, w):
    y, total, top = Scale.apply(x, 2, w, (6, 2))
    return (y * y).sum() + (total * 0.5).sum()


CASES = {
    "Round": lambda x: (Round.apply(x * 3) ** 2).sum(),
    "Reverse": lambda x: (Reverse.apply(x.tanh(), 0.3) * x).sum(),
    "Softplus": lambda x: Softplus.apply(x * 40).sum(),
    "Exp": lambda x: Exp.apply(Exp.apply(x)).mean(),
    "twice": lambda x: (Reverse.apply(x, 2) * Reverse.apply(x * x, 5)).sum(),
}
'''
THEIRS, OWN = {"torch": torch}, {"torch": nm}  # `import neurim as torch`
exec(SOURCE, THEIRS), exec(SOURCE, OWN)
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def torch_gradients(function, *arrays):
    tensors = [torch.from_numpy(array).requires_grad_() for array in arrays]
    loss = function(*tensors)
    return loss.item(), torch.autograd.grad(loss, tensors)


class AgainstPyTorch(unittest.TestCase):
    def test_values_and_gradients(self):
        for name, function in OWN["CASES"].items():
            loss, (expected,) = torch_gradients(THEIRS["CASES"][name], X)
            for options in {}, {"deterministic": True}, {"training": True}:
                with self.subTest(name, **options):
                    value, grad = nm.value_and_grad(function, **options)(X)
                    np.testing.assert_allclose(value.item(), loss, rtol=1e-5)
                    np.testing.assert_allclose(grad.numpy(), expected, rtol=1e-5, atol=1e-6)
                    self.assertAlmostEqual(function(nm.tensor(X)).item(), loss, 4)
                    np.testing.assert_allclose(nm.compile(function, **options)(X).item(), loss, rtol=1e-5)

    def test_several_inputs_and_results_with_constants(self):
        w = np.float32([1, 2, 3, 4])
        loss, expected = torch_gradients(THEIRS["scaled"], X, w)
        value, grads = nm.value_and_grad(OWN["scaled"], argnums=(0, 1))(X, w)
        np.testing.assert_allclose(value.item(), loss, rtol=1e-5)
        for one, other in zip(grads, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-5)
        y, total, top = OWN["Scale"].apply(nm.tensor(X), 2, nm.tensor(w), (6, 2))
        self.assertEqual((y.shape, total.shape, top.tolist(), top.dtype), ((6, 2), (3, 4), X.argmax(1).tolist(), "i64"))
        planned = nm.compile(lambda x, w: OWN["Scale"].apply(x, 2, w, (6, 2)))(X, w)
        self.assertEqual([one.tolist() for one in planned], [y.tolist(), total.tolist(), top.tolist()])

    def test_gradients_of_gradients(self):
        def theirs(x):
            (grad,) = torch.autograd.grad(THEIRS["Exp"].apply(x).sum(), x, create_graph=True)
            return (grad * grad).sum()

        _, (expected,) = torch_gradients(theirs, X)
        found = nm.grad(lambda x: nm.grad(lambda x: OWN["Exp"].apply(x).sum())(x).square().sum())(X)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)

    def test_finite_differences(self):
        x, step = X[:1].astype(np.float64) * 40, 1e-5
        function = lambda x: OWN["Softplus"].apply(x).sum()
        grad = nm.grad(function)(x).numpy()
        for i in range(4):
            move = np.eye(4)[i : i + 1] * step
            slope = (function(nm.tensor(x + move)).item() - function(nm.tensor(x - move)).item()) / (2 * step)
            self.assertAlmostEqual(grad[0, i], slope, 6)
        far = nm.tensor([-1000.0, 1000.0])
        self.assertEqual((OWN["Softplus"].apply(far).tolist(), nm.grad(function)(far).tolist()), ([0, 1000], [0, 1]))


class Net(nn.Module):
    """A fully connected layer whose weights are rounded to steps of 1/8."""

    def __init__(self):
        super().__init__()
        self.hidden, self.fc, self.functions = nn.Linear(4, 16), nn.Linear(16, 2), OWN

    def forward(self, x):
        x = self.functions["Softplus"].apply(self.hidden(x))
        weight = self.functions["Round"].apply(self.fc.weight * 8) / 8
        return x @ weight.T + self.fc.bias


def torch_net():
    """The same of PyTorch, for Net.forward."""
    net = torch.nn.Module()
    net.hidden, net.fc, net.functions = torch.nn.Linear(4, 16), torch.nn.Linear(16, 2), THEIRS
    return net


class Training(unittest.TestCase):
    def batches(self, count):
        rng = np.random.default_rng(1)
        for _ in range(count):
            x = rng.normal(size=(32, 4)).astype(np.float32)
            yield x, (x.sum(1) > 0).astype(np.int64)

    def losses(self, net, **options):
        opt = nm.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
        step = nm.compile(lambda x, y: opt.minimize(nm.nn.functional.cross_entropy(net(x), y)), training=True, **options)
        return [step(x, y).item() for x, y in self.batches(30)]

    def test_a_network_trains_as_in_pytorch(self):
        other, net = torch_net(), Net()
        net.load_state_dict(other.state_dict())
        fresh = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        optimizer, expected = torch.optim.SGD(other.parameters(), lr=0.2, momentum=0.9), []
        for x, y in self.batches(30):
            loss = torch.nn.functional.cross_entropy(Net.forward(other, torch.from_numpy(x)), torch.from_numpy(y))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(loss.item())
        self.assertLess(expected[-1], 0.5 * expected[0])
        for options, tolerance in ({}, 2e-3), ({"deterministic": True}, 2e-3), ({"precision": "bf16"}, 0.1):
            with self.subTest(**options):
                net.load_state_dict(fresh)
                np.testing.assert_allclose(self.losses(net, **options), expected, rtol=tolerance, atol=tolerance / 4)

    def test_a_network_is_fitted_and_exported(self):
        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 2)

            def forward(self, x):
                x = OWN["Round"].apply(self.conv(x) * 4) / 4
                return self.fc(OWN["Reverse"].apply(x.relu(), -1).mean(dim=(2, 3)))

        rng = np.random.default_rng(2)
        images = rng.integers(0, 120, (60, 12, 12, 3)).astype(np.uint8)
        images[::2, ..., 0] += 130
        with tempfile.TemporaryDirectory() as folder:
            data = nm.data.arrays(images, ["red" if i % 2 == 0 else "dark" for i in range(60)])
            run = Classifier().fit(data, epochs=6, batch=20, lr=0.05, project=folder, verbose=False)
            self.assertGreater(run.evaluate(split="val").top1, 0.9)
            loaded = nm.load(run.export("onnx").path)
            for one, other in zip(run.predict(list(images[:4])), loaded.predict(list(images[:4])), strict=True):
                self.assertEqual(one.label, other.label)
                self.assertAlmostEqual(one[0][1], other[0][1], 5)


class Contexts(unittest.TestCase):
    def test_forward_without_a_context(self):
        class Cube(nm.Function):
            @staticmethod
            def forward(x, by):
                return x * x * x * by

            @staticmethod
            def setup_context(ctx, inputs, output):
                x, ctx.by = inputs
                ctx.save_for_backward(x, output)

            @staticmethod
            def backward(ctx, grad):
                x, y = ctx.saved_tensors
                return grad * x * x * 3 * ctx.by + y * 0, None

        self.assertEqual(Cube.apply(nm.tensor([2.0]), 5).tolist(), [40])
        self.assertEqual(nm.grad(lambda x: Cube.apply(x, 5).sum())(nm.tensor([2.0])).tolist(), [60])

    def test_gradients_are_none_where_asked(self):
        seen = []

        class Two(nm.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.set_materialize_grads(False)
                return x * 2, y * 3

            @staticmethod
            def backward(ctx, a, b):
                seen.append((b is None, ctx.needs_input_grad))
                return a * 2, None

        self.assertEqual(nm.grad(lambda x, y: Two.apply(x, y)[0].sum())(nm.ones(2), nm.ones(3)).tolist(), [2, 2])
        self.assertEqual(seen, [(True, (True, False))])


    def test_plans_let_go_of_what_functions_refer_to(self):
        class Double(nm.Function):
            forward = staticmethod(lambda ctx, x, owner: x * 2)
            backward = staticmethod(lambda ctx, grad: (grad * 2, None))

        class Owner:
            def __init__(self):
                self.step = nm.grad(lambda x: Double.apply(x, self).sum())

        owner = Owner()
        self.assertEqual(owner.step(nm.ones(2)).tolist(), [2, 2])
        gone = weakref.ref(owner)
        del owner
        gc.collect()
        self.assertIsNone(gone())


class Mistakes(unittest.TestCase):
    def said(self, words, backward=lambda ctx, *grads: (grads[0], None), forward=lambda ctx, x, low: x * low, wrt=None):
        function = type("Clip", (nm.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})
        with self.assertRaisesRegex(nm.UsageError, "^Clip: " + words):
            nm.value_and_grad(lambda x: function.apply(x, 2).sum(), wrt)(X)

    def test_of_backward(self):
        self.said(r"backward gives 1 gradients, and forward has 2 arguments; return one for each", lambda ctx, grad: grad)
        self.said(r"backward gives a gradient of shape \(4,\) and dtype f32 for argument 0, which has shape \(3, 4\)", lambda ctx, grad: (grad.sum(0), None))
        self.said(r"backward gives a gradient of shape \(3, 4\) and dtype f64 for argument 0", lambda ctx, grad: (grad.double(), None))
        self.said(r"backward gives a gradient for argument 1, which is 2 and no tensor", lambda ctx, grad: (grad, grad))
        self.said(r"backward gives float for argument 0", lambda ctx, grad: (1.0, None))
        with self.assertRaisesRegex(nm.UsageError, "Half: there is no backward"):
            half = type("Half", (nm.Function,), {"forward": staticmethod(lambda ctx, x: x / 2)})
            nm.grad(lambda x: half.apply(x).sum())(X)

    def test_of_forward(self):
        self.said(r"forward gives NoneType; it has to return a tensor", forward=lambda ctx, x, low: None)
        self.said(r"forward gives NoneType; it has to return a tensor", forward=lambda ctx, x, low: ())
        self.said(r"forward gives float", forward=lambda ctx, x, low: (x, 1.0))
        with self.assertRaisesRegex(nm.UsageError, "Round: no argument is a tensor"):
            OWN["Round"].apply([nm.tensor(X)])
        with self.assertRaisesRegex(nm.UsageError, "forward gives NoneType"):
            type("None_", (nm.Function,), {"forward": staticmethod(lambda ctx, x: None)}).apply(nm.tensor(X))

    def test_weights_from_outside(self):
        layer = nn.Linear(4, 4)
        self.said("the forward function reads", forward=lambda ctx, x, low: layer(x), wrt=layer)
        function = type("Clip", (nm.Function,), {"forward": staticmethod(lambda ctx, x: layer(x)), "backward": staticmethod(lambda ctx, grad: grad * 3)})
        self.assertEqual(nm.grad(lambda x: function.apply(x).sum())(X).tolist(), [[3] * 4] * 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
