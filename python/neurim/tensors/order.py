"""Elements in another order, and parts of matrices."""

from __future__ import annotations

import builtins
from typing import Any

from .._core import Tensor, UsageError
from .arithmetic import where
from .common import _axes, _axis, _integral, _is_empty, _one, call
from .making import _filled, arange


def _flip(x: Tensor, *dims: Any) -> Tensor:
    """The other way round along these axes, which are given one by one or as a list."""
    axes = sorted({_axis(x, dim) for one in dims for dim in _axes(one)}) if x.ndim else []
    if not axes or _is_empty(x):
        return x
    sizes = [x.shape[axis] for axis in axes]
    return _one("slice", x, starts=[size - 1 for size in sizes], ends=[-size - 1 for size in sizes], axes=axes, steps=[-1] * len(axes))


def _argsort(x: Tensor, dim: builtins.int = -1, descending: builtins.bool = False) -> Tensor:
    """The indices (i64) that sort along an axis; equal elements keep their order, and NaN counts as the largest."""
    return _sort(x.detach(), dim, descending)[1]


def _sort(x: Tensor, dim: builtins.int = -1, descending: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """The elements in order along an axis, and the indices (i64) where they were; see argsort."""
    axis = _axis(x, dim)
    if x.ndim == 0:
        return x, _filled(0, "i64")
    numbers = x.to("u8") if x.dtype == "bool" else x
    values, indices = call("top_k", [numbers], k=x.shape[axis], axis=axis, largest=descending)
    return values.to(x.dtype), indices


def _places(name: str, x: Tensor) -> Tensor:
    """The column less the row of each element of a matrix."""
    if x.ndim < 2:
        raise UsageError(f"{name}: takes matrices (…,rows,columns), got shape {x.shape}")
    return arange(x.shape[-1]) - arange(x.shape[-2]).unsqueeze(-1)


def _tril(x: Tensor, diagonal: builtins.int = 0) -> Tensor:
    """The elements on the diagonal of that number (1: above the main one) and below; zeros elsewhere."""
    return where(_places("tril", x) <= _integral(diagonal, "tril: diagonal"), x, _filled(0, x.dtype))


def _triu(x: Tensor, diagonal: builtins.int = 0) -> Tensor:
    """The elements on the diagonal of that number (1: above the main one) and above; zeros elsewhere."""
    return where(_places("triu", x) >= _integral(diagonal, "triu: diagonal"), x, _filled(0, x.dtype))


def _diagonal(x: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """The elements whose index along dim2 is that along dim1 plus offset, as the last axis."""
    first, second, offset = _axis(x, dim1), _axis(x, dim2), _integral(offset, "diagonal: offset")
    if x.ndim < 2 or first == second:
        raise UsageError(f"diagonal: takes two axes of a tensor of two or more, got {dim1} and {dim2} of shape {x.shape}")
    rows, columns = x.shape[first], x.shape[second]
    length = builtins.max(builtins.min(rows + builtins.min(offset, 0), columns - builtins.max(offset, 0)), 0)
    flat = x.permute([axis for axis in range(x.ndim) if axis not in (first, second)] + [first, second]).flatten(-2)
    start = offset if offset >= 0 else -offset * columns
    return _one("gather", flat, arange(length) * (columns + 1) + start, axis=flat.ndim - 1)
