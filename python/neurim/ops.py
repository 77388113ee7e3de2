"""Every op of the registry by its name: `ops.conv2d(x, weight, stride=[2, 2])`.

Inputs come in their order, optional ones at the end may be left out, attributes by name; one output is a tensor, several are a tuple. `attributes(name)`
gives an op's attributes with their defaults. `neurim.nn.functional` has PyTorch's names and arguments for most of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _core
from ._core import Tensor
from .tensors import check_tensors


def names() -> list[str]:
    """Of all ops, sorted."""
    return list(_core.op_names())


def attributes(name: str) -> dict[str, Any]:
    """The attributes of an op with their defaults."""
    return dict(_core.op_attributes(name))


def call(name: str, *inputs: Tensor, **given: Any) -> Any:
    """The op of that name. Throws UsageError for an unknown name or attribute, and for inputs that do not fit."""
    check_tensors(name, *inputs)
    out = _core.call(name, list(inputs), given)
    return out[0] if len(out) == 1 else tuple(out)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_") or name not in _core.op_names():
        raise AttributeError(f"there is no op '{name}'")

    def op(*inputs: Tensor, **given: Any) -> Any:
        return call(name, *inputs, **given)

    op.__name__ = op.__qualname__ = name
    given = ", ".join(f"{key}={value!r}" for key, value in attributes(name).items())
    op.__doc__ = f"The op {name}. Attributes: {given or 'none'}."
    return op


def __dir__() -> list[str]:
    return [*names(), "attributes", "call", "names"]
