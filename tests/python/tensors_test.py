"""Tensors: NumPy's and PyTorch's meanings of operators, indices and reductions, memory that is shared, traced functions and gradients."""
import copy
import gc
import math
import pickle
import subprocess
import sys
import threading
import time
import unittest
import weakref

import numpy as np

import neurim as nm
from neurim import _core, tensors


class Tensors(unittest.TestCase):
    def near(self, own, other, tolerance=1e-6):
        np.testing.assert_allclose(own.numpy() if isinstance(own, nm.Tensor) else own, other, rtol=tolerance, atol=tolerance)

    def test_made_of_numbers_lists_and_arrays(self):
        for data, dtype, shape in ((1, "i64", ()), (1.5, "f32", ()), (True, "bool", ()), ([1, 2], "i64", (2,)), ([1, 2.0], "f32", (2,)),
                                   ([[True], [False]], "bool", (2, 1)), ([], "f32", (0,)), ([[1, 2], [3, 4]], "i64", (2, 2))):
            made = nm.tensor(data)
            self.assertEqual((made.dtype, made.shape, made.tolist()), (dtype, shape, data))
        for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"):
            array = np.arange(6).reshape(2, 3).astype(name)
            np.testing.assert_array_equal(nm.Tensor(array).numpy(), array)
            self.assertEqual(nm.Tensor(array).numpy().dtype, array.dtype)
        np.testing.assert_array_equal(nm.Tensor(np.arange(12).reshape(3, 4).T).numpy(), np.arange(12).reshape(3, 4).T)
        self.assertEqual(nm.Tensor([nm.tensor(1.0), nm.tensor(2.0)]).tolist(), [1, 2])

    def test_what_is_no_tensor_is_said(self):
        for data, words in (([[1], [1, 2]], "unequal"), ("text", "str"), (["a"], "'a'"), (np.array(["a"]), "no numbers"), (None, "NoneType")):
            with self.assertRaisesRegex(nm.UsageError, words):
                nm.Tensor(data)
        with self.assertRaisesRegex(nm.UsageError, "no bfloat16"):
            nm.ones(2, dtype="bf16").numpy()
        with self.assertRaisesRegex(nm.UsageError, "3 elements"):
            nm.ones(3).item()
        with self.assertRaisesRegex(ValueError, "add"):  # a UsageError is one
            nm.ones(2) + nm.ones(3)

    def test_operators_are_numpys(self):
        a, b = np.float32([[1, -2, 3.5], [4, 5, -6]]), np.float32([[2, 3, -4]])
        x, y = nm.tensor(a), nm.tensor(b)
        for own, other in ((x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x // y, a // b), (x % y, a % b), (x**2, a**2), (2 - x, 2 - a),
                           (1 / x, 1 / a), (2 * x + 1, 2 * a + 1), (-x, -a), (abs(x), abs(a)), (x @ y.T, a @ b.T), (x > y, a > b), (x == 4, a == 4), (2**y, 2**b),
                           (~(x > y), ~(a > b)), ((x > 0) & (x < 4), (a > 0) & (a < 4)), (nm.where(x > 0, x, 0), np.where(a > 0, a, 0)),
                           (nm.maximum(x, 1), np.maximum(a, 1)), (x.clamp(-1, 2), a.clip(-1, 2))):
            self.near(own, other)
        whole = nm.tensor([7, -7])
        self.assertEqual(((whole // 2).tolist(), (whole % 3).tolist(), (whole / 2).tolist(), (whole * 0.5).dtype), ([3, -4], [1, 2], [3.5, -3.5], "f32"))
        large = nm.tensor([2**62 + 1, -(2**62) - 1])
        self.assertEqual(((large // 3).tolist(), (large % 3).tolist(), (nm.tensor([3]) ** 39).tolist()), ([(2**62 + 1) // 3, (-(2**62) - 1) // 3], [2, 1], [3**39]))
        self.assertEqual((nm.ones(2, dtype="f16") + nm.ones(2, dtype="f64")).dtype, "f64")
        self.assertEqual((nm.tensor([1]) + nm.tensor([1.0])).dtype, "f32")

    def test_numbers_keep_all_their_digits(self):
        large = 2**60 + 1
        for data, dtype, wanted in ((0.1, "f64", 0.1), ([0.1], "f64", [0.1]), (large, None, large), ([16777217.0], "i64", [16777217]), ([2**63 - 1], None, [2**63 - 1]),
                                    (1 << 70, "f64", 2.0**70), ([True], "f32", [1.0])):
            self.assertEqual(nm.tensor(data, dtype).tolist(), wanted)
        np.testing.assert_array_equal(nm.tensor([2**63 + 5], "u64").numpy(), np.array([2**63 + 5], np.uint64))
        self.assertEqual(nm.full((1, 2), large, "i64").tolist(), [[large, large]])
        for data, dtype in ((1 << 70, None), ([1 << 70], "i64"), ([-1], "u64"), (10**400, "f64")):
            with self.assertRaisesRegex(nm.UsageError, "beyond the range"):
                nm.tensor(data, dtype)
        x = nm.tensor([2**53])
        self.assertEqual([one.item() for one in (x == 2**53 + 1, x != 2**53 + 1, x < 2**53 + 1, x <= 2**53 + 1, x > 2**53 + 1, x >= 2**53 + 1)],
                         [False, True, True, True, False, False])
        rng = np.random.default_rng(0)
        for dtype in (np.int64, np.uint64):
            a = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 50, dtype=dtype)
            b = np.where(rng.random(50) < 0.5, a, a + dtype(1))
            for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "and", "or", "xor"):
                np.testing.assert_array_equal(getattr(nm.tensor(a), f"__{name}__")(nm.tensor(b)).numpy(), getattr(a, f"__{name}__")(b), name)
        for dtype in (np.int64, np.uint64):
            a = rng.integers(2**61, 2**62 - 1, (3, 4), dtype=dtype) // 4
            x = nm.tensor(a)
            for own, wanted in ((x.sum(1), a.sum(1)), (x.max(0), a.max(0)), (x.min(), a.min()), (x.argmax(1), a.argmax(1)), (x.argmin(0), a.argmin(0)), (x.cumsum(1), a.cumsum(1)), (nm.where(x > 2**59, x, 0), np.where(a > 2**59, a, 0)),
                                (x.masked_fill(x == a[0, 0], 2**60 + 1), np.where(a == a[0, 0], 2**60 + 1, a)), (x.topk(2)[0], -np.sort(-a.astype(np.int64), 1)[:, :2]), (x.abs(), a), (x[[2, 0]], a[[2, 0]]), (nm.maximum(x, x[:1]), np.maximum(a, a[:1]))):
                np.testing.assert_array_equal(own.numpy(), wanted)
            np.testing.assert_array_equal(nm.compile(lambda x: nm.where(x > 0, x, 0).sum(0))(x).numpy(), a.sum(0))
        for own, other in ((nm.arange(0, 1, 0.1, dtype="f64"), np.arange(0, 1, 0.1)), (nm.arange(2**60, 2**60 + 3), np.arange(2**60, 2**60 + 3)), (nm.arange(5, 0, -2), [5, 3, 1])):
            np.testing.assert_array_equal(own.numpy(), other)
        self.assertEqual((nm.tensor([large, -5]).clamp(0, large).tolist(), nm.tensor([large]).clamp(max=2**60).tolist()), ([large, 0], [2**60]))
        clamped = nm.tensor(np.uint8([1, 9])).clamp(-1, 300)
        self.assertEqual((clamped.tolist(), clamped.dtype, nm.tensor([1]).clamp(1.5).tolist()), ([1, 9], "u8", [1.5]))

    def test_dtypes_of_results_are_torchs(self):
        torch = __import__("torch")
        names = ("uint8", "int8", "int16", "int32", "int64", "bool", "float16", "float32", "float64")
        for one in names:
            for other in names:
                a, b = torch.ones(1, dtype=getattr(torch, one)), torch.ones(1, dtype=getattr(torch, other))
                for own, theirs in ((nm.Tensor(a.numpy()) + nm.Tensor(b.numpy()), a + b), (nm.Tensor(a.numpy()) * nm.Tensor(b.numpy()), a * b)):
                    self.assertEqual((own.numpy().dtype, own.tolist()), (theirs.numpy().dtype, theirs.tolist()), (one, other))
        self.assertEqual((nm.ones(1, dtype="u32") + nm.ones(1, dtype="i8")).dtype, "i64")
        for dtype in ("u8", "i8", "u32", "bool"):
            total = nm.full((600,), 100, dtype).sum()
            self.assertEqual((total.dtype, total.item()), ("i64", 600 if dtype == "bool" else 60000))
        for own, wanted, dtype in ((nm.tensor([3]) ** 2.0, [9], "f32"), (nm.tensor([3]) ** 2, [9], "i64"), (nm.tensor([3], "i16").square(), [9], "i16"),
                                   (nm.tensor([3], "u8").floor(), [3], "u8"), (nm.tensor([6]) & 3, [2], "i64"), (1 | nm.tensor([6], "u8"), [7], "u8"), (5 ^ nm.tensor([6]), [3], "i64"),
                                   (nm.tensor([True, False]) ^ True, [False, True], "bool"), (~nm.tensor([6]), [-7], "i64"), (nm.tensor([1], "u8") + 300, [301], "i64")):
            self.assertEqual((own.tolist(), own.dtype), (wanted, dtype))
        with self.assertRaisesRegex(nm.UsageError, "whole numbers"):
            nm.ones(1) & 1

    def test_remainders_are_pythons(self):
        for a in (5.0, -5.0, 0.0, -1e-20, 7.5, 1e6):
            for b in (3.0, -3.0, 0.1, math.inf, -math.inf):
                a, b = float(np.float32(a)), float(np.float32(b))
                self.near(nm.tensor(a) % b, np.float32(a % b))
                self.near(nm.tensor(a) // b, np.float32(a // b))
        self.assertEqual(((5.5 % nm.tensor([2.0])).tolist(), (7 % nm.tensor([4])).tolist(), (nm.tensor(math.inf) % 2).isnan().item()), ([1.5], [3], True))
        self.assertEqual(nm.grad(lambda y: (nm.tensor([6.0, 1.0]) % y).sum())(nm.tensor([2.5, math.inf])).tolist(), [-2, 0])

    def test_quotients_of_whole_numbers_are_numpys(self):
        for dtype in (np.int8, np.uint8):
            every = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
            a, b = (one.ravel() for one in np.meshgrid(every, every))
            with np.errstate(all="ignore"):
                for own, wanted in zip(divmod(nm.tensor(a), nm.tensor(b)), (a // b, a % b), strict=True):
                    np.testing.assert_array_equal(own.numpy(), wanted)
        for dtype in (np.int16, np.int64, np.uint64):
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            a, b = (one.ravel() for one in np.meshgrid(*[np.array([low, low + 1, high - 1, high, 0, 1, 3] + [-1, -3] * (low < 0), dtype)] * 2))
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal((nm.tensor(a) // nm.tensor(b)).numpy(), a // b)
                np.testing.assert_array_equal((nm.tensor(a) % nm.tensor(b)).numpy(), a % b)
        self.assertEqual([one.tolist() for one in (*divmod(7, nm.tensor([2, -2])), *divmod(nm.tensor([7.5]), 2))], [[3, -4], [1, -1], [3], [1.5]])
        for power in (-1, np.int64(-2)):
            with self.assertRaisesRegex(nm.UsageError, r"convert them first: x.float\(\)"):
                nm.tensor([2]) ** power
        self.assertEqual(((nm.tensor([2]) ** -1.0).tolist(), (nm.tensor([2]) ** [3]).tolist()), ([0.5], [8]))

    def test_gradients_of_roots_are_finite(self):
        self.assertEqual(nm.grad(lambda x: x.std())(nm.ones(3)).tolist(), [0, 0, 0])
        for p in (1.5, 2, 3):
            self.assertEqual(nm.grad(lambda x, p=p: x.norm(p))(nm.zeros(3)).tolist(), [0, 0, 0])
            self.near(nm.grad(lambda x, p=p: x.norm(p))(nm.tensor([0.0, -2])), [0, -1])
        self.assertTrue(nm.ones(1).std().isnan().item())

    def test_further_reductions(self):
        torch = __import__("torch")
        a = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
        x = nm.tensor(a)
        for name in ("sum", "mean", "max", "min", "prod", "var", "std"):
            biased = {"unbiased": False} if name in ("var", "std") else {}
            for axis in (None, 1, (0, 2)):
                self.near(getattr(x, name)(axis=axis, keepdims=True, **biased), getattr(np, name)(a, axis=axis, keepdims=True), 1e-5)
        for p in (1, 2, 3, math.inf, "fro"):
            self.near(x.norm(p), torch.tensor(a).norm(p), 1e-5)
        for axis in (0, 1, -1):
            self.near(x.cumsum(axis), a.cumsum(axis), 1e-5)
        self.assertEqual((nm.tensor([2, 3, 2**40]).prod().item(), nm.zeros(0, 2).prod(0).tolist(), nm.tensor([True, True]).cumsum(0).tolist()), (6 * 2**40, [1, 1], [1, 2]))
        self.assertEqual(nm.grad(lambda x: x.prod())(nm.tensor([1.0, 2, 3, 4, 5])).tolist(), [120, 60, 40, 30, 24])
        self.assertEqual(nm.grad(lambda x: (x.cumsum(0) * nm.tensor([1.0, 2, 3])).sum())(nm.ones(3)).tolist(), [6, 5, 3])
        self.assertEqual((nm.tensor([0, 1]).any().item(), nm.tensor([[0, 1], [1, 1]]).all(1).tolist(), nm.zeros(0).all().item(), nm.zeros(0).any().item()),
                         (True, [False, True], True, False))
        for data, wanted in ((np.uint8([3, 5, 1]), 2), ([5, -(2**63), 3, -(2**63)], 1), ([True, False, False], 1), ([1.0, math.nan, 0.0], 1)):
            self.assertEqual(nm.tensor(data).argmin().item(), wanted)
        self.assertEqual((nm.tensor([[3, 1, 1], [2, 2, 9]]).argmin(1).tolist(), x.argmax(keepdims=True).shape), ([1, 0], (1, 1, 1)))
        odd = nm.tensor([1.0, math.inf, math.nan])
        self.assertEqual((odd.isnan().tolist(), odd.isinf().tolist(), nm.compile(lambda x: x.isnan())(odd).tolist()), ([False, False, True], [False, True, False], [False, False, True]))
        filled = nm.tensor([1, 2]).masked_fill(nm.tensor([True, False]), 7.0)
        self.assertEqual((filled.tolist(), filled.dtype), ([7, 2], "i64"))

    def test_reductions_take_numpys_and_torchs_words(self):
        torch = __import__("torch")
        a = np.float32([[1, 2], [3, 5]])
        x = nm.tensor(a)
        for function in (np.sum, np.mean, np.max, np.min, np.any, np.all, np.prod, np.std, np.var, np.argmax):
            self.near(function(x), function(a))
            self.near(function(x, axis=0), function(a, axis=0))
        self.assertEqual((np.sum(x, dtype=np.float64).dtype, x.mean(0, dtype="f64").dtype, x.std(dtype="f64").dtype), ("f64",) * 3)
        for name, theirs in (("u8", torch.uint8), ("i8", torch.int8), ("i16", torch.int16), ("f32", torch.float32)):
            b = torch.tensor([200, 100, 7]).to(theirs)
            for word in ("sum", "prod"):
                own = getattr(nm.tensor(b), word)(dtype=name)
                self.assertEqual((own.dtype, own.item()), (name, getattr(b, word)(dtype=theirs).item()))
            self.assertEqual(nm.tensor(b).cumsum(0, dtype=name).tolist(), b.cumsum(0, dtype=theirs).tolist())
        for function, words in ((lambda: x.sum(out=x), "out has to be None"), (lambda: x.mean(dtype="i64"), "mean: dtype is i64"), (lambda: x.std(out=x), "out"),
                                (lambda: x.sum(1.5), "dim is 1.5"), (lambda: x.max(x), "dim is a Tensor"), (lambda: nm.zeros(0).argmin(), "argmin: "),
                                (lambda: x.argmin((0, 1)), "dim is a tuple"), (lambda: nm.tensor(1).sum(1), "0 axes")):
            with self.assertRaisesRegex(nm.UsageError, words):
                function()
        scalar = nm.tensor(5.0)
        for word in ("sum", "prod", "mean", "max", "min", "cumsum", "norm"):
            for dim in (0, -1):
                self.assertEqual(getattr(scalar, word)(dim=dim).tolist(), 5, word)
        self.assertEqual((scalar.argmax(0).item(), scalar.argmin(-1).item()), (0, 0))
        for dtype in ("f16", "bf16"):
            self.assertEqual(nm.tensor([3000.0, -7000.0], dtype).std().item(), torch.tensor([3000.0, -7000.0]).to({"f16": torch.float16, "bf16": torch.bfloat16}[dtype]).std().item())
            self.assertEqual((nm.tensor([300.0, 400.0], dtype).norm().item(), nm.tensor([300.0], dtype).norm(3).dtype), (500, dtype))
        self.assertEqual([one.shape for one in nm.zeros(2, 0).topk(1, 0)], [(1, 0), (1, 0)])

    def test_clamp_round_and_order_are_torchs(self):
        torch = __import__("torch")
        a = np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4, 7])
        x, t = nm.tensor(a), torch.tensor(a)
        low, high = np.float32([0, -1, 1, 1, 2, -3, 0]), np.float32([1, 1, -1, 2, 1.7, 3, 5])
        for own, theirs in ((x.clamp(nm.tensor(low), nm.tensor(high)), t.clamp(torch.tensor(low), torch.tensor(high))), (x.clamp(3, 1), t.clamp(3, 1)),
                            (x.clamp(min=nm.tensor(low)), t.clamp(min=torch.tensor(low))), (nm.tensor([1, 5]).clamp(3, 1), torch.tensor([1, 5]).clamp(3, 1)),
                            (x.ceil(), t.ceil()), (x.round(), t.round()), (x.round(decimals=1), t.round(decimals=1)), (x.tan(), t.tan()), (nm.tensor([3]).ceil(), [3])):
            self.near(own, theirs, 1e-5)
        self.assertEqual((round(nm.tensor(1.26), 1).item(), nm.maximum(1, 2).item(), nm.minimum(1, 2.5).dtype), (np.float32(1.3), 2, "f32"))
        for word in ("ceil", "round", "floor"):
            self.assertEqual(nm.grad(lambda x, word=word: (getattr(x, word)() * 2 + x).sum())(x).tolist(), [1] * 7)
        a = np.random.default_rng(0).integers(0, 4, (3, 4, 5)).astype(np.float32)
        x, t = nm.tensor(a), torch.tensor(a, requires_grad=True)
        for dim in (0, 1, -1):
            for down in (False, True):
                (values, indices), (their_values, theirs) = x.sort(dim, down), t.sort(dim=dim, descending=down, stable=True)
                np.testing.assert_array_equal(values.numpy(), their_values.detach())
                np.testing.assert_array_equal(indices.numpy(), theirs)
                np.testing.assert_array_equal(nm.argsort(x, dim, down).numpy(), theirs)
                weights = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
                (wanted,) = torch.autograd.grad((their_values * torch.tensor(weights)).sum(), t)
                np.testing.assert_array_equal(nm.grad(lambda x, dim=dim, down=down, weights=weights: (x.sort(dim, down)[0] * nm.tensor(weights)).sum())(x).numpy(), wanted)
        self.assertEqual((nm.sort([1.0, math.nan, -math.inf])[1].tolist(), nm.tensor([True, False]).sort()[0].tolist(), nm.tensor(2).sort()[1].item(), nm.zeros(2, 0).argsort(0).shape),
                         ([2, 0, 1], [False, True], 0, (2, 0)))
        t = t.detach()
        for dims in ((0,), (1, 2), ([0, -1],)):
            np.testing.assert_array_equal(x.flip(*dims).numpy(), t.flip(*dims))
        for k in (-4, -1, 0, 2, 6):
            np.testing.assert_array_equal(x.tril(k).numpy(), t.tril(k))
            np.testing.assert_array_equal(x.triu(k).numpy(), t.triu(k))
            for dims in ((1, 2), (2, 1), (0, -1)):
                offset = max(-2, min(k, 2))
                np.testing.assert_array_equal(x.diagonal(offset, *dims).numpy(), t.diagonal(offset, *dims))
        self.assertEqual((nm.ones(2, 2, dtype="bool").tril().tolist(), nm.zeros(0, 2).flip(0).shape), ([[True, False], [True, True]], (0, 2)))

    def test_sums_of_products_by_letters(self):
        torch = __import__("torch")
        rng = np.random.default_rng(0)
        a, b, c, square = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 4, 5), (3, 5, 2), (2, 4), (4, 4)))
        for equation, arrays in (("bij,bjk->bik", (a, b)), ("bij,bjk", (a, b)), ("bij,bjk,kl->bl", (a, b, c)), ("ij->ji", (c,)), ("ba", (c,)), ("ij->", (c,)), ("ii", (square,)),
                                 ("ii->i", (square,)), ("ij,ij->", (c, c)), ("ij,ij->ij", (c, c)), ("i,j->ij", (a[0, 0], c[0])), ("bij,kl->bk", (a, c)), ("iij,j->i", (rng.normal(size=(4, 4, 3)).astype("f"), a[0, 0, :3])),
                                 ("bij , bjk -> kib", (a, b)), ("i,i,i->i", (c[0],) * 3)):
            with self.subTest(equation):
                own, theirs = [nm.tensor(one) for one in arrays], [torch.tensor(one, requires_grad=True) for one in arrays]
                out = torch.einsum(equation, *theirs)
                self.near(nm.einsum(equation, *own), out.detach(), 1e-4)
                found = nm.grad(lambda *x, equation=equation: nm.einsum(equation, *x).square().sum(), argnums=tuple(range(len(own))))(*own)
                for one, other in zip(found, torch.autograd.grad(out.square().sum(), theirs), strict=True):
                    self.near(one, other, 1e-3)
        whole = rng.integers(0, 5, (3, 4))
        np.testing.assert_array_equal(nm.einsum("ij,kj->ik", nm.tensor(whole), nm.tensor(whole)).numpy(), whole @ whole.T)
        x = nm.ones(2, 2)
        for equation, tensors, words in (("ij,jk->ik", [x], "2 tensors, and there are 1"), ("ij->ik", [x], "the result 'ik'"), ("i...->i", [x], "letters"), ("i->i", [x], "1 axes"),
                                         ("ij,ij->i", [x, nm.ones(2, 3)], "of one size")):
            with self.assertRaisesRegex(nm.UsageError, words):
                nm.einsum(equation, *tensors)
        self.assertEqual(nm.outer([1, 2], nm.tensor([3, 4])).tolist(), [[3, 4], [6, 8]])
        with self.assertRaisesRegex(nm.UsageError, "two vectors"):
            nm.outer(x, x)

    def test_functions_are_the_methods(self):
        torch = __import__("torch")
        a = np.random.default_rng(0).uniform(1, 2, (2, 3)).astype(np.float32)
        for name in "exp log sqrt abs sin cos tan sum mean max min argmax argmin square floor ceil round sign prod std var isnan isinf".split():
            self.near(getattr(nm, name)(nm.tensor(a)), getattr(torch, name)(torch.tensor(a)), 1e-5)
            self.assertIn(name, nm.__all__)
        for name, arguments in (("clamp", (1.2, 1.5)), ("transpose", (0, 1)), ("permute", ((1, 0),)), ("reshape", ((3, 2),)), ("unsqueeze", (1,)), ("squeeze", ()), ("cumsum", (1,)),
                                ("matmul", (a.T.copy(),)), ("flip", ((0,),)), ("sum", (1, True)), ("tril", ()), ("triu", ()), ("diagonal", ())):
            theirs = getattr(torch, name)(torch.tensor(a), *(torch.tensor(one) if isinstance(one, np.ndarray) else one for one in arguments))
            self.near(getattr(nm, name)(a, *arguments), theirs, 1e-5)
        self.assertEqual((nm.topk([1, 3, 2], 2)[0].tolist(), nm.sum([1, 2]).item(), nm.exp(0).item()), ([3, 2], 3, 1))
        for first, last, steps in ((0, 1, 5), (-3, 7.1, 100), (2, 2, 3), (0, 1, 1), (0, 1, 0), (10, 0, 4)):
            self.near(nm.linspace(first, last, steps), torch.linspace(first, last, steps))
        for own, theirs in ((nm.eye(2, 3), torch.eye(2, 3)), (nm.eye(2, dtype="i64"), torch.eye(2, dtype=torch.int64)), (nm.full((2,), 7), torch.full((2,), 7)),
                            (nm.full((), True), torch.full((), True)), (nm.full(2, 1.5), torch.full((2,), 1.5)), (nm.full_like(nm.tensor([1]), 2), torch.tensor([2]))):
            self.assertEqual((own.numpy().dtype, own.tolist()), (theirs.numpy().dtype, theirs.tolist()))

    def test_indices_out_of_range_throw(self):
        x = nm.arange(6).reshape(2, 3)
        self.assertEqual((x.gather(1, nm.tensor([[2], [0]], "u8")).tolist(), nm.compile(lambda x, i: x.gather(1, i))(x, nm.tensor([[2], [0]])).tolist()), ([[2], [3]], [[2], [3]]))
        for index in ([[3], [0]], [[-1], [0]]):
            with self.assertRaisesRegex(IndexError, "out of range"):
                x.gather(1, nm.tensor(index))
            with self.assertRaisesRegex(nm.DataError, "gather"):
                nm.compile(lambda x, index: x.gather(1, index))(x, nm.tensor(index))
        for key in ([-4], [2]):
            with self.assertRaisesRegex(nm.DataError, "gather"):
                x[nm.tensor(key)]
        with self.assertRaisesRegex(IndexError, "out of range"):
            x[nm.tensor([0]), nm.tensor([3])]
        with self.assertRaisesRegex(nm.DataError, "gather"):
            nm.compile(lambda x, i, j: x[i, j])(x, nm.tensor([0]), nm.tensor([3]))
        with self.assertRaisesRegex(nm.UsageError, "does not fit"):
            x.gather(0, nm.tensor([[0, 0, 0, 0]]))

    def test_lists_and_masks_choose_as_in_numpy(self):
        a = np.arange(24.0).reshape(2, 3, 4)
        x = nm.tensor(a)
        i, j = np.array([1, 0, 1]), np.array([2, -3, 1])
        every = slice(None)
        for key in ([], (0, []), np.uint8([1, 0]), (every, np.int16([2, 0])), a[:, :, 0] > 4, (a[:, :, 0] > 4, 1), (..., a[0] > 1), (0, a[0] > 1), a > 3, (i, j), (i, every, j),
                    (every, j, i), (None, i, j), (i, None, j), (0, every, i), ([[0], [1]], j), (..., i), (i, j, i), (0, j, i), (i, slice(0, 2), 0), np.array(1), np.int64(1)):
            np.testing.assert_array_equal(x[key].numpy(), a[key], str(key))
        np.testing.assert_array_equal(nm.compile(lambda x, i: x[:, i])(x, nm.tensor(1)).numpy(), a[:, 1])
        for key in (True, np.True_, 1.0, np.float32(1), "a", nm.tensor(1.0), nm.tensor(True), (..., ...), np.array([1.5]), (0, 0, 0, 0), a[:, :2] > 0, [True, False, True]):
            with self.assertRaises(IndexError, msg=str(key)):
                x[key]

    def test_numpy_and_python_work_with_tensors(self):
        x = nm.tensor([1.0, 2.0])
        for own, wanted in ((np.float64(2) * x, [2, 4]), (np.float32([2, 2]) * x, [2, 4]), (np.int64(3) - x, [2, 1]), (np.float64(1) < x, [False, True])):
            self.assertIsInstance(own, nm.Tensor)
            self.assertEqual((own.tolist(), own.dtype), (wanted, "bool" if wanted[1] is True else "f32"))
        for data, dtype, wanted in (([np.int64(1), np.int64(2)], "i64", [1, 2]), ([np.float32(1), 2], "f32", [1, 2]), ([np.ones(2), np.zeros(2)], "f64", [[1, 1], [0, 0]]),
                                    ([[1, 2], np.array([3, 4])], "i64", [[1, 2], [3, 4]]), ([[np.ones(1)], [np.zeros(1)]], "f64", [[[1]], [[0]]]), (np.array([1, 2], ">i4"), "i32", [1, 2])):
            self.assertEqual((nm.tensor(data).dtype, nm.tensor(data).tolist()), (dtype, wanted))
        for data in (np.array(["2020"], "datetime64[D]"), np.longdouble([1]), np.zeros(2, "i4,f4")):
            with self.assertRaises(nm.UsageError) as raised:
                nm.tensor(data)
            self.assertIn(str(data.dtype), str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))
        read_only = np.arange(4.0)
        read_only.flags.writeable = False
        self.assertNotEqual(nm.from_dlpack(read_only).data_ptr(), read_only.ctypes.data)
        self.assertEqual((f"{nm.tensor(1.5):.3f}", f"{nm.tensor(3)}", f"{x}"), ("1.500", "3", "Tensor([1., 2.], dtype=f32)"))
        self.assertEqual((repr(nm.zeros(0, 3)), repr(nm.zeros(0)), repr(nm.tensor(True))), ("Tensor([], shape=(0, 3), dtype=f32)", "Tensor([], dtype=f32)", "Tensor(True, dtype=bool)"))
        self.assertEqual((x == object(), x != None), (False, True))  # noqa: E711
        with self.assertRaises(TypeError):
            x + object()
        for one in (x, nm.tensor([1.5], dtype="bf16"), nm.tensor(3), nm.tensor([True]), nm.zeros(0, 3)):
            for other in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one)):
                self.assertEqual((other.dtype, other.shape, other.tolist()), (one.dtype, one.shape, one.tolist()))

    def test_wrong_arguments_are_said_in_a_line(self):
        x = nm.ones(2)
        for function, words in ((lambda: nm.cat([[1], [2]]), "cat: takes tensors, got list"), (lambda: nm.cat([]), "cat: there are no"), (lambda: nm.stack([]), "stack: there are no"),
                                (lambda: x.reshape(1, 2).repeat(2), "repeat"), (lambda: nm.arange(0, 1, 0), "step is 0"), (lambda: x.chunk(0), "chunk"),
                                (lambda: x.split(0), "split"), (lambda: x.reshape(1, 2).flatten(1, 0), "start_dim"), (lambda: x.norm(-1), "norm"),
                                (lambda: x.gather(0, 3), "gather: takes tensors, got int"), (lambda: x.index_select(0, [1]), "index_select: takes"),
                                (lambda: tensors.call("relu", [[1]]), "relu: takes tensors, got list"), (lambda: nm.stack(3), "stack: takes a list of tensors, got int"),
                                (lambda: nm.cat([x], 1.5), "cat: dim is 1.5"), (lambda: x.split(1.5), "split: the size is 1.5"), (lambda: x.chunk("a"), "number of chunks is 'a'"),
                                (lambda: x.clamp("a"), "clamp: min is 'a'"), (lambda: nm.arange("a"), "arange: a number is 'a'"), (lambda: nm.linspace(0, None, 2), "linspace: end is None"),
                                (lambda: x.norm(None), "norm: p is None"), (lambda: x.std(correction="a"), "correction is 'a'"), (lambda: x.size(7), "dim is 7"),
                                (lambda: x.round(1.5), "decimals is 1.5"), (lambda: nm.set_threads(1.5), "threads is 1.5"), (lambda: nm.init.normal_(x, "a"), "init: a number is 'a'"),
                                (lambda: nm.init.normal_([1]), "init: takes tensors"), (lambda: nm.optim.cosine_lr("a", 1, 2), "lr is 'a'")):
            with self.assertRaisesRegex(nm.UsageError, words):
                function()
        self.assertEqual((x.repeat(0, 2).shape, x.repeat(0).shape, [one.shape for one in nm.zeros(0, 3).split(2)], [one.shape for one in nm.zeros(0, 3).chunk(2)]),
                         ((0, 4), (0,), [(0, 3)], [(0, 3)]))

    def test_indices_are_numpys(self):
        a = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
        x = nm.tensor(a)
        for key in (0, -1, slice(1, None), (slice(None), 2), (..., -1), (None, 1), (slice(None, None, 2), slice(None, None, -1)), (0, 1, 2), (slice(5, 2),),
                    (1, slice(-3, -1)), ([2, 0],), (slice(None), [1, -1]), (Ellipsis, slice(4, None, -2)), np.array([True, False, True])):
            np.testing.assert_array_equal(x[key].numpy(), a[key], err_msg=str(key))
        self.assertEqual(len(list(x)), 3)
        with self.assertRaisesRegex(IndexError, "index 3 is out of range"):
            x[3]
        with self.assertRaises(IndexError):
            x[0, 0, 0, 0]

    def test_reductions_and_shapes_are_numpys(self):
        a = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
        x = nm.tensor(a)
        for dim in (None, 0, -1, (0, 2)):
            for keep in (False, True):
                for name, other in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min)):
                    self.near(getattr(x, name)(dim, keep), other(a, axis=dim, keepdims=keep), 1e-5)
                self.near(x.var(dim, keepdim=keep), np.var(a, axis=dim, ddof=1, keepdims=keep), 1e-5)
        self.assertEqual(x.argmax().item(), int(a.argmax()))
        np.testing.assert_array_equal(x.argmin(1).numpy(), a.argmin(1))
        self.assertEqual((x.view(-1, 5).shape, x.flatten(1).shape, x.T.shape, x.unsqueeze(-1).shape, x[:1].squeeze(0).shape, x.permute(2, 0, 1).shape),
                         ((12, 5), (3, 20), (5, 4, 3), (3, 4, 5, 1), (4, 5), (5, 3, 4)))
        np.testing.assert_array_equal(nm.cat([x, x], 1).numpy(), np.concatenate([a, a], 1))
        np.testing.assert_array_equal(nm.stack([x, x], -1).numpy(), np.stack([a, a], -1))
        np.testing.assert_array_equal(nm.cat(x.split([1, 3], 1), 1).numpy(), a)
        index = np.random.default_rng(1).integers(0, 4, (3, 2, 5))
        np.testing.assert_array_equal(x.gather(1, nm.tensor(index)).numpy(), np.take_along_axis(a, index, 1))
        np.testing.assert_array_equal(nm.arange(1, 7, 2).numpy(), np.arange(1, 7, 2))
        with self.assertRaisesRegex(nm.UsageError, "does not fit"):
            x.reshape(7, -1)

    def test_every_slice_is_numpys(self):
        marks = [None, *range(-4, 5)]
        for size in range(4):
            a = np.arange(2 * size).reshape(size, 2)
            x = nm.tensor(a)
            for start in marks:
                for end in marks:
                    for step in (None, -3, -1, 1, 2):
                        np.testing.assert_array_equal(x[start:end:step].numpy(), a[start:end:step], f"{size}: {start}:{end}:{step}")

    def test_whole_numbers_of_any_kind(self):
        for arguments, wanted, dtype in (((np.int64(2**24), np.int64(2**24) + 2), [2**24, 2**24 + 1], "i64"), ((nm.tensor(3),), [0, 1, 2], "i64"), ((np.array(2),), [0, 1], "i64"),
                                         ((np.float32(2),), [0, 1], "f32"), ((nm.tensor(1.5),), [0, 1], "f32")):
            made = nm.arange(*arguments)
            self.assertEqual((made.tolist(), made.dtype), (wanted, dtype))
        x = nm.ones(2, np.int64(3))
        for function, words in ((lambda: nm.zeros(2.5), "a size is 2.5"), (lambda: x.reshape(2.7, 3), "a size is 2.7"), (lambda: x.reshape("6"), "a size is '6'"), (lambda: nm.seed(-1), "seed: the number is -1"),
                                (lambda: nm.seed(1.5), "seed: the number is 1.5"), (lambda: x.unsqueeze("a"), "dim is 'a'"), (lambda: nm.zeros_like([1]), "zeros_like: takes tensors"),
                                (lambda: x.assign("a"), "assign: takes a tensor or a number, got str"), (lambda: x.assign(None), "got NoneType")):
            with self.assertRaisesRegex(nm.UsageError, words):
                function()
        x.assign(2)
        self.assertEqual(x.tolist(), [[2, 2, 2]] * 2)

    def test_images_of_pillow_are_arrays(self):
        image = __import__("PIL.Image").Image.fromarray(np.arange(18, dtype=np.uint8).reshape(2, 3, 3))
        for made in (nm.tensor(image), nm.from_dlpack(image), nm.tensor([image])[0], nm.compile(lambda x: x)(image), nm.zeros(1, dtype="u8") + image):
            np.testing.assert_array_equal(made.numpy(), np.asarray(image))

    def test_memory_is_shared_both_ways(self):
        for source in (np.arange(64, dtype=np.float32), np.arange(16, dtype=np.int64).reshape(4, 4)):
            own = nm.from_dlpack(source)
            self.assertEqual(own.data_ptr(), source.ctypes.data)
            self.assertEqual(np.from_dlpack(own).ctypes.data, source.ctypes.data)
            self.assertEqual(own.numpy().ctypes.data, source.ctypes.data)
        x = nm.arange(100).float()
        view = x.numpy()
        del x
        gc.collect()
        filler = [nm.rand(100) for _ in range(50)]
        np.testing.assert_array_equal(view, np.arange(100))
        del filler
        kept = nm.from_dlpack(np.full(1000, 7.0))
        gc.collect()
        self.assertEqual(kept.sum().item(), 7000)
        with self.assertRaisesRegex(nm.UsageError, "not known"):
            nm.from_dlpack(np.zeros(2, np.complex64))

    def test_torch_shares_memory(self):
        torch = __import__("torch")
        theirs = torch.arange(32).float()
        own = nm.from_dlpack(theirs)
        self.assertEqual(own.data_ptr(), theirs.data_ptr())
        self.assertEqual(torch.from_dlpack(own).data_ptr(), theirs.data_ptr())
        mask = torch.tensor([True, False])
        self.assertEqual((nm.tensor(mask).tolist(), nm.from_dlpack(mask).tolist(), (nm.tensor([True, True]) & mask).tolist(), nm.arange(2)[mask].tolist()), ([True, False],) * 3 + ([0],))
        half = torch.ones(3, dtype=torch.bfloat16)
        self.assertEqual((nm.Tensor(half).dtype, torch.from_dlpack(nm.Tensor(half)).dtype), ("bf16", torch.bfloat16))

    def test_compiled_functions(self):
        traces = []

        @nm.compile
        def function(x, scale, more):
            traces.append(1)
            return {"sum": (x * scale + more["a"]).sum(), "list": [x, more["a"]]}

        x = nm.ones(3)
        for _ in range(3):
            out = function(x, 2, {"a": x})
        self.assertEqual((out["sum"].item(), out["list"][1].tolist(), len(traces)), (9, [1, 1, 1], 1))
        function(x, 3, {"a": x})
        function(nm.ones(4), 3, {"a": nm.ones(4)})
        self.assertEqual(len(traces), 3)
        with self.assertRaisesRegex(nm.UsageError, "hashable"):
            function(x, {1}, {"a": x})
        with self.assertRaisesRegex(nm.UsageError, "may not branch"):
            nm.compile(lambda x: x if x.sum() > 0 else -x)(x)
        with self.assertRaisesRegex(KeyError, "gone"):
            nm.compile(lambda x: {}["gone"])(x)
        state = nm.zeros(3)
        count = nm.compile(lambda: state.assign(state + 1) or state.sum())
        count(), count()
        self.assertEqual(state.tolist(), [2, 2, 2])

    def test_what_is_compiled_is_let_go(self):
        class Holder:
            pass

        holder = Holder()
        holder.weight = nm.ones(4)
        holder.step = nm.compile(lambda x: x * holder.weight)
        holder.step(nm.ones(4))
        gone = weakref.ref(holder)
        del holder
        gc.collect()
        self.assertIsNone(gone())

    def test_gradients(self):
        x, w = nm.tensor([[1.0, 2.0]]), nm.tensor([[3.0], [4.0]])
        value, (gx, gw) = nm.value_and_grad(lambda x, w: (x @ w).sum() ** 2, argnums=(0, 1))(x, w)
        self.assertEqual((value.item(), gx.tolist(), gw.tolist()), (121, [[66, 88]], [[22], [44]]))
        self.assertEqual(nm.grad(lambda x: (w.sum() * x).sum(), w)(x).tolist(), [[3], [3]])
        self.assertEqual(nm.grad(lambda x: (x * 0 + w).sum(), argnums=0)(nm.ones(2, 1)).tolist(), [[0], [0]])
        with self.assertRaisesRegex(nm.UsageError, "scalar"):
            nm.grad(lambda x: x)(x)
        with self.assertRaises(nm.UsageError):
            _core.gradients([x], [x])

    def test_random_draws(self):
        nm.seed(5)
        first = nm.rand(1000)
        self.assertNotEqual(first.tolist(), nm.rand(1000).tolist())
        nm.seed(5)
        self.assertEqual(first.tolist(), nm.rand(1000).tolist())
        self.assertTrue(0 <= first.min().item() and first.max().item() < 1)
        normal = nm.randn(20000)
        self.assertTrue(abs(normal.mean().item()) < 0.05 and abs(normal.std().item() - 1) < 0.05)
        draw = nm.compile(lambda: nm.rand(4), seed=1)
        self.assertNotEqual(draw().tolist(), draw().tolist())

    def test_other_threads_run_meanwhile(self):
        work = nm.compile(lambda x: (x @ x @ x @ x).sum())
        x = nm.rand(1500, 1500)
        work(x)
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.perf_counter()
        work(x)
        end = time.perf_counter()
        done.set()
        thread.join()
        self.assertGreater(sum(begin < at < end for at in ticks), 3)

    def test_every_op_with_samples_runs(self):
        """Eagerly and traced, with the inputs of the table of ops: the same results."""
        rng = np.random.default_rng(0)
        names = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
                 "u64": np.uint64, "bool": np.bool_}
        run = 0
        for name in _core.op_names():
            for attributes, inputs in _core.op_samples(name):
                if any(dtype not in names for dtype, *_ in inputs) or "group" in attributes or name in ("all_reduce_begin", "all_reduce_end"):
                    continue
                arrays = []
                for dtype, shape, low, high, distinct in inputs:
                    drawn = rng.uniform(low, high, shape)
                    if distinct:
                        drawn = rng.permutation(np.linspace(low, high, max(int(np.prod(shape)), 1), endpoint=False)[: int(np.prod(shape))]).reshape(shape)
                    arrays.append(np.floor(drawn).astype(names[dtype]) if dtype[0] in "iu" else (drawn > 0) if dtype == "bool" else drawn.astype(names[dtype]))
                tensors = [nm.Tensor(array) for array in arrays]
                # Memory that is aligned to 16 bytes alone, as NumPy's may be.
                shared = []
                for array in arrays:
                    room = np.empty(array.nbytes + 128, np.uint8)
                    at = (16 - room.ctypes.data) % 64
                    place = room[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
                    place[...] = array
                    shared.append(nm.from_dlpack(place))
                with self.subTest(name, attributes=attributes):
                    eager = _core.call(name, tensors, attributes)
                    again = _core.call(name, shared, attributes)
                    planned = nm.compile(lambda *x, name=name, attributes=attributes: _core.call(name, list(x), attributes), training=True)(*shared)
                    for one, other, third in zip(eager, again, planned, strict=True):
                        scale = max(1.0, float(np.abs(one.double().numpy()).max(initial=0)))
                        np.testing.assert_array_equal(one.double().numpy(), other.double().numpy())
                        np.testing.assert_allclose(third.double().numpy(), one.double().numpy(), rtol=1e-4, atol=2e-4 * scale, equal_nan=True)
                    run += 1
        self.assertGreater(run, 300)


class Importing(unittest.TestCase):
    def test_it_is_fast_and_imports_neither_numpy_nor_torch(self):
        program = "import sys, neurim; print([name for name in ('numpy', 'torch', 'sklearn', 'pandas') if name in sys.modules])"
        self.assertEqual(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip(), "[]")

    def test_every_public_name_is_documented(self):
        import importlib
        import inspect

        for module in ("", ".data", ".nn", ".functional", ".optim", ".losses", ".init", ".ml", ".sklearn", ".models", ".runs", ".callbacks", ".reports", ".arrays", ".ops", ".transforms", ".autograd"):
            own = importlib.import_module("neurim" + module)
            self.assertTrue(own.__doc__, own)
            for name in dir(own):
                if name.startswith("_") or inspect.ismodule(getattr(own, name)) or not str(getattr(getattr(own, name), "__module__", "")).startswith("neurim"):
                    continue
                with self.subTest(module, name=name):
                    self.assertTrue(getattr(own, name).__doc__ or name == "Tensor")

    def test_docstrings_run(self):
        import doctest
        import importlib
        import pkgutil

        tried = 0
        for module in ("neurim", *(one.name for one in pkgutil.walk_packages(nm.__path__, "neurim."))):
            result = doctest.testmod(importlib.import_module(module))
            self.assertEqual(result.failed, 0, module)
            tried += result.attempted
        self.assertGreater(tried, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
