"""Sums, means, norms and extremes over axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable

from .. import _core
from .._core import Tensor, UsageError
from .arithmetic import _abs, _invert, _square, where
from .common import Axes, Number, _axes, _axis, _one, call
from .making import cat, ones
from .shape import _split, _squeeze


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Takes NumPy's words for the arguments, axis and keepdims, too."""

    def method(x: Tensor, dim: Axes = None, keepdim: builtins.bool = False, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
        return function(x, dim if axis is None else axis, keepdim or keepdims)

    method.__doc__ = function.__doc__
    return method


def _widened(x: Tensor) -> Tensor:
    """Narrow whole numbers and bool as i64, in which their sums and products are."""
    return x if _core.is_floating(x.dtype) or x.dtype == "u64" else x.to("i64")


def _sum(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The sum over an axis, several, or all; of whole numbers and bool: i64 (u64 stays)."""
    return _one("sum", _widened(x), axes=_axes(dim), keepdims=keepdim)


def _prod(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The product over an axis, several, or all; of whole numbers and bool: i64 (u64 stays). Of no elements: 1."""
    x = _widened(x)
    axes = sorted(_axis(x, axis) for axis in (range(x.ndim) if dim is None else _axes(dim)))
    for axis in axes:
        if x.shape[axis] == 0:
            x = ones(x.shape[:axis] + (1,) + x.shape[axis + 1 :], dtype=x.dtype)
        while (size := x.shape[axis]) > 1:
            first, second, rest = _split(x, [size // 2, size // 2, size % 2], axis)
            x = cat([first * second, rest], axis)
    return x if keepdim else _squeeze(x, axes) if axes else x


def _cumsum(x: Tensor, dim: builtins.int) -> Tensor:
    """The sums of all elements up to each one along an axis; of whole numbers and bool: i64. By Hillis and Steele (1986)."""
    x, axis = _widened(x), _axis(x, dim)
    size, shift = x.shape[axis], 1
    while shift < size:  # each element is the sum of the last `shift` ones
        head, tail = _split(x, [shift, size - shift], axis)
        x = cat([head, tail + _split(x, [size - shift, shift], axis)[0]], axis)
        shift *= 2
    return x


def _any(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """Whether one element at least is not 0, over an axis, several, or all."""
    return _sum(x.to("bool"), dim, keepdim) > 0


def _all(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """Whether no element is 0, over an axis, several, or all."""
    return _sum(_invert(x.to("bool")), dim, keepdim) == 0


def _mean(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The mean over an axis, several, or all; of floating elements, others become f32."""
    return _one("mean", x if _core.is_floating(x.dtype) else x.to("f32"), axes=_axes(dim), keepdims=keepdim)


def _var(
    x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False, *,
    unbiased: builtins.bool | None = None, axis: Axes = None, keepdims: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """The variance over axes, divided by their size less `correction`; unbiased=False is a correction of 0."""
    axes = _axes(dim if axis is None else axis) or list(range(x.ndim))
    less = correction if unbiased is None else builtins.int(unbiased)
    count = math.prod(x.shape[one] for one in axes)
    return _sum((x - _mean(x, axes, True)) ** 2, axes, keepdim or keepdims) / builtins.max(count - less, 0)


def _std(
    x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False, *,
    unbiased: builtins.bool | None = None, axis: Axes = None, keepdims: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """The root of the variance, whose arguments it takes. The gradient of a std of 0 is 0."""
    return _root(_var(x, dim, correction, keepdim, unbiased=unbiased, axis=axis, keepdims=keepdims))


def _root(x: Tensor) -> Tensor:
    """The square root, whose gradient at 0 is 0 instead of infinite."""
    zero = x == 0
    return where(zero, 0.0, where(zero, 1.0, x).sqrt())


def _norm(
    x: Tensor, p: Number | str = 2, dim: Axes = None, keepdim: builtins.bool = False, *, axis: Axes = None, keepdims: builtins.bool = False
) -> Tensor:  # fmt: skip
    """The p-norm of the elements over an axis, several, or all; "fro" is 2, and infinity the largest absolute value."""
    x, axes, keep = x if _core.is_floating(x.dtype) else x.to("f32"), dim if axis is None else axis, keepdim or keepdims
    if p in (2, "fro"):
        return _root(_sum(_square(x), axes, keep))
    if isinstance(p, str) or p <= 0:
        raise UsageError(f"norm: p is {p!r}; it is a number above 0, or 'fro'")
    size = _abs(x)
    if p == math.inf:
        return _max(size, axes, keep)
    return _sum(size, axes, keep) if p == 1 else _sum(size**p, axes, keep) ** (1 / p)


def _max(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The largest element over an axis, several, or all: the values alone; argmax says where they are."""
    return _one("reduce_max", x, axes=_axes(dim), keepdims=keepdim)


def _min(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The smallest element over an axis, several, or all: the values alone; argmin says where they are."""
    return _one("reduce_min", x, axes=_axes(dim), keepdims=keepdim)


def _argmax(x: Tensor, dim: builtins.int | None, keepdim: builtins.bool) -> Tensor:
    """The index (i64) of the largest element, the first of equal ones; of all without an axis."""
    x = x.to("u8") if x.dtype == "bool" else x
    if dim is None:
        found = _one("argmax", x.flatten(), axis=0)
        return found.reshape((1,) * x.ndim) if keepdim else found
    return _one("argmax", x, axis=_axis(x, dim), keepdims=keepdim)


def _argmin(x: Tensor, dim: builtins.int | None, keepdim: builtins.bool) -> Tensor:
    """The index (i64) of the smallest element, the first of equal ones; of all without an axis."""
    # The bits the other way reverse the order of whole numbers and overflow nowhere, as -x does.
    return _argmax(-x if _core.is_floating(x.dtype) else _invert(x), dim, keepdim)


def _topk(x: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) along an axis in order, and their indices (i64)."""
    values, indices = call("top_k", [x], k=k, axis=dim, largest=largest)
    return values, indices
