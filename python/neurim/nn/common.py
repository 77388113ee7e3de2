"""What the layers share: first values, and layers that are functions with fixed options."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .. import _core, init
from .._core import Tensor, UsageError
from ..module import Module, Parameter
from ..tensors.common import _integral


def _values(*shape: int, value: float = 0.0) -> Tensor:
    """A tensor of one value. Throws UsageError for sizes that are no whole numbers."""
    return _core.full([_integral(size, "a size of a parameter") for size in shape], value, "f32")


def _parameter(*shape: int) -> Any:
    """A learnt tensor of zeros."""
    return Parameter(_values(*shape))


def _drawn(draw: Callable[..., Tensor], *shape: int, **options: Any) -> Any:
    """A learnt tensor with values of a function of nn.init."""
    return Parameter(draw(_values(*shape), **options))


def _by_fan_in(shape: Sequence[int], fan_in: int) -> Any:
    """A learnt tensor drawn as PyTorch draws weights and biases of linear layers and convolutions."""
    fan_in = _integral(fan_in, "a size of a parameter")
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
        """What the function gives. Throws UsageError for another number of inputs than it has."""
        count = _inputs(type(self).function, self._options)
        if len(inputs) != count:
            raise UsageError(f"{type(self).__name__}: takes {count} input{'s' * (count > 1)}, got {len(inputs)}")
        return type(self).function(*inputs, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._options)


@functools.cache
def _inputs(function: Callable[..., Tensor], options: tuple[str, ...]) -> int:
    """The number of arguments that a function needs beside the options."""
    parameters = inspect.signature(function).parameters.values()
    return sum(one.default is one.empty and one.name not in options for one in parameters)


class _Inplace(_Function):
    def __init__(self, inplace: bool = False) -> None:
        """`inplace` has no effect."""
