"""What the parts share: ops by name, dtypes and their promotion, shapes and axes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from operator import index as _whole
from typing import Any, Union

from .. import _core
from .._core import Tensor, UsageError

Number = Union[builtins.int, builtins.float, builtins.bool]
Axes = Union[builtins.int, Sequence[builtins.int], None]
_RANKS = {"bool": 0, "u8": 1, "i8": 2, "u16": 3, "i16": 4, "u32": 5, "i32": 6, "u64": 7, "i64": 8, "f16": 9, "bf16": 10, "f32": 11, "f64": 12}


def check_tensors(name: str, *inputs: object) -> None:
    """Throws UsageError where an input is no tensor."""
    for one in inputs:
        if not isinstance(one, Tensor):
            raise UsageError(f"{name}: takes tensors, got {type(one).__name__}; nm.tensor(x) makes one")


def call(name: str, inputs: Sequence[Tensor], **attributes: Any) -> list[Tensor]:
    """The outputs of an op. Throws UsageError where an input is no tensor."""
    check_tensors(name, *inputs)
    return _core.call(name, list(inputs), attributes)


def _one(name: str, *inputs: Tensor, **attributes: Any) -> Tensor:
    return call(name, inputs, **attributes)[0]


def _dtype(dtype: Any) -> str:
    """The name of a dtype that may be one of NumPy or PyTorch."""
    if isinstance(dtype, str):
        return str(_core.dtype_named(dtype))
    if dtype is builtins.float:
        return "f32"
    if dtype is builtins.int:
        return "i64"
    if dtype is builtins.bool:
        return "bool"
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
    return str(_core.dtype_named(name))


def _shape(shape: tuple[Any, ...]) -> tuple[builtins.int, ...]:
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return tuple(_integral(size, "a size") for size in sizes)


def _integral(value: Any, what: str) -> builtins.int:
    """A whole number of Python. Throws UsageError for what is none, also for 2.0 and "2"."""
    if isinstance(value, _core.Size):
        return value
    try:
        return _whole(value)
    except TypeError:
        shown = repr(value) if isinstance(value, (builtins.float, str)) else f"a {type(value).__name__}"
        raise UsageError(f"{what} is {shown}; it has to be a whole number") from None


def _real(value: Any, what: str) -> builtins.float:
    """A number as a float of Python. Throws UsageError for what is none, also for "2"."""
    try:
        if not isinstance(value, (str, bytes)):
            return builtins.float(value)
    except (TypeError, ValueError):
        pass
    shown = repr(value) if value is None or isinstance(value, str) else f"a {type(value).__name__}"
    raise UsageError(f"{what} is {shown}; it has to be a number")


def _axes(dim: Axes) -> list[builtins.int]:
    if dim is None:
        return []
    return [_integral(one, "dim") for one in dim] if isinstance(dim, (list, tuple, range)) else [_integral(dim, "dim")]


def _is_empty(x: Tensor) -> builtins.bool:
    """Whether there are no elements. A size that a trace has as a symbol is not asked."""
    return any(size == 0 for size in x.shape if not isinstance(size, _core.Size))


def _axis(x: Tensor, dim: builtins.int, more: builtins.int = 0) -> builtins.int:
    rank, dim = builtins.max(x.ndim + more, 1), _integral(dim, "dim")
    if not -rank <= dim < rank:
        raise UsageError(f"dim is {dim}, and the tensor has {x.ndim} axes")
    return dim % rank


def _promoted(*tensors: Tensor) -> list[Tensor]:
    """The tensors in the least dtype that has the numbers of all, as PyTorch chooses it."""
    dtypes = {one.dtype for one in tensors}
    if len(dtypes) == 1:
        return list(tensors)
    dtype = builtins.max(dtypes, key=_RANKS.__getitem__)
    if dtype == "bf16" and "f16" in dtypes:
        dtype = "f32"
    elif not _core.is_floating(dtype) and {"u", "i"} <= {one[0] for one in dtypes}:  # signed, of more bits than the unsigned ones
        bits = builtins.max(builtins.int(one[1:]) * (2 if one[0] == "u" else 1) for one in dtypes if one != "bool")
        dtype = f"i{builtins.min(bits, 64)}"
    return [one.to(dtype) for one in tensors]
