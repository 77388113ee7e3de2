"""Other dtypes and devices, and what other libraries and Python itself take."""

from __future__ import annotations

import builtins
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from .common import _dtype, _one
from .making import tensor


def _to(x: Tensor, *targets: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """In another dtype, or on another device; itself where it is there already."""
    for target in targets:
        if isinstance(target, str) and (target in ("cpu",) or target.partition(":")[0] in ("cpu", "cuda", "test")):
            device = target
        elif target is not None:
            dtype = target
    if dtype is not None and (name := _dtype(dtype)) != x.dtype:
        x = _one("cast", x, dtype=name)
    return x if device is None else x._on(device)


def _numpy(x: Tensor) -> Any:
    """An array of NumPy in the tensor's memory, where that is the host's. Throws UsageError for bf16, which NumPy has not."""
    if x.dtype == "bf16":
        raise UsageError("numpy: NumPy has no bfloat16; use x.float().numpy()")
    return x._numpy()


def _array(x: Tensor, dtype: Any = None, copy: builtins.bool | None = None) -> Any:
    made = _numpy(x)
    return made.astype(dtype) if dtype is not None and made.dtype != dtype else made.copy() if copy else made


def _tolist(x: Tensor) -> Any:
    """Nested lists of numbers of Python; of a scalar the number."""
    if x.ndim == 0:
        return x.item()
    return _numpy(x.float() if x.dtype in ("bf16",) else x).tolist()


def _repr(x: Tensor) -> str:
    if x.traced:
        return f"Tensor(shape={x.shape}, dtype={x.dtype}, in a trace)"
    import numpy as np

    text = np.array2string(_numpy(x.float() if x.dtype == "bf16" else x), separator=", ", prefix="Tensor(")
    return f"Tensor({text}, {f'shape={x.shape}, ' if x.ndim > 1 and 0 in x.shape else ''}dtype={x.dtype})"


def _format(x: Tensor, spec: str) -> str:
    return format(x.item(), spec) if x.ndim == 0 and not x.traced else format(repr(x), spec)


def _index(x: Tensor) -> builtins.int:
    if x.dtype == "bool" or _core.is_floating(x.dtype):
        raise TypeError(f"a tensor of {x.dtype} is no index")
    return builtins.int(x.item())


def _reduce(x: Tensor) -> tuple[Any, ...]:
    return tensor, (_numpy(x.float() if x.dtype == "bf16" else x), x.dtype, x.device)


def _bool(x: Tensor) -> builtins.bool:
    return builtins.bool(x.item())


def _dlpack(x: Tensor, **wanted: Any) -> Any:
    """For consumers of the array API: the tensor's memory, not a copy, where that is the host's."""
    return x._exchange().__dlpack__(**{key: value for key, value in wanted.items() if value is not None and key != "copy"})


def _arrow_c_array(x: Tensor, requested_schema: Any = None) -> tuple[Any, Any]:
    """For consumers of Arrow: numbers (N), or lists of fixed size (N,size), in the tensor's memory where that is the host's.

    bool is packed into bits, which is a copy, and numbers are cast where the schema asks for others. The export stays as it
    is when the tensor changes. Throws UsageError for bf16, which Arrow has not, and for a tensor without axes.
    """
    dtype = None if requested_schema is None else _core.arrow_dtype(requested_schema)
    return _core.arrow_array(x if dtype is None else _to(x, dtype))


def _dlpack_device(x: Tensor) -> tuple[builtins.int, builtins.int]:
    return (1, 0)
