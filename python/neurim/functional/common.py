"""What the functions share: ops by name, sizes for all axes, and f32 in place of narrower dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor
from ..tensors import call
from ..tensors.common import _integral

Size = int | Sequence[int]  # one number for all axes, or one for each
OptionalSize = int | None | Sequence[int | None]


def _ops(name: str, *inputs: Tensor | None, **attributes: Any) -> list[Tensor]:
    """Applies an op; an input that is None is left out."""
    return call(name, [x for x in inputs if x is not None], **attributes)


def _op(name: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
    """The first output of an op."""
    return _ops(name, *inputs, **attributes)[0]


def _each(value: Size, axes: int) -> list[int]:
    if not isinstance(value, (tuple, list)):
        return [_integral(value, "a size")] * axes
    sizes = [_integral(one, "a size") for one in value]
    return sizes * axes if len(sizes) == 1 else sizes


def _full(like: Tensor, shape: Sequence[int], value: float) -> Tensor:
    """A tensor of one value, of the dtype and on the device of `like`."""
    return _core.full(list(shape), value, like.dtype).to(like.device)


def _wide(x: Tensor) -> Tensor:
    """x in f32 where it is f16 or bf16: several ops compute there and their result is rounded once."""
    return x.to("f32") if x.dtype in ("f16", "bf16") else x


def _sum(x: Tensor, *axes: int, keepdim: bool = False) -> Tensor:
    return _op("sum", x, axes=list(axes), keepdims=keepdim)
