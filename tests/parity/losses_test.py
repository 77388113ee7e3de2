"""Compares the losses that are made of other ops, and CTC, with PyTorch's, forward and backward.

Every combination of options, on random numbers and on multiples of one half, which meet the kinks. PyTorch computes in
double precision on the same rounded inputs. ctest sets NEURIM_BUILD (the build folder, whose tests/losses runs our
side). Exit code 77: not here.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import torch
    from torch.nn import functional as F
    from torchvision.ops import sigmoid_focal_loss
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import numpy as np
import safetensors_files

RUNNER = os.path.join(os.environ.get("NEURIM_BUILD", "build"), "tests", "losses")
REDUCTIONS = "none", "mean", "sum"

# The type of our side, and what it may differ by, relative to the largest number expected.
DTYPES = {"f64": (torch.float64, 1e-10), "f32": (torch.float32, 2e-5), "f16": (torch.float16, 2**-9),
          "bf16": (torch.bfloat16, 2**-6)}


def grid(**options):
    """Every combination of the values of the options."""
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]


def numbers(*shape, low=-2.0, high=2.0):
    return torch.rand(shape, dtype=torch.float64) * (high - low) + low


def halves(*shape, low=-2.0, high=2.0):
    return torch.randint(int(low * 2), int(high * 2) + 1, shape).double() / 2


def signs(*shape):
    return torch.randint(0, 2, shape) * 2 - 1


def classes(*shape, count, ignored=None):
    """Class numbers; the first is `ignored` when that is given."""
    target = torch.randint(0, count, shape)
    if ignored is not None:
        target.view(-1)[0] = ignored
    return target


def softmax_focal_loss(logits, target, weight=None, gamma=2, ignore_index=-100, reduction="mean"):
    entropy = F.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none")
    scale = torch.ones(logits.shape[1], dtype=logits.dtype) if weight is None else weight
    scale = torch.where(target == ignore_index, 0, scale[target.clamp_min(0)])
    losses = scale * (1 - torch.exp(-entropy)) ** gamma * entropy
    return losses.sum() / scale.sum() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def ctc_loss(logits, targets, input_lengths, target_lengths, **options):
    return F.ctc_loss(logits.log_softmax(2), targets, input_lengths, target_lengths, **options)


def with_weight(function):
    """PyTorch's function of (x, target, weight), the last optional and constant."""
    return lambda x, target, weight=None, **options: function(
        x, target, weight=None if weight is None else weight.detach(), **options)


def at_margins():
    """Number makers for losses with a margin: earlier versions of PyTorch give its edge the gradient of the inside."""
    edge = torch.zeros((), requires_grad=True)
    edge.clamp_min(0).backward()
    return (numbers, halves) if edge.grad == 0 else (numbers,)


class Losses(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        warnings.simplefilter("ignore")  # kl_div's word on "mean"

    def compare(self, name, twin, options, inputs, dtypes=tuple(DTYPES), constant=()):
        """Runs the loss with each of the options on each list of inputs; those numbered `constant` have no gradient."""
        cases, arrays, expected = [], {}, []
        for o, given, dtype in itertools.product(options, inputs, dtypes):
            i = len(cases)
            x = [t.to(DTYPES[dtype][0]).double() if t.is_floating_point() else t for t in given]
            leaves = [t.clone().requires_grad_() if t.is_floating_point() and k not in constant else t
                      for k, t in enumerate(x)]
            loss = twin(*leaves, **o)
            dloss = halves(*loss.shape, low=0.5)
            loss.backward(dloss)
            cases.append({"loss": name, "options": o, "dtype": dtype, "inputs": len(x)})
            arrays.update({f"{i}.in{k}": t.numpy() for k, t in enumerate(x)}, **{f"{i}.dloss": dloss.numpy()})
            expected.append((loss, {k: t.grad for k, t in enumerate(leaves) if t.requires_grad}))
        with tempfile.TemporaryDirectory() as folder:
            path = lambda file: os.path.join(folder, file)
            with open(path("cases.json"), "w") as file:
                json.dump(cases, file)
            safetensors_files.write(path("in"), arrays)
            subprocess.run([RUNNER, path("cases.json"), path("in"), path("out")], check=True)
            ours = safetensors_files.read(path("out"))
        self.assertTrue(cases)
        for i, (case, (loss, gradients)) in enumerate(zip(cases, expected)):
            what = f"case {i}: {case}"
            self.agree(ours[f"{i}.loss"], loss, DTYPES[case["dtype"]][1], what)
            for k, gradient in gradients.items():
                self.agree(ours[f"{i}.din{k}"], gradient, DTYPES[case["dtype"]][1], f"{what}, gradient of input {k}")

    def agree(self, actual, expected, tolerance, what):
        expected = expected.detach().numpy()
        self.assertEqual(actual.shape, expected.shape, what)
        largest = np.max(np.abs(expected), initial=0, where=np.isfinite(expected))
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=0, atol=tolerance * largest, err_msg=what)

    def test_l1(self):
        inputs = [[numbers(3, 4, 5), numbers(3, 4, 5)], [halves(40), halves(40)], [numbers(), numbers()]]
        self.compare("l1_loss", F.l1_loss, grid(reduction=REDUCTIONS), inputs)
        self.compare("smooth_l1_loss", F.smooth_l1_loss, grid(reduction=REDUCTIONS, beta=(0.5, 1.0, 3.0)), inputs)
        # With beta 0, earlier versions of PyTorch have a gradient of -1 at 0.
        self.compare("smooth_l1_loss", F.smooth_l1_loss, grid(reduction=REDUCTIONS, beta=(0.0,)), inputs[:1])
        self.compare("huber_loss", F.huber_loss, grid(reduction=REDUCTIONS, delta=(0.5, 1.0, 3.0)), inputs)

    def test_soft_cross_entropy(self):
        soft = lambda *shape: numbers(*shape).softmax(1)
        mixed = 0.3 * F.one_hot(classes(6, count=5), 5).double() + 0.7 * F.one_hot(classes(6, count=5), 5).double()
        inputs = [[numbers(6, 5), mixed], [numbers(3, 4, 2, 3), soft(3, 4, 2, 3)],
                  [numbers(6, 5), soft(6, 5), numbers(5, low=0.2)],
                  [numbers(3, 4, 2, 3), soft(3, 4, 2, 3), numbers(4, low=0.2)]]
        self.compare("cross_entropy", with_weight(F.cross_entropy),
                     grid(reduction=REDUCTIONS, label_smoothing=(0.0, 0.1, 1.0)), inputs, constant=(2,))
        large = [[numbers(6, 5, low=-1e4, high=1e4), soft(6, 5)]]
        self.compare("cross_entropy", F.cross_entropy, grid(reduction=REDUCTIONS), large, ("f64", "f32", "bf16"))

    def test_bce(self):
        probabilities = lambda *shape: numbers(*shape, low=0, high=1)
        weight = numbers(4, low=0.2)
        inputs = [[probabilities(3, 4), probabilities(3, 4)], [probabilities(3, 4), probabilities(3, 4), weight]]
        twin = with_weight(F.binary_cross_entropy)
        self.compare("bce_loss", twin, grid(reduction=REDUCTIONS), inputs, constant=(2,))
        # Gradients of 1e12, which is beyond f16; PyTorch has 1e-12 as f32, and infinite gradients to the target.
        ends = [[halves(60, low=0, high=1), halves(60, low=0, high=1)]]
        self.compare("bce_loss", twin, grid(reduction=REDUCTIONS), ends, ("f32", "bf16"), constant=(1,))
        small = [[torch.tensor([1e-9, 1e-30, 1e-4]).double(), torch.zeros(3).double()]]
        self.compare("bce_loss", twin, grid(reduction=("none",)), small, ("f64", "f32"))

    def test_nll(self):
        inputs = []
        for ignored in (None, -100, 1):
            for weights in ([], [numbers(5, low=0.2)]):
                inputs.append([numbers(6, 5).log_softmax(1), classes(6, count=5, ignored=ignored)] + weights)
                inputs.append([numbers(2, 5, 3, 4), classes(2, 3, 4, count=5, ignored=ignored)] + weights)
        self.compare("nll_loss", with_weight(F.nll_loss), grid(reduction=REDUCTIONS, ignore_index=(-100, 1)),
                     [x for x in inputs if -100 not in x[1]], constant=(2,))
        self.compare("nll_loss", with_weight(F.nll_loss), grid(reduction=REDUCTIONS, ignore_index=(-100,)), inputs,
                     constant=(2,))

    def test_kl_div(self):
        distribution = lambda *shape: numbers(*shape).softmax(-1)
        reductions = (*REDUCTIONS, "batchmean")
        inputs = [[numbers(4, 5).log_softmax(1), distribution(4, 5)], [numbers(7), distribution(7)]]
        self.compare("kl_div", F.kl_div, grid(reduction=reductions, log_target=(False,)), inputs)
        logs = [[x, t.log()] for x, t in inputs]
        self.compare("kl_div", F.kl_div, grid(reduction=reductions, log_target=(True,)), logs)
        zeros = [[halves(30), halves(30, low=0, high=1)]]
        self.compare("kl_div", F.kl_div, grid(reduction=reductions, log_target=(False,)), zeros, constant=(1,))

    def test_focal(self):
        options = grid(reduction=REDUCTIONS, alpha=(-1, 0.25, 1.0), gamma=(0, 0.5, 1, 2, 3.5))
        inputs = [[numbers(3, 4, low=-5, high=5), halves(3, 4, low=0, high=1)], [numbers(9), numbers(9, low=0, high=1)]]
        self.compare("sigmoid_focal_loss", sigmoid_focal_loss, options, inputs)
        large = [[halves(50, low=-1e4, high=1e4), halves(50, low=0, high=1).round()]]
        self.compare("sigmoid_focal_loss", sigmoid_focal_loss, grid(reduction=REDUCTIONS, alpha=(0.25,), gamma=(2,)),
                     large, ("f64", "f32", "bf16"))

        inputs = [[numbers(6, 5), classes(6, count=5)], [numbers(2, 5, 3, 4), classes(2, 3, 4, count=5, ignored=-100)],
                  [numbers(6, 5), classes(6, count=5, ignored=-100), numbers(5, low=0.2)]]
        self.compare("softmax_focal_loss", softmax_focal_loss,
                     grid(reduction=REDUCTIONS, gamma=(0, 0.5, 2), ignore_index=(-100,)), inputs)

    def test_margins(self):
        pairs = [[draw(40), draw(40), signs(40)] for draw in at_margins()]
        self.compare("hinge_embedding_loss", F.hinge_embedding_loss, grid(reduction=REDUCTIONS, margin=(0.5, 1.0)),
                     [[numbers(5, 6), signs(5, 6)]] + [[draw(40), signs(40).double()] for draw in at_margins()],
                     constant=(1,))
        self.compare("margin_ranking_loss", F.margin_ranking_loss, grid(reduction=REDUCTIONS, margin=(0.0, 0.5)), pairs)
        vectors = [[draw(n, 2), draw(n, 2), signs(n)] for draw in at_margins() for n in (6, 40)]
        self.compare("cosine_embedding_loss", F.cosine_embedding_loss, grid(reduction=REDUCTIONS, margin=(0.0, 0.3)),
                     vectors + [[numbers(7, 9), numbers(7, 9), signs(7)], [numbers(5), numbers(5), signs()]])

    def test_multi_margin(self):
        options = grid(reduction=REDUCTIONS, p=(1, 2), margin=(0.5, 1.0))
        self.compare("multi_margin_loss", with_weight(F.multi_margin_loss), options,
                     [[draw(9, 5), classes(9, count=5)] + weight for draw in (numbers, halves)
                      for weight in ([], [numbers(5, low=0.2)])], constant=(2,))

    def test_triplet_margin(self):
        self.compare("triplet_margin_loss", F.triplet_margin_loss,
                     grid(reduction=REDUCTIONS, margin=(0.5, 1.0), swap=(False, True)),
                     [[draw(9, 2), draw(9, 2), draw(9, 2)] for draw in at_margins()] +
                     [[numbers(4), numbers(4), numbers(4)]])
        ties = torch.zeros(3, 2).double()
        self.compare("triplet_margin_loss", F.triplet_margin_loss,
                     grid(reduction=REDUCTIONS, margin=(1.0,), swap=(True,)), [[ties, ties, ties]], ("f64", "f32"))

    def test_gaussian_nll(self):
        options = grid(reduction=REDUCTIONS, full=(False, True), eps=(1e-6, 0.5))
        inputs = [[numbers(3, 4), numbers(3, 4), numbers(*shape, low=0.1)] for shape in ((3, 4), (3, 1), (3,))]
        self.compare("gaussian_nll_loss", F.gaussian_nll_loss, options, inputs)
        small = [[halves(40), halves(40), halves(40, low=0)]]
        self.compare("gaussian_nll_loss", F.gaussian_nll_loss,
                     grid(reduction=REDUCTIONS, full=(False,), eps=(0.5, 1.0)), small)

    def test_poisson_nll(self):
        options = dict(reduction=REDUCTIONS, full=(False, True))
        counts = lambda *shape: halves(*shape, low=0, high=5)
        self.compare("poisson_nll_loss", F.poisson_nll_loss, grid(log_input=(True,), **options),
                     [[numbers(3, 20), counts(3, 20)]], constant=(1,))
        self.compare("poisson_nll_loss", F.poisson_nll_loss, grid(log_input=(False,), **options),
                     [[numbers(3, 20, low=0.1), counts(3, 20)]], constant=(1,))
        self.compare("poisson_nll_loss", F.poisson_nll_loss, grid(log_input=(True,), **options),
                     [[numbers(3, 20), numbers(3, 20, low=1.1, high=5)]])

    def test_ctc(self):
        steps, batch, count = 12, 5, 6
        target_lengths = torch.tensor([4, 1, 0, 3, 4])
        for blank in (0, count - 1):
            labels = torch.randint(0, count - 1, (batch, 4)) + (blank == 0)
            labels[0] = labels[0, 0]  # repeated labels need blanks between them
            in_a_row = torch.cat([row[:length] for row, length in zip(labels, target_lengths)])
            for lengths in ([12, 12, 12, 12, 12], [7, 1, 5, 12, 4], [6, 1, 1, 2, 3]):
                inputs = [[numbers(steps, batch, count, low=-3, high=3), targets, torch.tensor(lengths), target_lengths]
                          for targets in (labels, in_a_row)]
                self.compare("ctc_loss", ctc_loss,
                             grid(reduction=REDUCTIONS, blank=(blank,), zero_infinity=(False, True)), inputs)


if __name__ == "__main__":
    unittest.main()
