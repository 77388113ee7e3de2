"""Elements and slices by their indices, and by masks."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence
from operator import index as _whole
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from .arithmetic import where
from .common import _axis, _one, check_tensors
from .conversion import _numpy
from .making import _filled, arange, tensor, zeros
from .reductions import _all


def _indices(index: Tensor) -> Tensor:
    """Integers of the dtypes that ops take as indices."""
    if index.dtype == "bool" or _core.is_floating(index.dtype):
        raise IndexError(f"indices are {index.dtype}; they have to be integers")
    return index if index.dtype in ("i64", "i32") else index.to("i64")


def _inside(index: Tensor, size: builtins.int, axis: builtins.int, total: builtins.int) -> Tensor:
    """The indices along an axis, which are in [0, size); throws IndexError where one is not.

    A trace does not know the values: there such an index becomes `total`, the number of elements, so that the flat index is
    behind the end and the op gather throws DataError when the trace runs.
    """
    inside = (index >= 0) & (index < size)
    if _core.tracing():
        return where(inside, index, total)
    if not _all(inside, None, False).item():
        raise IndexError(f"an index for axis {axis}, whose size is {size}, is out of range")
    return index


def _flat_index(indices: Sequence[Tensor], sizes: Sequence[builtins.int]) -> Tensor:
    """The positions of elements with these indices along axes of these sizes as one axis; the indices broadcast."""
    flat = _filled(0, "i64")
    for index, size in zip(indices, sizes, strict=True):
        flat = flat * size + index
    return flat


def _gather(x: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for axis 0, and so on, as torch.gather; along other axes index may be smaller than x.

    Throws IndexError for an index outside [0, size); in a trace DataError when it runs.
    """
    check_tensors("gather", index)
    axis = _axis(x, dim)
    if index.ndim != x.ndim or any(a != axis and own > size for a, (own, size) in enumerate(zip(index.shape, x.shape, strict=True))):
        raise UsageError(f"gather: index of shape {index.shape} does not fit {x.shape} along axis {axis}")
    grids = [arange(size).reshape([-1 if a == b else 1 for b in range(x.ndim)]) for a, size in enumerate(index.shape)]
    grids[axis] = _inside(_indices(index), x.shape[axis], axis, x.numel())
    return _one("gather", x.flatten(), _flat_index(grids, x.shape), axis=0)


def _index_select(x: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """The slices of these numbers along an axis."""
    check_tensors("index_select", index)
    return _one("gather", x, _indices(index), axis=_axis(x, dim))


def _is_list(key: Any) -> builtins.bool:
    """Whether a key is a list or tensor of indices, or a mask. A traced scalar chooses by the op gather as they do."""
    return isinstance(key, (list, tuple)) or getattr(key, "ndim", 0) > 0 or isinstance(key, Tensor) and key.traced


def _keys(x: Tensor, key: Any) -> list[Any]:
    """One key for each axis of x, and None: without ..., and with a mask as the indices of its true elements."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for at, one in enumerate(keys):
        if _is_list(one) and not isinstance(one, Tensor):
            keys[at] = tensor(one) if len(one) > 0 else zeros(0, dtype="i64")
    masks = [isinstance(one, Tensor) and one.ndim > 0 and one.dtype == "bool" for one in keys]
    used = [one.ndim if mask else one is not None and one is not Ellipsis for one, mask in zip(keys, masks, strict=True)]
    if sum_of(used) > x.ndim:
        raise IndexError(f"there are {sum_of(used)} indices for a tensor of {x.ndim} axes")
    if sum_of(one is Ellipsis for one in keys) > 1:
        raise IndexError("there is more than one ...")
    made: list[Any] = []
    axis = 0
    for one, mask, count in zip(keys, masks, used, strict=True):
        if one is Ellipsis:
            count = x.ndim - sum_of(used)
            made += [slice(None)] * count
        elif mask:
            if one.shape != x.shape[axis : axis + count]:
                raise IndexError(f"a mask of shape {one.shape} does not fit axes of {x.shape[axis : axis + count]}")
            made += [tensor(indices) for indices in _numpy(one).nonzero()]
        else:
            made.append(_indices(one) if _is_list(one) else one)
        axis += count
    return made + [slice(None)] * (x.ndim - axis)


def _position(key: Any, size: builtins.int, axis: builtins.int) -> builtins.int:
    """The number of a key that is one, counted from the front."""
    try:
        if isinstance(key, builtins.bool) or getattr(getattr(key, "dtype", None), "kind", "") == "b":
            raise TypeError
        number = _whole(key)
    except TypeError:
        raise IndexError(f"an index is a {type(key).__name__}; it has to be a whole number, a slice, None, ..., a list or tensor of these, or a mask") from None
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range for axis {axis} with size {size}")
    return number % size


def _getitem(x: Tensor, key: Any) -> Tensor:
    """Numbers, slices, None, ..., tensors of integers and bool masks (of stored tensors) as in NumPy, but a copy.

    Throws IndexError for what is out of range; for an element of a single tensor of indices DataError.
    """
    cuts: list[tuple[builtins.int, builtins.int, builtins.int, builtins.int]] = []  # start, end, axis, step
    shape: list[builtins.int] = []  # after slicing, without the axes of numbers, with those of None
    chosen: list[tuple[builtins.int, Tensor]] = []  # tensors of indices and the axis that they choose from in `shape`
    places: list[builtins.int] = []  # of numbers and tensors of indices among the keys
    axis = 0
    for place, one in enumerate(_keys(x, key)):
        if one is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(one, slice) and one == slice(None):
            shape.append(size)
        elif isinstance(one, slice):
            start, end, step = one.indices(size)
            length = len(range(start, end, step))
            if length == 0:
                start, end, step = 0, 0, 1
            if (start, end, step) != (0, size, 1):
                cuts.append((start, -size - 1 if step < 0 and end < 0 else end, axis, step))
            shape.append(length)
        elif _is_list(one):
            chosen.append((len(shape), one))
            shape.append(size)
            places.append(place)
        else:
            number = _position(one, size, axis)
            cuts.append((number, number + 1, axis, 1))
            places.append(place)
        axis += 1
    out = x
    if cuts:
        starts, ends, axes, steps = (list(column) for column in zip(*cuts, strict=True))
        out = _one("slice", x, starts=starts, ends=ends, axes=axes, steps=steps)
    out = out.reshape(shape)
    if not chosen:
        return out
    # As in NumPy, what is chosen comes first where slices part the indices.
    first = 0 if places[-1] - places[0] >= len(places) else chosen[0][0]
    last = first + len(chosen)
    rest = [axis for axis in range(out.ndim) if axis not in dict(chosen)]
    out = out.permute(rest[:first] + [axis for axis, _ in chosen] + rest[first:])
    index = chosen[0][1]
    if len(chosen) > 1:
        sizes = out.shape[first:last]
        fronts = [where(one < 0, one + size, one) for (_, one), size in zip(chosen, sizes, strict=True)]
        total = math.prod(sizes)
        index = _flat_index([_inside(one, size, axis, total) for one, size, (axis, _) in zip(fronts, sizes, chosen, strict=True)], sizes)
        out = out.flatten(first, last - 1)
    return _one("gather", out, index, axis=first)


def sum_of(numbers: Iterable[builtins.int]) -> builtins.int:
    """Python's own sum, whose name is a method's here."""
    return builtins.sum(numbers)
