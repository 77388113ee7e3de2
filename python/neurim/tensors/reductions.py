"""Sums, means, norms and extremes over axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from .arithmetic import _abs, _invert, _square, where
from .common import Axes, Number, _axes, _axis, _dtype, _integral, _one, _real, call
from .making import cat, ones
from .shape import _split, _squeeze


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Takes NumPy's words for the arguments, axis and keepdims, too. `out` is what np.max(x) gives: None."""

    def method(
        x: Tensor, dim: Axes = None, keepdim: builtins.bool = False, *, axis: Axes = None, keepdims: builtins.bool = False, out: None = None
    ) -> Tensor:  # fmt: skip
        _check_out(out)
        return function(x, _chosen(x, dim if axis is None else axis), keepdim or keepdims)

    method.__doc__ = function.__doc__
    return method


def _reduction_in(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """As _reduction, also with the dtype to compute in."""

    def method(
        x: Tensor, dim: Axes = None, keepdim: builtins.bool = False, *, dtype: Any = None, axis: Axes = None, keepdims: builtins.bool = False,
        out: None = None,
    ) -> Tensor:  # fmt: skip
        _check_out(out)
        dim, keepdim = _chosen(x, dim if axis is None else axis), keepdim or keepdims
        return function(x, dim, keepdim) if dtype is None else _cut(function(x.to(dtype), dim, keepdim), _dtype(dtype))

    method.__doc__ = f"{function.__doc__} With a dtype it is computed in that."
    return method


def _chosen(x: Tensor, dim: Axes) -> Axes:
    """The axes of a reduction; a scalar has axis 0 there, as in PyTorch."""
    if dim is None or x.ndim > 0:
        return dim
    for axis in _axes(dim):
        _axis(x, axis)
    return None


def _cut(x: Tensor, dtype: str) -> Tensor:
    """x in a dtype; whole numbers keep the bits that there is room for, as sums in that dtype do."""
    if dtype == "bool" or _core.is_floating(dtype) or dtype[1:] == "64":
        return x.to(dtype)
    size = 1 << builtins.int(dtype[1:])
    low = 0 if dtype[0] == "u" else -size // 2
    return ((x - low) % size + low).to(dtype)


def _check_out(out: object) -> None:
    if out is not None:
        raise UsageError("out: results are new tensors, and out has to be None; write out.assign(result)")


def _floating_in(name: str, x: Tensor, dtype: Any) -> Tensor:
    """x in the floating dtype that is asked for."""
    if dtype is None:
        return x
    if not _core.is_floating(_dtype(dtype)):
        raise UsageError(f"{name}: dtype is {_dtype(dtype)}; a mean is floating, so give f32 or another floating dtype")
    return x.to(dtype)


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
    if x.ndim == 0:
        return x
    for axis in axes:
        if x.shape[axis] == 0:
            x = ones(x.shape[:axis] + (1,) + x.shape[axis + 1 :], dtype=x.dtype)
        while (size := x.shape[axis]) > 1:
            first, second, rest = _split(x, [size // 2, size // 2, size % 2], axis)
            x = cat([first * second, rest], axis)
    return x if keepdim else _squeeze(x, axes) if axes else x


def _cumsum(x: Tensor, dim: builtins.int, *, dtype: Any = None) -> Tensor:
    """The sums of all elements up to each one along an axis; of whole numbers and bool: i64. By Hillis and Steele (1986)."""
    if dtype is not None:
        return _cut(_cumsum(x.to(dtype), dim), _dtype(dtype))
    x, axis = _widened(x), _axis(x, dim)
    if x.ndim == 0:
        return x
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


def _mean_in(
    x: Tensor, dim: Axes = None, keepdim: builtins.bool = False, *, dtype: Any = None, axis: Axes = None, keepdims: builtins.bool = False,
    out: None = None,
) -> Tensor:  # fmt: skip
    """The mean over an axis, several, or all; of floating elements, others become f32. With a dtype it is computed in that."""
    _check_out(out)
    return _mean(_floating_in("mean", x, dtype), _chosen(x, dim if axis is None else axis), keepdim or keepdims)


def _mean(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The mean over an axis, several, or all; of floating elements, others become f32."""
    return _one("mean", x if _core.is_floating(x.dtype) else x.to("f32"), axes=_axes(dim), keepdims=keepdim)


def _var(
    x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False, *,
    unbiased: builtins.bool | None = None, axis: Axes = None, keepdims: builtins.bool = False, dtype: Any = None, out: None = None,
    ddof: builtins.int | None = None,
) -> Tensor:  # fmt: skip
    """The variance over axes, divided by their size less `correction`; unbiased=False is a correction of 0.

    f16 and bf16 are computed in f32. `ddof` is NumPy's word for the correction, which np.var(x) gives as 0.
    """
    _check_out(out)
    x = _floating_in("var", x, dtype)
    axes = [_axis(x, one) for one in _axes(_chosen(x, dim if axis is None else axis))] or list(range(x.ndim))
    less: float = correction if unbiased is None else builtins.int(unbiased)
    less = less if ddof is None else ddof
    less = less if isinstance(less, builtins.int) else _real(less, "var: correction")
    count = math.prod(x.shape[one] for one in axes)
    wide = x.to("f32") if x.dtype in ("f16", "bf16") else x
    found = _sum((wide - _mean(wide, axes, True)) ** 2, axes, keepdim or keepdims) / builtins.max(count - less, 0)
    return found.to(x.dtype) if wide is not x else found


def _std(
    x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False, *,
    unbiased: builtins.bool | None = None, axis: Axes = None, keepdims: builtins.bool = False, dtype: Any = None, out: None = None,
    ddof: builtins.int | None = None,
) -> Tensor:  # fmt: skip
    """The root of the variance, whose arguments it takes. The gradient of a std of 0 is 0."""
    _check_out(out)
    x = _floating_in("std", x, dtype)
    wide = x.to("f32") if x.dtype in ("f16", "bf16") else x
    found = _root(_var(wide, dim, correction, keepdim, unbiased=unbiased, axis=axis, keepdims=keepdims, ddof=ddof))
    return found.to(x.dtype) if wide is not x else found


def _root(x: Tensor, p: Number = 2) -> Tensor:
    """The p-th root, whose gradient at 0 is 0 instead of infinite."""
    zero = x == 0
    safe = where(zero, 1.0, x)
    return where(zero, 0.0, safe.sqrt() if p == 2 else safe ** (1 / p))


def _norm(
    x: Tensor, p: Number | str = 2, dim: Axes = None, keepdim: builtins.bool = False, *, axis: Axes = None, keepdims: builtins.bool = False
) -> Tensor:  # fmt: skip
    """The p-norm of the elements over an axis, several, or all; "fro" is 2, and infinity the largest absolute value."""
    if x.dtype in ("f16", "bf16"):  # whose powers overflow
        return _norm(x.to("f32"), p, dim, keepdim, axis=axis, keepdims=keepdims).to(x.dtype)
    x, axes, keep = x if _core.is_floating(x.dtype) else x.to("f32"), _chosen(x, dim if axis is None else axis), keepdim or keepdims
    if p in (2, "fro"):
        return _root(_sum(_square(x), axes, keep))
    if isinstance(p, str) or _real(p, "norm: p") <= 0:
        raise UsageError(f"norm: p is {p!r}; it is a number above 0, or 'fro'")
    size = _abs(x)
    if p == math.inf:
        return _max(size, axes, keep)
    return _sum(size, axes, keep) if p == 1 else _root(_sum(size**p, axes, keep), p)


def _max(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The largest element over an axis, several, or all: the values alone; argmax says where they are."""
    return _one("reduce_max", x, axes=_axes(dim), keepdims=keepdim)


def _min(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The smallest element over an axis, several, or all: the values alone; argmin says where they are."""
    return _one("reduce_min", x, axes=_axes(dim), keepdims=keepdim)


def _argmax(x: Tensor, dim: builtins.int | None, keepdim: builtins.bool) -> Tensor:
    """The index (i64) of the largest element, the first of equal ones; of all without an axis."""
    x = x.to("u8") if x.dtype == "bool" else x
    if dim is not None:
        dim = _axis(x, dim)
    if dim is None or x.ndim == 0:
        found = _one("argmax", x.flatten(), axis=0)
        return found.reshape((1,) * x.ndim) if keepdim else found
    return _one("argmax", x, axis=dim, keepdims=keepdim)


def _argmin(x: Tensor, dim: builtins.int | None, keepdim: builtins.bool) -> Tensor:
    """The index (i64) of the smallest element, the first of equal ones; of all without an axis."""
    # The bits the other way reverse the order of whole numbers and overflow nowhere, as -x does.
    try:
        return _argmax(-x if _core.is_floating(x.dtype) else _invert(x), dim, keepdim)
    except UsageError as error:
        raise UsageError(str(error).replace("argmax", "argmin")) from None


def _topk(x: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) along an axis in order, and their indices (i64)."""
    axis, k = _axis(x, dim), _integral(k, "topk: k")
    values, indices = call("top_k", [x], k=k, axis=axis, largest=largest)
    return values, indices
