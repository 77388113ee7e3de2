"""neurim.nn and its functions against PyTorch in double precision: outputs, gradients, states and first values."""

import copy
import math
import os
import pickle
import tempfile
import unittest
from collections import OrderedDict

import numpy as np
import torch

import neurim as nm
import neurim.nn.functional as F
from neurim import losses, nn, safetensors
from neurim.module import is_frozen

TOLERANCE = 1e-5  # of the largest number


def draw(*shape, low=-2.0, high=2.0, other=0):
    """Numbers that follow from the shape and `other`, no two of which are equal, nor those of another `other`."""
    count = math.prod(shape)
    places = np.random.default_rng(count + other).permutation(count)
    return ((low + (places + 0.41 + 0.13 * other) / max(count, 1) * (high - low)).reshape(shape)).astype(np.float32)


def positive(*shape, other=0):
    return draw(*shape, low=0.05, high=0.95, other=other)


def classes(*shape, below):
    return np.random.default_rng(below).integers(0, below, shape)


def signs(*shape):
    return np.where(draw(*shape) > 0, 1.0, -1.0).astype(np.float32)


def flat(outputs):
    """The tensors in nested tuples."""
    if isinstance(outputs, (tuple, list)):
        return [tensor for one in outputs for tensor in flat(one)]
    return [] if outputs is None else [outputs]


def theirs(value):
    if isinstance(value, np.ndarray):
        return torch.tensor(value, dtype=torch.float64 if value.dtype == np.float32 else None)
    return [theirs(one) for one in value] if isinstance(value, list) else value


def mine(value):
    if isinstance(value, np.ndarray):
        return nm.tensor(value)
    return [mine(one) for one in value] if isinstance(value, list) else value


def is_learnt(value):
    return isinstance(value, np.ndarray) and value.dtype == np.float32


def weighted(outputs, sum_of):
    """One number that depends on each output in another way."""
    total = 0
    for output in flat(outputs):
        total = total + sum_of(output, draw(*output.shape, other=2))
    return total


def weighted_mine(outputs):
    return weighted(outputs, lambda y, w: (y * nm.tensor(w)).sum())


def weighted_theirs(outputs):
    return weighted(outputs, lambda y, w: (y * torch.tensor(w)).sum())


class Case(unittest.TestCase):
    def close(self, ours, reference, what=""):
        ours = np.asarray(ours.numpy() if isinstance(ours, nm.Tensor) else ours, dtype=np.float64)
        reference = np.asarray(reference.detach().numpy() if isinstance(reference, torch.Tensor) else reference)
        self.assertEqual(ours.shape, reference.shape, what)
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(reference), what)
        finite = np.isfinite(reference)
        if finite.any():
            error = np.abs(ours[finite] - reference[finite]).max()
            self.assertLessEqual(error, TOLERANCE * max(np.abs(reference[finite]).max(), 1e-3), what)

    def all_close(self, ours, reference, what=""):
        ours, reference = flat(ours), flat(reference)
        self.assertEqual(len(ours), len(reference), what)
        for number, (a, b) in enumerate(zip(ours, reference, strict=True)):
            self.close(a, b, f"{what} {number}")


IMAGE, LINE, VOLUME = (2, 4, 7, 6), (2, 4, 9), (2, 4, 4, 5, 6)
ROWS = (3, 5)


def conv_rows():
    for axes, x, kernel in ((1, LINE, (3,)), (2, IMAGE, (3, 2)), (3, VOLUME, (2, 3, 2))):
        weight, grouped = (6, 4, *kernel), (6, 2, *kernel)
        yield f"conv{axes}d", [draw(*x), draw(*weight), draw(6)], {}
        yield f"conv{axes}d", [draw(*x), draw(*grouped)], {"stride": 2, "padding": 1, "groups": 2}
        yield f"conv{axes}d", [draw(*x), draw(*weight), draw(6)], {"padding": "same"}
        yield f"conv{axes}d", [draw(*x), draw(*weight), None, 1, "valid", (1,) * axes], {}
        yield f"conv{axes}d", [draw(*x), draw(*weight), draw(6), 1, (2,) * axes, 2], {}
        across = (4, 3, *kernel)
        yield f"conv_transpose{axes}d", [draw(*x), draw(*across), draw(3)], {}
        more = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "dilation": 2}
        yield f"conv_transpose{axes}d", [draw(*x), draw(*across), draw(6)], more


def pool_rows():
    for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME)):
        yield f"max_pool{axes}d", [draw(*x), 2], {}
        yield f"max_pool{axes}d", [draw(*x), 3, 2, 1], {"ceil_mode": True}
        yield f"max_pool{axes}d", [draw(*x), 2, (1,) * axes, 0, 2], {}
        yield f"avg_pool{axes}d", [draw(*x), 2], {}
        yield f"avg_pool{axes}d", [draw(*x), 3, 2, 1, True, False], {}
        yield f"avg_pool{axes}d", [draw(*x), 3, 2, 1], {"ceil_mode": True}
        for kind in ("avg", "max"):
            yield f"adaptive_{kind}_pool{axes}d", [draw(*x), 3], {}
            yield f"adaptive_{kind}_pool{axes}d", [draw(*x), 1], {}
    yield "adaptive_avg_pool2d", [draw(*IMAGE), (None, 4)], {}
    yield "lp_pool1d", [positive(*LINE), 3.0, 2], {}
    yield "lp_pool2d", [draw(*IMAGE), 2.0, 3, 2], {"ceil_mode": True}
    yield "unfold", [draw(*IMAGE), (3, 2)], {"padding": 1, "stride": 2}
    yield "unfold", [draw(*IMAGE), 2, 2], {}


def norm_rows():
    channels = [positive(4), draw(4)]
    for x in (ROWS[:1] + (4,), LINE, IMAGE, VOLUME):
        yield "batch_norm", [draw(*x), draw(4), positive(4), *channels], {}
        yield "batch_norm", [draw(*x), None, None, None, None, True], {"eps": 1e-3}
    for x in (LINE, IMAGE, VOLUME):
        yield "instance_norm", [draw(*x)], {}
        yield "instance_norm", [draw(*x), draw(4), positive(4), *channels, False], {}
        yield "group_norm", [draw(*x), 2, *channels], {}
        yield "group_norm", [draw(*x), 4], {"eps": 1e-3}
        yield "local_response_norm", [draw(*x), 3], {"alpha": 0.5, "k": 2.0}
    yield "layer_norm", [draw(3, 5, 6), (6,), draw(6), draw(6)], {}
    yield "layer_norm", [draw(3, 5, 6), (5, 6)], {"eps": 1e-3}
    yield "normalize", [draw(*IMAGE)], {}
    yield "normalize", [draw(*ROWS)], {"p": 1, "dim": -1}
    yield "normalize", [draw(*ROWS)], {"p": 3, "dim": 0}
    yield "normalize", [draw(*ROWS)], {"p": math.inf}
    yield "cosine_similarity", [draw(4, 6), positive(4, 6)], {}
    yield "cosine_similarity", [draw(*LINE), positive(*LINE)], {"dim": 2}
    yield "pairwise_distance", [draw(4, 6), positive(4, 6)], {}
    yield "pairwise_distance", [draw(4, 6), positive(4, 6)], {"p": 1.0, "keepdim": True}


def activation_rows():
    x = draw(*IMAGE, low=-7, high=8)
    for name in (
        *("relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "logsigmoid", "tanhshrink"),
        *("hardsigmoid", "hardswish", "hardtanh", "softplus", "softsign", "softshrink", "hardshrink"),
    ):
        yield name, [x], {}
    yield "sigmoid", [x], {}
    yield "tanh", [x], {}
    yield "leaky_relu", [x, 0.2], {}
    yield "elu", [x, 0.7], {}
    yield "celu", [x, 0.7], {}
    yield "gelu", [x], {"approximate": "tanh"}
    yield "hardtanh", [x, -0.3, 2.5], {}
    yield "softplus", [x], {"beta": 2}
    yield "softplus", [x, 1, 3], {}
    yield "softshrink", [x, 1.5], {}
    yield "hardshrink", [x, 1.5], {}
    yield "threshold", [x, 0.25, -3.0], {}
    yield "prelu", [x, np.float32([0.25])], {}
    yield "prelu", [x, draw(4)], {}
    yield "prelu", [draw(3, 4), draw(4)], {}
    for dim in (0, 1, -1):
        for name in ("softmax", "softmin", "log_softmax"):
            yield name, [x, dim], {}
    yield "glu", [x], {}
    yield "glu", [x, 1], {}


def loss_rows():
    logits, planes, target = draw(5, 4), draw(2, 4, 3, 3), classes(5, below=4)
    marks, holes = classes(2, 3, 3, below=4), np.array([1, -100, 3, 0, -100])
    for reduction in ("mean", "sum", "none"):
        more = {"reduction": reduction}
        yield "cross_entropy", [logits, target], more
        yield "cross_entropy", [planes, marks, positive(4)], {**more, "label_smoothing": 0.1}
        yield "cross_entropy", [logits, holes], more
        yield "cross_entropy", [logits, target], {**more, "ignore_index": 2}
        yield "cross_entropy", [logits, positive(5, 4), positive(4)], {**more, "label_smoothing": 0.2}
        yield "nll_loss", [logits, target], more
        yield "nll_loss", [logits, holes, positive(4)], more
        yield "nll_loss", [planes, marks], more
        yield "binary_cross_entropy", [positive(5, 4), positive(5, 4, other=1)], more
        yield "binary_cross_entropy", [positive(5, 4), positive(5, 4, other=1), positive(4)], more
        yield "binary_cross_entropy_with_logits", [logits, positive(5, 4)], more
        yield "binary_cross_entropy_with_logits", [logits, positive(5, 4), positive(4)], {**more, "pos_weight": draw(4)}
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            yield name, [draw(5, 4), draw(5, 4, other=1)], more
        yield "smooth_l1_loss", [draw(5, 4), draw(5, 4, other=1)], {**more, "beta": 0.3}
        yield "smooth_l1_loss", [draw(5, 4), draw(5, 4, other=1)], {**more, "beta": 0}
        yield "huber_loss", [draw(5, 4), draw(5, 4, other=1)], {**more, "delta": 0.3}
        yield "kl_div", [draw(5, 4), positive(5, 4)], more
        yield "kl_div", [draw(5, 4), draw(5, 4, other=1)], {**more, "log_target": True}
        yield "poisson_nll_loss", [draw(5, 4), draw(5, 4, low=0.3, high=5)], {**more, "full": True}
        yield "poisson_nll_loss", [positive(5, 4), positive(5, 4, other=1)], {**more, "log_input": False}
        yield "gaussian_nll_loss", [draw(5, 4), draw(5, 4, other=1), positive(5, 4)], {**more, "full": True}
        yield "gaussian_nll_loss", [draw(5, 4), draw(5, 4, other=1), positive(5, 1)], more
        yield "soft_margin_loss", [draw(5, 4), signs(5, 4)], more
        yield "hinge_embedding_loss", [draw(5, 4), signs(5, 4)], more
        yield "margin_ranking_loss", [draw(7), draw(7, other=1), signs(7)], {**more, "margin": 0.3}
        yield "cosine_embedding_loss", [draw(6, 4), positive(6, 4), signs(6)], {**more, "margin": 0.1}
        yield "triplet_margin_loss", [draw(6, 4), positive(6, 4), positive(6, 4, other=1)], more
        yield (
            "triplet_margin_loss",
            [draw(6, 4), positive(6, 4), positive(6, 4, other=1)],
            {**more, "swap": True, "p": 1},
        )
    yield "kl_div", [draw(5, 4), positive(5, 4)], {"reduction": "batchmean"}


def other_rows():
    yield "linear", [draw(3, 5), draw(4, 5), draw(4)], {}
    yield "linear", [draw(2, 3, 5), draw(4, 5)], {}
    yield "bilinear", [draw(3, 4), draw(3, 5), draw(2, 4, 5), draw(2)], {}
    yield "bilinear", [draw(2, 3, 4), draw(2, 3, 5), draw(2, 4, 5)], {}
    yield "embedding", [classes(2, 3, below=7), draw(7, 4)], {}
    yield "embedding", [classes(2, 9, below=7), draw(7, 4)], {"padding_idx": 3}
    yield "embedding", [classes(2, 9, below=7), draw(7, 4)], {"padding_idx": -1}
    yield "one_hot", [classes(3, 4, below=6), 7], {}
    yield "pad", [draw(*IMAGE), (1, 2)], {}
    yield "pad", [draw(*IMAGE), (1, 2, 0, 3, 1, 1), "constant", 0.5], {}
    yield "pad", [draw(*IMAGE), (-1, 2, 0, -1)], {}
    for mode in ("reflect", "replicate", "circular"):
        yield "pad", [draw(*IMAGE), (1, 2, 3, 0), mode], {}
        yield "pad", [draw(*LINE), (2, 1)], {"mode": mode}
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        yield "interpolate", [draw(*IMAGE), (5, 9)], {"mode": mode}
        yield "interpolate", [draw(*IMAGE)], {"mode": mode, "scale_factor": 2.0}
    yield (
        "interpolate",
        [draw(*IMAGE)],
        {"mode": "bilinear", "scale_factor": (1.7, 0.6), "recompute_scale_factor": True},
    )
    yield "interpolate", [draw(*IMAGE), 8], {"mode": "bicubic", "align_corners": True}
    yield "interpolate", [draw(*LINE), 5], {"mode": "linear"}
    yield "pixel_shuffle", [draw(2, 8, 3, 4), 2], {}
    yield "pixel_unshuffle", [draw(2, 3, 4, 6), 2], {}


def ungraded_rows():
    """Functions without a gradient, here or in PyTorch."""
    yield "channel_shuffle", [draw(2, 6, 3, 4), 3], {}
    grid = draw(2, 3, 5, 2, low=-1.2, high=1.2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            yield "grid_sample", [draw(*IMAGE), grid, mode, padding], {"align_corners": padding == "border"}
    yield "grid_sample", [draw(*VOLUME), draw(2, 2, 2, 3, 3, low=-1, high=1)], {"align_corners": False}


UNGRADED = {  # inputs to which PyTorch gives no gradient
    **dict.fromkeys(
        ("binary_cross_entropy", "binary_cross_entropy_with_logits", "batch_norm", "instance_norm"), (1, 2)
    ),
    **dict.fromkeys(("hinge_embedding_loss", "soft_margin_loss"), (1,)),
    **dict.fromkeys(("cross_entropy", "nll_loss", "cosine_embedding_loss"), (2,)),
}


class FunctionTest(Case):
    """Each function gives PyTorch's numbers, eagerly and in a trace, and PyTorch's gradients."""

    def check(self, name, inputs, options, graded=True):
        what = f"{name} {[x.shape if isinstance(x, np.ndarray) else x for x in inputs]} {list(options.items())[:3]}"
        with self.subTest(what):
            function, reference = getattr(F, name), getattr(torch.nn.functional, name, None) or getattr(torch, name)
            converted = {key: mine(value) for key, value in options.items()}
            learnt = [place for place, value in enumerate(inputs) if is_learnt(value)] if graded else []
            learnt = [place for place in learnt if place not in UNGRADED.get(name, ())]

            xs = [theirs(value) for value in inputs]
            for place in learnt:
                xs[place].requires_grad_()
            expected = reference(*xs, **{key: theirs(value) for key, value in options.items()})
            tensors = [mine(value) for value in inputs]
            self.all_close(function(*tensors, **converted), expected, what)
            if not learnt:
                return

            def run(*given):
                arguments = list(tensors)
                for place, tensor in zip(learnt, given, strict=True):
                    arguments[place] = tensor
                outputs = function(*arguments, **converted)
                return weighted_mine(outputs), outputs

            traced = nm.value_and_grad(run, argnums=tuple(range(len(learnt))), has_aux=True)
            (_, outputs), gradients = traced(*[tensors[place] for place in learnt])
            self.all_close(outputs, expected, f"{what} traced")
            weighted_theirs(expected).backward()
            self.all_close(gradients, [xs[place].grad for place in learnt], f"{what} gradient")

    def test_convolutions(self):
        for row in conv_rows():
            self.check(*row)

    def test_pools(self):
        for row in pool_rows():
            self.check(*row)

    def test_norms(self):
        for row in norm_rows():
            self.check(*row)

    def test_activations(self):
        for row in activation_rows():
            self.check(*row)

    def test_losses(self):
        for row in loss_rows():
            self.check(*row)

    def test_others(self):
        for row in other_rows():
            self.check(*row)
        for row in ungraded_rows():
            self.check(*row, graded=False)

    def test_running_statistics(self):
        for name, x in (("batch_norm", IMAGE), ("batch_norm", ROWS[:1] + (4,)), ("instance_norm", LINE)):
            ours, reference = [mine(draw(4)), mine(positive(4))], [theirs(draw(4)), theirs(positive(4))]
            flag = {"batch_norm": "training", "instance_norm": "use_input_stats"}[name]
            options = {flag: True, "momentum": 0.3}
            y = getattr(F, name)(mine(draw(*x)), *ours, **options)
            expected = getattr(torch.nn.functional, name)(theirs(draw(*x)), *reference, **options)
            self.all_close([y, *ours], [expected, *reference], name)

    def test_rms_norm(self):
        x, weight = draw(3, 5, 6), draw(6)
        expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 2.0**-23)
        self.close(F.rms_norm(mine(x), (6,)), expected)
        self.close(F.rms_norm(mine(x), 6, mine(weight), 2.0**-23), expected * weight)

    def test_attention(self):
        def reference(q, k, v, mask=None, causal=False):
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            if causal:
                scores = scores + torch.full(scores.shape[-2:], -math.inf, dtype=q.dtype).triu(1)
            if mask is not None:
                scores = scores + mask
            return scores.softmax(-1) @ v

        q, k, v, mask = draw(2, 3, 5, 4), draw(2, 3, 7, 4), draw(2, 3, 7, 6), draw(5, 7)
        ours, known = [mine(x) for x in (q, k, v)], [theirs(x) for x in (q, k, v)]
        self.close(F.scaled_dot_product_attention(*ours), reference(*known))
        self.close(F.scaled_dot_product_attention(*ours, mine(mask)), reference(*known, theirs(mask)))
        hidden = torch.zeros(5, 7, dtype=torch.float64).masked_fill(torch.tensor(mask <= 0), -math.inf)
        self.close(F.scaled_dot_product_attention(*ours, mine(mask > 0)), reference(*known, hidden))
        self.close(F.scaled_dot_product_attention(*ours, is_causal=True), reference(*known, causal=True))
        flat_ours, flat_known = [x[:, 0] for x in ours], [x[:, 0] for x in known]
        self.close(F.scaled_dot_product_attention(*flat_ours), reference(*flat_known))
        shared = F.scaled_dot_product_attention(ours[0], ours[1][:, :1], ours[2][:, :1], enable_gqa=True)
        self.close(shared, reference(known[0], known[1][:, :1], known[2][:, :1]))
        with self.assertRaisesRegex(nm.UsageError, "enable_gqa"):
            F.scaled_dot_product_attention(ours[0], ours[1][:, :1], ours[2][:, :1])

    def test_ctc(self):
        for reduction in ("mean", "sum", "none"):
            scores, targets = draw(9, 4, 5), classes(4, 3, below=4) + 1
            lengths = ([9, 8, 9, 7], [3, 2, 1, 3])
            x = theirs(scores).requires_grad_()
            expected = torch.nn.functional.ctc_loss(x.log_softmax(2), theirs(targets), *lengths, reduction=reduction)

            def run(given, lengths=lengths, targets=targets, reduction=reduction):
                y = F.ctc_loss(F.log_softmax(given, 2), mine(targets), *lengths, reduction=reduction)
                return weighted_mine(y), y

            (_, y), gradient = nm.value_and_grad(run, has_aux=True)(mine(scores))
            weighted_theirs(expected).backward()
            self.all_close([y, gradient], [expected, x.grad], reduction)

    def test_dropout(self):
        x = nm.ones((64, 32, 8, 8))
        for function, planes in ((F.dropout, False), (F.dropout2d, True)):
            y = function(x, 0.25).numpy()
            self.assertEqual(set(np.unique(y)), {np.float32(0), np.float32(1 / 0.75)})
            self.assertAlmostEqual((y == 0).mean(), 0.25, delta=0.05)
            if planes:
                np.testing.assert_array_equal(y.min((2, 3)), y.max((2, 3)))
            self.assertIs(function(x, 0.25, False), x)
        drawn = nm.compile(lambda x: F.dropout(x), training=True)
        self.assertFalse((drawn(x).numpy() == drawn(x).numpy()).all())
        self.assertEqual(F.dropout1d(nm.ones((2, 3, 4))).shape, (2, 3, 4))
        self.assertEqual(F.dropout3d(nm.ones((2, 3, 4, 2, 2))).shape, (2, 3, 4, 2, 2))
        noise = nm.tensor(np.random.default_rng(0).normal(size=(100000,)).astype(np.float32))
        y = F.alpha_dropout(noise, 0.3, True).numpy()
        self.assertAlmostEqual(y.mean(), 0, delta=0.02)
        self.assertAlmostEqual(y.std(), 1, delta=0.02)

    def test_narrow_dtypes_stay(self):
        for name, inputs in (
            *(("tanhshrink", 1), ("glu", 1), ("normalize", 1), ("cosine_similarity", 2), ("l1_loss", 2)),
            *(("smooth_l1_loss", 2), ("kl_div", 2), ("soft_margin_loss", 2), ("triplet_margin_loss", 3)),
        ):
            y = getattr(F, name)(*[nm.tensor(positive(4, 6)).to("bf16") for _ in range(inputs)])
            self.assertEqual(y.dtype, "bf16", name)

    def test_nan_stays(self):
        x = nm.tensor([math.nan, 1.0, -1.0, 0.25])
        for name, arguments, expected in (
            ("threshold", (0.5, 7.0), [1, 7, 7]),
            ("hardshrink", (), [1, -1, 0]),
            ("softshrink", (), [0.5, -0.5, 0]),
        ):
            for dtype in ("f32", "bf16"):
                first, *others = getattr(F, name)(x.to(dtype), *arguments).tolist()
                self.assertTrue(math.isnan(first), name)
                self.assertEqual(others, expected, name)

    def test_indices_of_rows_are_checked(self):
        weight = nm.ones((4, 2))
        for index in (-1, 4):
            for options in ({}, {"padding_idx": 0}):
                with self.assertRaisesRegex(nm.DataError, rf"an index is {index}, which is not in \[0,4\)"):
                    F.embedding(nm.tensor([[1, index]]), weight, **options)
        self.assertEqual(F.embedding(nm.zeros((0, 3), dtype="i64"), weight).shape, (0, 3, 2))
        indices = nm.tensor([3, 0])
        self.assertEqual(nm.compile(lambda: F.embedding(indices, weight))().shape, (2, 2))

    def test_arrays_are_refused(self):
        message = r"^\w+: takes tensors, got ndarray; nm.tensor\(x\) makes one$"
        rows = (conv_rows, pool_rows, norm_rows, activation_rows, loss_rows, other_rows, ungraded_rows)
        for name, inputs, options in (row for some in rows for row in some()):
            with self.subTest(name), self.assertRaisesRegex(nm.UsageError, message):
                getattr(F, name)(*inputs, **{key: mine(value) for key, value in options.items()})
        for name, arguments, options, inputs in layer_rows():
            if name not in ("Identity", "Flatten", "Unflatten"):
                with self.subTest(name), self.assertRaisesRegex(nm.UsageError, message):
                    getattr(nn, name)(*arguments, **options)(*inputs)
        with self.assertRaisesRegex(nm.UsageError, "^conv2d: takes tensors, got ndarray"):
            nn.Conv2d(4, 6, 3)(draw(*IMAGE))

    def test_errors_say_what_is_wrong(self):
        x = nm.ones(IMAGE)
        for message, call in {
            "padding 'same'": lambda: F.conv2d(x, nm.ones((3, 4, 2, 2)), stride=2, padding="same"),
            "has to be a size, 'same' or 'valid'": lambda: F.conv2d(x, nm.ones((3, 4, 2, 2)), padding="half"),
            "does not broadcast": lambda: F.l1_loss(x, x[0]),
            "has to be mean, sum or none": lambda: F.l1_loss(x, x, reduction="avg"),
            "has one value per channel": lambda: F.batch_norm(nm.ones((1, 3)), None, None, training=True),
            "odd size": lambda: F.glu(nm.ones((2, 3))),
            "two numbers for each padded axis": lambda: F.pad(x, (1, 2, 3)),
            "mode is 'area'": lambda: F.grid_sample(x, nm.ones((2, 3, 3, 2)), "area"),
            "multiple of 9": lambda: F.pixel_shuffle(x, 3),
            "norm: p is 0": lambda: F.normalize(x, 0),
            "p is -inf": lambda: F.pairwise_distance(x, x, -math.inf),
            "p is 1.0, has to lie in": lambda: F.alpha_dropout(x, 1.0, True),
            "beta is 0": lambda: F.softplus(x, 0),
            "lambd is -1": lambda: F.softshrink(x, -1),
            "shuffle: the factor is 0": lambda: F.pixel_shuffle(x, 0),
            "unshuffle: the factor is 0": lambda: F.pixel_unshuffle(x, 0),
            "groups is 0": lambda: F.channel_shuffle(x, 0),
            "into 0 groups": lambda: nn.Conv2d(4, 4, 1, groups=0),
            "have no features": lambda: F.scaled_dot_product_attention(*[nm.ones((1, 1, 2, 0))] * 3),
            "has no values per channel": lambda: F.batch_norm(nm.ones((0, 3)), None, None, training=True),
            "several values a channel": lambda: F.instance_norm(nm.ones((2, 3, 0))),
            "unflatten: a scalar": lambda: nn.Unflatten(0, (1, 1))(nm.ones(())),
            "^flatten: a scalar": lambda: nn.Flatten()(nm.ones(())),
        }.items():
            with self.assertRaisesRegex(nm.UsageError, message) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))

    def test_losses_are_those_functions(self):
        for name in losses.__all__:
            self.assertIs(getattr(losses, name), getattr(F, name))


def layer_rows():
    """(name, arguments, options, inputs)"""
    for axes, x in ((1, LINE), (2, IMAGE), (3, VOLUME)):
        conv = f"Conv{axes}d"
        yield conv, (4, 6, 3), {"padding": 1}, [draw(*x)]
        yield conv, (4, 6, 2), {"stride": 2, "groups": 2, "bias": False}, [draw(*x)]
        yield conv, (4, 6, 3), {"padding": 1, "padding_mode": "replicate"}, [draw(*x)]
        yield conv, (4, 6, (3,) * axes), {"padding": "same", "padding_mode": "circular"}, [draw(*x)]
        yield f"ConvTranspose{axes}d", (4, 6, 3), {}, [draw(*x)]
        yield f"ConvTranspose{axes}d", (4, 6, 3, 2, 1, 1, 2, False), {}, [draw(*x)]
        yield f"BatchNorm{axes}d", (4,), {}, [draw(*x)]
        yield f"BatchNorm{axes}d", (4, 1e-3, 0.3, False), {}, [draw(*x)]
        yield f"BatchNorm{axes}d", (4,), {"track_running_stats": False}, [draw(*x)]
        yield f"InstanceNorm{axes}d", (4,), {}, [draw(*x)]
        yield f"InstanceNorm{axes}d", (4, 1e-3, 0.3, True, True), {}, [draw(*x)]
        yield f"MaxPool{axes}d", (3, 2, 1), {}, [draw(*x)]
        yield f"AvgPool{axes}d", (3,), {"padding": 1, "count_include_pad": False}, [draw(*x)]
        yield f"AdaptiveAvgPool{axes}d", (2,), {}, [draw(*x)]
        yield f"AdaptiveMaxPool{axes}d", (2,), {}, [draw(*x)]
        yield f"ConstantPad{axes}d", (1, 0.5), {}, [draw(*x)]
        yield f"ReflectionPad{axes}d", (2,), {}, [draw(*x)]
        yield f"ReplicationPad{axes}d", (2,), {}, [draw(*x)]
    yield "BatchNorm1d", (4,), {}, [draw(3, 4)]
    yield "ZeroPad2d", ((1, 2, 0, 1),), {}, [draw(*IMAGE)]
    yield "LPPool1d", (2, 3), {}, [positive(*LINE)]
    yield "LPPool2d", (2, 3, 1), {}, [draw(*IMAGE)]
    yield "Linear", (5, 4), {}, [draw(3, 5)]
    yield "Linear", (5, 4), {"bias": False}, [draw(2, 3, 5)]
    yield "Bilinear", (4, 5, 2), {}, [draw(3, 4), draw(3, 5)]
    yield "LayerNorm", (6,), {}, [draw(3, 5, 6)]
    yield "LayerNorm", ((5, 6), 1e-3, False), {}, [draw(3, 5, 6)]
    yield "GroupNorm", (2, 4), {}, [draw(*IMAGE)]
    yield "LocalResponseNorm", (3, 0.5), {}, [draw(*IMAGE)]
    for name in (
        *("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh"),
        *("Tanhshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Softplus", "Softsign", "Softshrink", "Hardshrink"),
        *("GLU", "PReLU", "Flatten", "Identity", "Dropout", "Dropout2d", "AlphaDropout"),
    ):
        options = {"p": 0.0} if "Dropout" in name else {}
        yield name, (), options, [draw(*IMAGE)]
    yield "PReLU", (4,), {}, [draw(*IMAGE)]
    yield "Threshold", (0.3, 2.0), {}, [draw(*IMAGE)]
    for name in ("Softmax", "Softmin", "LogSoftmax"):
        yield name, (), {"dim": 1}, [draw(*IMAGE)]
    yield "Dropout1d", (0.0,), {}, [draw(*LINE)]
    yield "Dropout3d", (0.0,), {}, [draw(*VOLUME)]
    yield "Flatten", (0, 1), {}, [draw(*IMAGE)]
    yield "Unflatten", (1, (2, -1)), {}, [draw(*IMAGE)]
    yield "PixelShuffle", (2,), {}, [draw(*IMAGE)]
    yield "PixelUnshuffle", (2,), {}, [draw(2, 3, 4, 6)]
    yield "ChannelShuffle", (2,), {}, [draw(*IMAGE)]
    yield "Upsample", (), {"scale_factor": 2, "mode": "bilinear", "align_corners": True}, [draw(*IMAGE)]
    yield "Unfold", (3,), {"padding": 1}, [draw(*IMAGE)]
    yield "CosineSimilarity", (), {}, [draw(3, 4), positive(3, 4)]
    yield "PairwiseDistance", (), {}, [draw(3, 4), positive(3, 4)]
    yield "Embedding", (7, 4), {}, [classes(2, 3, below=7)]
    yield "Embedding", (7, 4, 2), {}, [classes(2, 9, below=7)]
    for name in ("LSTM", "GRU", "RNN"):
        yield name, (5, 4), {}, [draw(6, 2, 5)]
        yield name, (5, 4), {"num_layers": 2, "bidirectional": True, "batch_first": True}, [draw(2, 6, 5)]
        yield name, (5, 4, 2), {"bias": False}, [draw(6, 2, 5)]
        yield (
            name,
            (5, 4),
            {"bidirectional": True},
            [draw(6, 2, 5), draw(2, 2, 4)] if name != "LSTM" else [draw(6, 2, 5)],
        )
    yield "RNN", (5, 4), {"nonlinearity": "relu"}, [draw(6, 2, 5)]
    yield "LSTM", (5, 4), {"proj_size": 3, "num_layers": 2}, [draw(6, 2, 5)]
    yield "MultiheadAttention", (8, 2), {}, [draw(5, 3, 8), draw(6, 3, 8), positive(6, 3, 8)]
    yield (
        "MultiheadAttention",
        (8, 2),
        {"batch_first": True, "bias": False},
        [draw(3, 5, 8), draw(3, 6, 8), draw(3, 6, 8)],
    )
    yield "MultiheadAttention", (8, 2), {"kdim": 6, "vdim": 4}, [draw(5, 3, 8), draw(6, 3, 6), draw(6, 3, 4)]
    for more in ({}, {"batch_first": True, "norm_first": True, "activation": "gelu"}):
        yield "TransformerEncoderLayer", (8, 2, 16, 0.0), more, [draw(5, 3, 8)]
        yield "TransformerDecoderLayer", (8, 2, 16, 0.0), more, [draw(5, 3, 8), draw(5, 3, 8, low=-1)]


def loss_layer_rows():
    logits, target = draw(5, 4), classes(5, below=4)
    yield "CrossEntropyLoss", {"weight": positive(4), "label_smoothing": 0.1}, [logits, target]
    yield "NLLLoss", {"weight": positive(4)}, [logits, target]
    yield "BCELoss", {}, [positive(5, 4), positive(5, 4, other=1)]
    yield "BCEWithLogitsLoss", {"pos_weight": positive(4)}, [logits, positive(5, 4)]
    for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"):
        yield name, {"reduction": "sum"}, [draw(5, 4), draw(5, 4, other=1)]
    yield "KLDivLoss", {"reduction": "batchmean"}, [draw(5, 4), positive(5, 4)]
    yield "PoissonNLLLoss", {}, [draw(5, 4), positive(5, 4)]
    yield "GaussianNLLLoss", {}, [draw(5, 4), draw(5, 4, other=1), positive(5, 4)]
    yield "SoftMarginLoss", {}, [draw(5, 4), signs(5, 4)]
    yield "HingeEmbeddingLoss", {"margin": 0.4}, [draw(5, 4), signs(5, 4)]
    yield "MarginRankingLoss", {"margin": 0.4}, [draw(7), draw(7, other=1), signs(7)]
    yield "CosineEmbeddingLoss", {"margin": 0.4}, [draw(6, 4), positive(6, 4), signs(6)]
    yield "TripletMarginLoss", {"swap": True}, [draw(6, 4), positive(6, 4), positive(6, 4, other=1)]


class LayerTest(Case):
    """Each layer has PyTorch's parameters, and gives its numbers and gradients with its weights."""

    def check(self, ours, reference, inputs, what, call=None):
        call = call or (lambda layer, *xs: layer(*xs))
        state = reference.state_dict()
        names = [name for name in state if not name.endswith("num_batches_tracked")]
        self.assertEqual(list(ours.state_dict()), names, what)
        self.assertEqual(
            [name for name, _ in ours.named_parameters()], [name for name, _ in reference.named_parameters()]
        )
        ours.load_state_dict(state)
        xs, tensors = [theirs(x) for x in inputs], [mine(x) for x in inputs]

        learnt = list(ours.parameters())

        def run(*given):
            outputs = call(ours, *given)
            return weighted_mine(outputs), outputs

        expected = call(reference.train(), *xs)
        if learnt:
            (_, outputs), gradients = nm.value_and_grad(run, ours, has_aux=True, training=True)(*tensors)
            weighted_theirs(expected).backward()
            known = [torch.zeros_like(p) if p.grad is None else p.grad for p in reference.parameters()]
            self.all_close(gradients, known, f"{what} gradient")
        else:
            outputs = nm.compile(lambda *given: call(ours, *given), training=True)(*tensors)
        self.all_close(outputs, expected, f"{what} trained")
        self.all_close(list(ours.buffers()), [reference.state_dict()[name] for name, _ in ours.named_buffers()], what)
        self.all_close(call(ours, *tensors), call(reference.eval(), *xs), f"{what} inferred")

    def test_layers(self):
        torch.manual_seed(0)
        for name, arguments, options, inputs in layer_rows():
            what = f"{name}{arguments} {options}"
            with self.subTest(what):
                reference = getattr(torch.nn, name)(*arguments, **options).double()
                self.check(getattr(nn, name)(*arguments, **options), reference, inputs, what)

    def test_loss_layers(self):
        for name, options, inputs in loss_layer_rows():
            with self.subTest(name):
                layer = getattr(nn, name)(**{key: mine(value) for key, value in options.items()})
                reference = getattr(torch.nn, name)(**{key: theirs(value) for key, value in options.items()})
                self.all_close(layer(*map(mine, inputs)), reference(*map(theirs, inputs)), name)
        scores, targets = draw(9, 2, 5), np.array([[1, 2, 3], [4, 1, 2]])
        lengths = [np.array([9, 8]), np.array([3, 2])]
        expected = torch.nn.CTCLoss()(theirs(scores).log_softmax(2), theirs(targets), *map(theirs, lengths))
        self.close(nn.CTCLoss()(F.log_softmax(mine(scores), 2), mine(targets), *map(mine, lengths)), expected)

    def test_layers_that_this_pytorch_may_lack(self):
        x = draw(3, 5, 6)
        self.close(nn.RMSNorm(6)(mine(x)), F.rms_norm(mine(x), 6).numpy())
        for axes, shape in ((1, LINE), (2, IMAGE), (3, VOLUME)):
            x = mine(draw(*shape))
            for name, mode in (("ZeroPad", "constant"), ("CircularPad", "circular")):
                padded = getattr(nn, f"{name}{axes}d")(1)(x)
                self.close(padded, F.pad(x, (1,) * (2 * axes), mode).numpy(), f"{name}{axes}d")

    def test_states_and_lengths_of_recurrent_layers(self):
        reference, layer = torch.nn.LSTM(5, 4, 2).double(), nn.LSTM(5, 4, 2)
        inputs = [draw(6, 2, 5), draw(4, 2, 2).reshape(2, 2, 4), positive(2, 2, 4)]
        self.check(layer, reference, inputs, "LSTM", lambda layer, x, h, c: layer(x, (h, c)))

        both, known = nn.GRU(5, 4, bidirectional=True), torch.nn.GRU(5, 4, bidirectional=True).double()
        both.load_state_dict(known.state_dict())
        x, lengths = draw(6, 2, 5), [6, 3]
        packed = torch.nn.utils.rnn.pack_padded_sequence(theirs(x), lengths)
        y, h = known(packed)
        padded = torch.nn.utils.rnn.pad_packed_sequence(y)[0]
        self.all_close(both(mine(x), lengths=mine(np.array(lengths))), (padded, h))

    def test_masks_and_weights_of_attention(self):
        reference, layer = torch.nn.MultiheadAttention(8, 2).double(), nn.MultiheadAttention(8, 2)
        hidden = draw(5, 5) > 1.2
        padding = np.array([[False] * 5, [False, False, False, True, True], [False] * 5])
        for options in (
            {"need_weights": False},
            {"attn_mask": draw(5, 5), "average_attn_weights": False},
            {"attn_mask": hidden & ~np.eye(5, dtype=bool), "key_padding_mask": padding},
            {"attn_mask": draw(6, 5, 5), "need_weights": False},
        ):
            ours, known = ({key: convert(value) for key, value in options.items()} for convert in (mine, theirs))

            def call(layer, x, ours=ours, known=known):
                return layer(x, x, x, **(ours if isinstance(layer, nn.Module) else known))

            reference.zero_grad()
            self.check(layer, reference, [draw(5, 3, 8)], f"attention {list(options)}", call)
        x = mine(draw(5, 3, 8))
        causal = layer(x, x, x, attn_mask=mine(np.triu(np.ones((5, 5), bool), 1)))
        self.all_close(layer(x, x, x, is_causal=True), [one.numpy() for one in causal])

    def test_stacks_of_transformers(self):
        torch.manual_seed(0)

        def encoder(of):
            return of.TransformerEncoder(of.TransformerEncoderLayer(8, 2, 16, 0.0), 2, of.LayerNorm(8))

        def decoder(of):
            return of.TransformerDecoder(of.TransformerDecoderLayer(8, 2, 16, 0.0), 2, of.LayerNorm(8))

        padding = np.array([[False] * 5, [False, False, False, True, True], [False] * 5])

        def masked(layer, x):
            convert = mine if isinstance(layer, nn.Module) else theirs
            mask = np.triu(np.full((5, 5), -np.inf, np.float32), 1)
            return layer(x, convert(mask), convert(padding))

        self.check(encoder(nn), encoder(torch.nn).double().train(), [draw(5, 3, 8)], "encoder", masked)
        self.check(decoder(nn), decoder(torch.nn).double(), [draw(5, 3, 8), draw(6, 3, 8)], "decoder")
        stack = encoder(nn)
        first, second = (layer.linear1.weight for layer in stack.layers)
        self.close(first, second.numpy())
        first.assign(first * 0)
        self.assertGreater(np.abs(second.numpy()).max(), 0)

    def test_a_network(self):
        def network(of):
            return of.Sequential(
                OrderedDict(
                    stem=of.Conv2d(4, 8, 3, padding=1, bias=False),
                    norm=of.BatchNorm2d(8),
                    act=of.ReLU(inplace=True),
                    pool=of.Sequential(of.AdaptiveAvgPool2d(1), of.Flatten()),
                    head=of.Linear(8, 3),
                )
            )

        torch.manual_seed(0)
        self.check(network(nn), network(torch.nn).double(), [draw(*IMAGE)], "network")
        network(torch.nn).load_state_dict({k: torch.tensor(v.numpy()) for k, v in network(nn).state_dict().items()})

    def test_dropout_needs_both_modes(self):
        x, layer = nm.ones((50, 40)), nn.Dropout(0.5)
        trained, inferred = nm.compile(layer, training=True), nm.compile(layer)
        self.assertTrue((trained(x).numpy() == 0).any())
        self.assertFalse((inferred(x).numpy() == 0).any())
        self.assertFalse((layer(x).numpy() == 0).any())
        self.assertFalse((nm.compile(nn.Dropout(0.5).eval(), training=True)(x).numpy() == 0).any())

    def test_first_values(self):
        nm.seed(0)
        torch.manual_seed(0)
        for name, arguments in (
            *(
                ("Linear", (300, 200)),
                ("Conv2d", (32, 64, 3)),
                ("ConvTranspose2d", (32, 64, 3)),
                ("Bilinear", (30, 40, 50)),
            ),
            *(("Embedding", (300, 200)), ("LSTM", (100, 90)), ("MultiheadAttention", (128, 4)), ("BatchNorm2d", (20,))),
        ):
            reference = dict(getattr(torch.nn, name)(*arguments).named_parameters())
            for key, tensor in getattr(nn, name)(*arguments).named_parameters():
                ours, known = tensor.numpy(), reference[key].detach().numpy()
                with self.subTest(f"{name} {key}"):
                    self.assertAlmostEqual(ours.std(), known.std(), delta=0.2 * known.std() + 1e-6)
                    self.assertAlmostEqual(ours.mean(), known.mean(), delta=0.2 * known.std() + 1e-6)
                    if name != "Embedding":
                        self.assertAlmostEqual(np.abs(ours).max(), np.abs(known).max(), delta=0.1 * np.abs(known).max())
        self.assertEqual(np.abs(nn.Embedding(5, 3, -1).weight.numpy()[4]).max(), 0)

    def test_seed_repeats_first_values(self):
        def values(seed):
            nm.seed(seed)
            return [nn.Linear(4, 4).weight.numpy() for _ in range(2)]

        (a, b), (c, d), (e, _) = values(3), values(3), values(4)
        np.testing.assert_array_equal([a, b], [c, d])
        self.assertFalse((a == b).any() or (a == e).any())

    def test_bad_options_are_refused(self):
        for message, build in {
            "5 and 6 channels do not divide": lambda: nn.Conv2d(5, 6, 3, groups=2),
            "padding_mode 'mirror'": lambda: nn.Conv2d(4, 6, 3, padding_mode="mirror"),
            "4 channels do not divide": lambda: nn.GroupNorm(3, 4),
            "do not divide into 3 heads": lambda: nn.MultiheadAttention(8, 3),
            "names none of 4 rows": lambda: nn.Embedding(4, 2, 4),
            "p is 2": lambda: nn.Dropout(2),
            "activation is 'tanh'": lambda: nn.TransformerEncoderLayer(8, 2, activation="tanh"),
            "takes an input of 4 axes": lambda: nn.BatchNorm2d(4)(nm.ones(LINE)),
            "proj_size": lambda: nn.LSTM(5, 4, proj_size=4),
            "padding is 'full', has to be a size, 'same' or 'valid'": lambda: nn.Conv2d(2, 3, 3, padding="full"),
            "padding is 'same', has to be a size": lambda: nn.ConvTranspose2d(2, 3, 3, padding="same"),
            "BatchNorm1d: momentum is None": lambda: nn.BatchNorm1d(2, momentum=None),
            "InstanceNorm2d: momentum is 'a'": lambda: nn.InstanceNorm2d(2, momentum="a"),
            "nonlinearity is 'sin'": lambda: nn.RNNCell(2, 3, nonlinearity="sin"),
            "sizes are 1 or more": lambda: nn.GRUCell(2, 0),
            "whole number": lambda: nn.Linear(np.float64(2), 3),
        }.items():
            with self.assertRaisesRegex(nm.UsageError, message):
                build()

    def test_sizes_are_whole_numbers(self):
        for name, *sizes in (
            ("Linear", 2.5, 3), ("Linear", 2, "3"), ("Bilinear", 2, 2, 2.5), ("Conv2d", 2.5, 3, 3), ("Conv2d", 2, 3, 3.5), ("BatchNorm1d", 2.5), ("LayerNorm", 2.5), ("GroupNorm", 2, 4.0),
            ("Embedding", 2.5, 3), ("PReLU", 1.5), ("LSTM", 2.5, 3), ("GRUCell", 2, 3.5), ("MultiheadAttention", 4.0, 2),
        ):  # fmt: skip
            with self.subTest(name), self.assertRaisesRegex(nm.UsageError, "has to be a whole number") as raised:
                getattr(nn, name)(*sizes)
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(nm.UsageError, "whole number"):
            nn.BatchNorm1d(2.5, affine=False)
        self.assertEqual(nn.Conv2d(np.int64(2), 3, np.int64(3)).weight.shape, (3, 2, 3, 3))

    def test_wrong_inputs_are_refused(self):
        x = nm.ones((2, 2))
        for words, call in {
            "ReLU: takes 1 input, got 2": lambda: nn.ReLU()(x, x),
            "MSELoss: takes 2 inputs, got 1": lambda: nn.MSELoss()(x),
            "dim is 5, and the tensor has 2 axes": lambda: nn.Flatten(5)(x),
            "dim is 1, and the tensor has 1 axes": lambda: nn.Flatten()(nm.ones(3)),
            "start_dim 1 is behind": lambda: nn.Flatten(1, 0)(x),
            "dim is 4": lambda: nn.Unflatten(4, (1, 2))(x),
            r"LSTM: hx is a Tensor; give both, \(h, c\)": lambda: nn.LSTM(2, 3)(nm.ones((4, 1, 2)), nm.ones((1, 1, 3))),
            "LSTM: hx is 1 states": lambda: nn.LSTM(2, 3)(nm.ones((4, 1, 2)), (nm.ones((1, 1, 3)),)),
            "GRU: hx: takes tensors, got tuple": lambda: nn.GRU(2, 3)(nm.ones((4, 1, 2)), (nm.ones((1, 1, 3)),)),
            "LSTMCell: hx is a Tensor": lambda: nn.LSTMCell(2, 3)(x, nm.ones((2, 3))),
            r"GRUCell: takes x\(N,2\)": lambda: nn.GRUCell(2, 3)(nm.ones((2, 2, 2))),
        }.items():
            with self.subTest(words), self.assertRaisesRegex(nm.UsageError, words):
                call()

    def test_cells_are_torchs(self):
        for name, options in (("LSTMCell", {}), ("LSTMCell", {"bias": False}), ("GRUCell", {}), ("GRUCell", {"bias": False}), ("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"})):
            with self.subTest(name, **options):
                reference, layer = getattr(torch.nn, name)(5, 4, **options).double(), getattr(nn, name)(5, 4, **options)
                self.assertEqual(repr(layer), repr(reference))
                call = (lambda layer, x, h, c: layer(x, (h, c))) if name == "LSTMCell" else (lambda layer, x, h, c: layer(x, h) * c)
                for inputs in ([draw(3, 5), draw(3, 4), positive(3, 4)], [draw(3, 5)], [draw(5)]):
                    reference.zero_grad()
                    self.check(layer, reference, inputs, name, call if len(inputs) > 1 else None)


class InitTest(Case):
    def test_distributions(self):
        nm.seed(0)
        torch.manual_seed(0)
        for name, options in (
            *(("uniform_", {"a": -1, "b": 3}), ("normal_", {"mean": 1, "std": 2}), ("constant_", {"val": 2.5})),
            *(("zeros_", {}), ("ones_", {}), ("xavier_uniform_", {"gain": 2}), ("xavier_normal_", {})),
            *(("kaiming_uniform_", {"a": 0.3, "mode": "fan_out"}), ("kaiming_normal_", {"nonlinearity": "relu"})),
            *(("trunc_normal_", {"std": 2.0, "a": -1.0, "b": 3.0}), ("trunc_normal_", {"std": 0.02})),
        ):
            with self.subTest(name):
                tensor = nm.zeros((60, 20, 3, 3))
                self.assertIs(getattr(nn.init, name)(tensor, **options), tensor)
                known = getattr(torch.nn.init, name)(torch.empty(60, 20, 3, 3), **options).numpy()
                ours, spread = tensor.numpy(), known.std()
                for statistic in (np.mean, np.std, np.median):
                    self.assertAlmostEqual(statistic(ours), statistic(known), delta=0.05 * spread + 1e-6)
                if "normal" not in name or "trunc" in name:
                    self.assertAlmostEqual(ours.max(), known.max(), delta=0.3 * spread + 1e-6)
                    self.assertAlmostEqual(ours.min(), known.min(), delta=0.3 * spread + 1e-6)
        for name, param in (("relu", None), ("tanh", None), ("leaky_relu", 0.2), ("selu", None), ("conv2d", None)):
            self.assertEqual(nn.init.calculate_gain(name, param), torch.nn.init.calculate_gain(name, param))

    def test_other_dtypes(self):
        tensor = nm.zeros((40, 50), dtype="bf16")
        nn.init.normal_(tensor)
        self.assertEqual(tensor.dtype, "bf16")
        self.assertAlmostEqual(tensor.to("f32").numpy().std(), 1, delta=0.1)

    def test_errors(self):
        for message, call in {
            "two axes": lambda: nn.init.xavier_uniform_(nm.zeros((3,))),
            "fan_in or fan_out": lambda: nn.init.kaiming_normal_(nm.zeros((3, 4)), mode="fan"),
            "'swish' is not known": lambda: nn.init.calculate_gain("swish"),
            "does not hold the mean": lambda: nn.init.trunc_normal_(nm.zeros((3,)), a=1.0),
        }.items():
            with self.assertRaisesRegex(nm.UsageError, message):
                call()


class Block(nm.Module):
    """Written as for PyTorch."""

    def __init__(self, features):
        super().__init__()
        self.features = features
        self.scale = nm.Parameter(nm.ones((features,)))
        self.register_buffer("count", nm.zeros((1,)))
        self.register_buffer("hint", nm.zeros((2,)), persistent=False)
        self.register_parameter("shift", None)
        self.layers = nn.ModuleList([nn.Linear(features, features) for _ in range(2)])
        self.plain = nm.ones((2,))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        self.count = self.count + 1
        return x * self.scale


class ModuleTest(Case):
    NAMES = ["scale", "count", "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]

    def test_names(self):
        block = Block(3)
        self.assertEqual(list(block.state_dict()), self.NAMES)
        self.assertEqual([name for name, _ in block.named_parameters()], [n for n in self.NAMES if n != "count"])
        self.assertEqual([name for name, _ in block.named_buffers()], ["count", "hint"])
        self.assertEqual([name for name, _ in block.named_modules()], ["", "layers", "layers.0", "layers.1"])
        self.assertEqual([name for name, _ in block.named_children()], ["layers"])
        self.assertEqual(block.num_parameters(), 3 + 2 * (9 + 3))
        self.assertEqual(len(list(block.parameters(recurse=False))), 1)
        self.assertIsInstance(block.scale, nm.Tensor)
        self.assertIsNone(block.shift)
        with self.assertRaisesRegex(AttributeError, "Block has no attribute 'other'"):
            _ = block.other

    def test_the_constructor_of_the_base_may_be_left_out(self):
        class Small(nm.Module):
            def __init__(self):
                self.weight = nm.Parameter(nm.ones((2, 2)))

            def __call__(self, x):
                return x @ self.weight

        self.assertEqual(list(Small().state_dict()), ["weight"])
        self.close(Small()(nm.ones((1, 2))), np.full((1, 2), 2.0))
        with self.assertRaisesRegex(NotImplementedError, "Module defines no forward"):
            nm.Module()(1)

    def test_attributes_change_their_kind(self):
        block = Block(3)
        block.scale = None
        self.assertNotIn("scale", block.state_dict())
        block.plain = nm.Parameter(nm.ones((2,)))
        self.assertIn("plain", block.state_dict())
        del block.layers, block.shift
        self.assertEqual(list(block.state_dict()), ["plain", "count"])
        with self.assertRaises(AttributeError):
            del block.layers

    def test_ties(self):
        net = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
        net[1].weight = net[0].weight
        self.assertEqual(len(list(net.parameters())), 1)
        self.assertEqual(list(net.state_dict()), ["0.weight", "1.weight"])
        twin = copy.deepcopy(net)
        self.assertIs(twin[0].weight, twin[1].weight)
        self.assertIsNot(twin[0].weight, net[0].weight)
        block = Block(3)
        twin = copy.deepcopy(block)
        twin.load_state_dict({name: tensor * 0 for name, tensor in twin.state_dict().items()})
        self.close(block.scale, np.ones(3))
        shared = nn.Linear(2, 2)
        self.assertEqual(len(list(nn.Sequential(shared, shared).parameters())), 2)

    def test_registered_names_keep_their_kind(self):
        block = Block(3)
        for name, value, words in (
            ("scale", np.ones(3), "Block.scale is a parameter, and gets a ndarray; assign a tensor, or nm.Parameter"), ("scale", 1.0, "gets a float"), ("scale", [1.0], "gets a list"),
            ("count", 1, "Block.count is a buffer, and gets a int"), ("layers", len, "Block.layers is a module"), ("layers", nm.ones(2), "is a module, and gets a Tensor"),
        ):  # fmt: skip
            with self.assertRaisesRegex(nm.UsageError, words):
                setattr(block, name, value)
        self.assertEqual(list(block.state_dict()), self.NAMES)
        del block.scale
        block.scale = 1.0
        self.assertEqual((block.scale, "scale" in block.state_dict()), (1.0, False))
        block.scale = nm.Parameter([1.0, 2.0])
        block.shift = nm.Parameter(np.ones(2))
        self.assertEqual((block.scale.tolist(), block.shift.dtype), ([1, 2], "f64"))
        with self.assertRaisesRegex(nm.UsageError, "Parameter: the tensor is i64"):
            nm.Parameter([1])
        self.assertEqual(nm.Parameter([1], requires_grad=False).data.tolist(), [1])

    def test_inner_modules_and_parameters_by_name(self):
        block = Block(3)
        self.assertIs(block.get_submodule("layers.1"), block.layers[1])
        self.assertIs(block.get_submodule(""), block)
        self.assertIs(block.get_parameter("layers.0.bias"), block.layers[0].bias)
        block.zero_grad()
        for name in ("layers.2", "scale", "layers.0.weight"):
            with self.assertRaisesRegex(AttributeError, "has no module"):
                block.get_submodule(name)
        with self.assertRaisesRegex(AttributeError, "no parameter 'other'"):
            block.get_parameter("layers.other")

    def test_a_buffer_that_is_assigned_is_written(self):
        block, x = Block(3), nm.ones((2, 3))
        count = block.count
        run = nm.compile(block)
        run(x), run(x)
        self.assertIs(block.count, count)
        self.assertEqual(count.item(), 2)
        block.count = nm.zeros((4,))
        self.assertEqual(block.count.shape, (4,))

    def test_values_of_a_trace_are_not_kept(self):
        def assign(name, value):
            def forward(module, x):
                setattr(module, name, value(module, x))
                return x

            return type("Keeper", (Block,), {"forward": forward})(3)

        for name, value in (
            ("scale", lambda block, x: block.scale * 0.5),
            ("count", lambda block, x: x),
            ("other", lambda block, x: x + 1),
            ("plain", lambda block, x: nm.Parameter(x)),
        ):
            with self.subTest(name):
                block = assign(name, value)
                message = rf"{name}: a value of a trace cannot be kept; .* self.register_buffer\('{name}', …\)"
                with self.assertRaisesRegex(nm.UsageError, message):
                    nm.compile(block)(nm.ones((2, 3)))
                self.assertFalse(any(tensor.traced for tensor in block.state_dict().values()))
        with self.assertRaisesRegex(nm.UsageError, "hint: a value of a trace"):
            nm.compile(lambda x: Block(3).register_buffer("hint", x))(nm.ones((2,)))
        block = Block(3)
        block.scale = block.scale * 0.5  # outside of traces
        self.close(block.scale, np.full(3, 0.5))

    def test_the_flag_of_frozen_tensors(self):
        net = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False), nn.Linear(5, 2))
        net[1].weight = net[0].weight
        net[1].requires_grad_(False)  # under either name
        for twin in (net, copy.deepcopy(net), copy.deepcopy(net).to("bf16"), pickle.loads(pickle.dumps(net))):
            self.assertIs(twin[0].weight, twin[1].weight)
            self.assertEqual([is_frozen(tensor) for tensor in twin.parameters()], [True, False, False])
        net.requires_grad_()
        self.assertFalse(any(map(is_frozen, net.parameters())))
        net.requires_grad_(False)
        before = [tensor.numpy().copy() for tensor in net[2].parameters()]
        net[2].bias = nm.Parameter(net[2].bias)
        opt = nm.optim.SGD(net.parameters(), lr=0.1)
        loss = nm.compile(lambda x: opt.minimize(net[2](x).sum()), training=True)
        loss(nm.ones((1, 5)))
        self.close(net[2].weight, before[0])
        self.close(net[2].bias, before[1] - 0.1)

    def test_freezing(self):
        block = Block(3)
        block.layers[0].requires_grad_(False)
        self.assertEqual(len(list(block.parameters())), 5)
        names = ["scale", "layers.1.weight", "layers.1.bias"]
        self.assertEqual([name for name, _ in block.named_parameters(learnt=True)], names)
        self.assertEqual(block.requires_grad_().num_parameters(learnt=True), block.num_parameters())
        frozen = nn.Embedding.from_pretrained(nm.ones((4, 2)))
        self.assertEqual(list(frozen.parameters(learnt=True)), [])

    def test_modes_and_apply(self):
        block, seen = Block(3), []
        self.assertTrue(block.training)
        block.eval()
        self.assertFalse(any(module.training for module in block.modules()))
        self.assertIs(block.train(), block)
        self.assertTrue(all(module.training for module in block.modules()))
        block.apply(lambda module: seen.append(type(module).__name__))
        self.assertEqual(seen, ["Linear", "Linear", "ModuleList", "Block"])

    def test_states(self):
        one, two = Block(3), Block(3)
        weight = two.layers[0].weight
        two.load_state_dict(one.state_dict())
        self.assertIs(two.layers[0].weight, weight)
        self.close(weight, one.layers[0].weight.numpy())
        arrays = {name: tensor.numpy() * 2 for name, tensor in one.state_dict().items()}
        two.load_state_dict({**arrays, "scale": torch.full((3,), 5.0, dtype=torch.float64)})
        self.close(weight, one.layers[0].weight.numpy() * 2)
        self.close(two.scale, np.full(3, 5.0))

    def test_pickles(self):
        net = nn.Sequential(
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.Flatten(),
            nn.TransformerEncoderLayer(4, 2),
            nn.GRU(2, 3),
            Block(2),
        )
        twin = pickle.loads(pickle.dumps(net.eval()))
        self.assertEqual(repr(twin), repr(net))
        self.assertFalse(twin[1].training)
        self.assertEqual([name for name, _ in twin.named_buffers()], [name for name, _ in net.named_buffers()])
        for (name, ours), (_, tensor) in zip(twin.state_dict().items(), net.state_dict().items(), strict=True):
            self.assertIsNot(ours, tensor)
            self.close(ours, tensor.numpy(), name)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "block.safetensors")
            one, two = Block(3), Block(3)
            one.save(path)
            one.save(path)  # in the place of the old one
            self.assertEqual(os.listdir(folder), ["block.safetensors"])
            self.assertEqual(two.load(path), ([], []))
            for name, tensor in one.state_dict().items():
                self.close(two.state_dict()[name], tensor.numpy(), name)
            with self.assertRaisesRegex(nm.UsageError, "does not fit Linear"):
                nn.Linear(3, 3).load(path)
            with self.assertRaisesRegex(nm.ResourceError, "none/x.*No such file or directory"):
                one.save(os.path.join(folder, "none", "x"))

            numbers = nm.tensor([[1.5, 0.0, -3.0], [2.0, 1.0, 7.0]])
            stored = {dtype: numbers.to(dtype) for dtype in ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "bool")}
            stored |= {dtype: numbers.abs().to(dtype) for dtype in ("i8", "u8", "u16", "u32", "u64")}
            stored |= {"scalar": nm.tensor(3.0), "empty": nm.zeros((0, 3)), "é": numbers.T}
            safetensors.save(stored, path)
            read = safetensors.load(path)
            self.assertEqual(list(read), sorted(stored, key=str.encode))
            for name, tensor in stored.items():
                self.assertEqual((read[name].dtype, read[name].shape), (tensor.dtype, tensor.shape))
                self.assertEqual(read[name].tolist(), tensor.tolist(), name)

            with open(path, "rb") as file:
                whole = file.read()
            for message, content in {
                "lie outside the .* cut off": whole[:-1],
                "1 bytes after the last tensor": whole + b"0",
                "header": whole[:8] + b"[" + whole[9:],
                "the key 'i64' twice": whole.replace(b'"f64":', b'"i64":'),
                "dtype 'F65' is not supported": whole.replace(b"F64", b"F65"),
                "takes .* bytes but data_offsets give": whole.replace(b"[2,3]", b"[2,4]", 1),
                "a dtype, a shape and data_offsets": whole.replace(b"data_offsets", b"data_offsetz", 1),
                "only 3 bytes": whole[:3],
            }.items():
                with open(path, "wb") as file:
                    file.write(content)
                with self.subTest(message), self.assertRaisesRegex(nm.DataError, f"block.safetensors: .*{message}"):
                    safetensors.load(path)
            with self.assertRaisesRegex(nm.DataError, "No such file or directory"):
                safetensors.load(path + "x")
        with self.assertRaisesRegex(nm.UsageError, "no name for a tensor"):
            safetensors.save({"__metadata__": numbers}, path)

    def test_states_that_do_not_fit(self):
        block = Block(3)
        state = {**block.state_dict(), "scale": np.zeros(4, np.float32), "extra": np.zeros(1, np.float32)}
        del state["layers.1.bias"]
        before = block.scale.numpy()
        with self.assertRaisesRegex(nm.UsageError, r"does not fit Block; .*scale is \(4,\), expected \(3,\)") as caught:
            block.load_state_dict(state)
        self.assertIn("these names are missing: layers.1.bias", str(caught.exception))
        self.assertIn("these names are unexpected: extra", str(caught.exception))
        self.close(block.scale, before)
        state["scale"] = before
        missing, unexpected = block.load_state_dict(state, strict=False)
        self.assertEqual((missing, unexpected), (["layers.1.bias"], ["extra"]))
        with self.assertRaisesRegex(nm.UsageError, "make one of a str"):
            block.load_state_dict({"scale": "one"}, strict=False)

    def test_dtypes(self):
        block = Block(3)
        self.assertIs(block.to("bf16"), block)
        self.assertEqual({tensor.dtype for tensor in block.state_dict().values()}, {"bf16"})
        self.assertEqual(block(nm.ones((2, 3), dtype="bf16")).dtype, "bf16")
        self.assertEqual(block.to("f32").scale.dtype, "f32")

    def test_sequences(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.assertEqual(len(net), 3)
        self.assertIs(net[-1], net[2])
        self.assertEqual(list(net[1:].state_dict()), ["2.weight", "2.bias"])
        net[2] = nn.Linear(4, 5)
        net.append(nn.Identity(3, unused=True))
        self.assertEqual(net(nm.ones((1, 3))).shape, (1, 5))
        self.assertEqual([type(layer).__name__ for layer in net], ["Linear", "ReLU", "Linear", "Identity"])
        with self.assertRaisesRegex(IndexError, "4 modules, and no number 4"):
            _ = net[4]
        named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
        self.assertIs(named.b, named[1])
        choices = nn.ModuleDict({"a": nn.ReLU()})
        choices["b"] = nn.Linear(2, 2)
        self.assertEqual((list(choices), "b" in choices, len(choices)), (["a", "b"], True, 2))
        self.assertEqual([list(choices.keys()), len(choices.items()), len(choices.values())], [["a", "b"], 2, 2])
        self.assertEqual(list(choices.state_dict()), ["b.weight", "b.bias"])
        more = nn.ModuleList([nn.ReLU()]).extend([nn.Tanh(), nn.Tanh()])
        self.assertEqual((list(more[1:]._modules), list(more[1:].append(nn.ReLU())._modules)), (["0", "1"], ["0", "1", "2"]))
        part = net[1:].append(nn.ReLU())
        self.assertEqual((len(part), list(part._modules)), (4, ["1", "2", "3", "4"]))
        for words, build in {
            "Sequential: an entry is a function and no Module": lambda: nn.Sequential(nn.Linear(2, 2), F.relu),
            "Sequential: an entry is the class ReLU": lambda: nn.Sequential(nn.ReLU),
            "ModuleList: an entry is a int": lambda: nn.ModuleList([1]),
            "ModuleList: takes modules": lambda: nn.ModuleList(3),
            "ModuleDict: 'a' is a int": lambda: nn.ModuleDict({"a": 1}),
            "ModuleDict: a name is 1": lambda: nn.ModuleDict({1: nn.ReLU()}),
            "ModuleDict: 'c' is": lambda: choices.__setitem__("c", F.relu),
            "an entry is a str": lambda: net.append("a"),
            "an entry is a float": lambda: net.__setitem__(0, 1.0),
            "Sequential: an entry is a NoneType": lambda: net.append(None),
        }.items():
            with self.assertRaisesRegex(nm.UsageError, words):
                build()
        tensors = nn.ParameterList([nm.ones((2,)), nm.Parameter(nm.zeros((3,)), requires_grad=False)]).append(
            nm.ones((1,))
        )
        self.assertEqual([t.shape for t in tensors], [(2,), (3,), (1,)])
        self.assertEqual(
            (list(tensors.state_dict()), tensors[-1].shape, tensors.num_parameters(learnt=True)),
            (["0", "1", "2"], (1,), 3),
        )
        holder = nm.Module()
        holder.add_module("inner", nn.Linear(1, 1))
        self.assertEqual(list(holder.state_dict()), ["inner.weight", "inner.bias"])

    def test_repr(self):
        def network(of):
            return of.Sequential(of.Conv2d(3, 8, 3, padding=1), of.Sequential(of.ReLU(), of.Flatten()), of.Linear(8, 2))

        self.assertEqual(repr(network(nn)), repr(network(torch.nn)))
        for name, arguments in (
            *(
                ("BatchNorm2d", (4,)),
                ("Linear", (2, 3)),
                ("LSTM", (2, 3)),
                ("Embedding", (2, 3, 1)),
                ("GroupNorm", (2, 4)),
            ),
            *(("ConvTranspose2d", (2, 4, 3, 2, 1, 1)), ("LayerNorm", (4,)), ("PReLU", ()), ("MaxPool2d", (2,))),
        ):
            self.assertEqual(repr(getattr(nn, name)(*arguments)), repr(getattr(torch.nn, name)(*arguments)))


if __name__ == "__main__":
    unittest.main()
