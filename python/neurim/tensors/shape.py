"""Shapes: other orders and sizes of axes, pieces and repetitions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from .common import Axes, _axes, _axis, _integral, _one, _shape, call
from .making import cat


def _reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1, which follows from the others."""
    sizes = list(_shape(shape))
    if any(isinstance(size, _core.Size) for size in (*sizes, *x.shape)):
        return _one("reshape", x, shape=sizes)
    total = math.prod(x.shape)
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) > 1 or known == 0 or total % known != 0:
            raise UsageError(f"reshape: shape {x.shape} does not fit {tuple(sizes)}")
        sizes[sizes.index(-1)] = total // known
    if math.prod(sizes) != total:
        raise UsageError(f"reshape: shape {x.shape} has {total} elements, {tuple(sizes)} has {math.prod(sizes)}")
    return x if tuple(sizes) == x.shape else _one("reshape", x, shape=sizes)


def _flatten(x: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    """The axes from start_dim to end_dim as one."""
    if x.ndim == 0:
        return x.reshape(1)
    first, last = _axis(x, start_dim), _axis(x, end_dim)
    if first > last:
        raise UsageError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}")
    return x.reshape(x.shape[:first] + (math.prod(x.shape[first : last + 1]),) + x.shape[last + 1 :])


def _permute(x: Tensor, *dims: Any) -> Tensor:
    """The axes in another order."""
    perm = [_axis(x, dim) for dim in _shape(dims)]
    return x if perm == list(range(x.ndim)) else _one("transpose", x, perm=perm)


def _transpose(x: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Two axes exchanged."""
    perm = list(range(x.ndim))
    first, second = _axis(x, dim0), _axis(x, dim1)
    perm[first], perm[second] = second, first
    return _one("transpose", x, perm=perm)


def _squeeze(x: Tensor, dim: Axes = None) -> Tensor:
    """Without axes of size 1: all of them, or those that are named."""
    chosen = range(x.ndim) if dim is None else [_axis(x, one) for one in _axes(dim)]
    return x.reshape([size for axis, size in enumerate(x.shape) if axis not in chosen or size != 1])


def _unsqueeze(x: Tensor, dim: builtins.int) -> Tensor:
    """With a new axis of size 1 there."""
    axis = _axis(x, dim, 1)
    return x.reshape(x.shape[:axis] + (1,) + x.shape[axis:])


def _expand(x: Tensor, *shape: Any) -> Tensor:
    """Repeated along axes of size 1; -1 leaves a size."""
    sizes = list(_shape(shape))
    offset = len(sizes) - x.ndim
    full_sizes = [x.shape[i - offset] if size == -1 and i >= offset else size for i, size in enumerate(sizes)]
    return _one("broadcast_to", x, shape=full_sizes)


def _repeat(x: Tensor, *counts: Any) -> Tensor:
    """All of it so many times along each axis."""
    times = _shape(counts)
    if len(times) < x.ndim or any(count < 0 for count in times):
        raise UsageError(f"repeat: counts are {times}; there is one of 0 or more for each of the {x.ndim} axes at least")
    x = x.reshape((1,) * (len(times) - x.ndim) + x.shape)
    for axis, count in enumerate(times):
        x = cat([x] * count, axis) if count > 1 else x if count == 1 else _split(x, [0, x.shape[axis]], axis)[0]
    return x


def _split(x: Tensor, sizes: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Pieces of these sizes along an axis; of a number: of that size, the last may be smaller."""
    axis = _axis(x, dim)
    if not isinstance(sizes, (list, tuple)):
        sizes = _integral(sizes, "split: the size")
        if sizes <= 0:
            raise UsageError(f"split: the size is {sizes}; it is 1 or more")
        total = x.shape[axis]
        sizes = [builtins.min(sizes, total - at) for at in range(0, total, sizes)] or [0]
    return tuple(call("split", [x], sizes=list(sizes), axis=axis))


def _chunk(x: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """So many pieces along an axis, the last may be smaller."""
    chunks = _integral(chunks, "chunk: the number of chunks")
    if chunks <= 0:
        raise UsageError(f"chunk: the number of chunks is {chunks}; it is 1 or more")
    return _split(x, builtins.max(-(-x.shape[_axis(x, dim)] // chunks), 1), dim)


def _len(x: Tensor) -> builtins.int:
    if x.ndim == 0:
        raise TypeError("a scalar has no length")
    return builtins.int(x.shape[0])


def _iter(x: Tensor) -> Any:
    return (x[i] for i in range(_len(x)))


def _size(x: Tensor, dim: builtins.int | None = None) -> Any:
    """The shape, or the size along an axis."""
    return x.shape if dim is None else x.shape[_axis(x, dim)]


def _numel(x: Tensor) -> builtins.int:
    """The number of elements."""
    return math.prod(x.shape)
