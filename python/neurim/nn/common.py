"""What the layers share: first values, and layers that are functions with fixed options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import _core, init
from .._core import Tensor
from ..module import Module, Parameter


def _parameter(*shape: int) -> Any:
    """A learnt tensor of zeros."""
    return Parameter(_core.full(list(shape), 0.0, "f32"))


def _drawn(draw: Callable[..., Tensor], *shape: int, **options: Any) -> Any:
    """A learnt tensor with values of a function of nn.init."""
    return Parameter(draw(_core.full(list(shape), 0.0, "f32"), **options))


def _by_fan_in(shape: Sequence[int], fan_in: int) -> Any:
    """A learnt tensor drawn as PyTorch draws weights and biases of linear layers and convolutions."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return _drawn(init.uniform_, *shape, a=-bound, b=bound)


def _trains(module: Module) -> bool:
    return module.training and _core.training()


class _Function(Module):
    """A layer without tensors: a function with fixed options, which are attributes."""

    function: ClassVar[Callable[..., Tensor]]
    _options: tuple[str, ...] = ()

    def _set(self, **options: Any) -> None:
        self._options = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the function gives."""
        return type(self).function(*inputs, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._options)


class _Inplace(_Function):
    def __init__(self, inplace: bool = False) -> None:
        """`inplace` has no effect."""
