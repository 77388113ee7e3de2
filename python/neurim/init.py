"""First values of parameters, drawn into existing tensors, with the names and options of torch.nn.init.

Draws follow from the number given to `seed` and from how many came before; nm.seed calls it.
"""

from __future__ import annotations

import math

from . import _core
from ._core import Tensor, UsageError
from .tensors import check_tensors
from .tensors.common import _real
from .tensors.making import checked_seed

__all__ = [
    "calculate_gain",
    "constant_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "seed",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_seed = 0
_draws = 0


def seed(number: int) -> None:
    """Starts the draws anew: the same number gives the same values to the same layers built in the same order."""
    global _seed, _draws
    _seed, _draws = checked_seed("seed: the number", number), 0


def _draw(tensor: Tensor, kind: str, a: float, b: float) -> Tensor:
    """Fills the tensor from a distribution; see _core.fill."""
    global _draws
    check_tensors("init", tensor)
    a, b = _real(a, "init: a number"), _real(b, "init: a number")
    _draws += 1
    drawn = tensor if tensor.dtype == "f32" and tensor.device == "cpu" else _core.full(list(tensor.shape), 0.0, "f32")
    _core.fill(drawn, kind, a, b, _seed, str(_draws))
    if drawn is not tensor:
        tensor.assign(drawn.to(tensor.dtype).to(tensor.device))
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Sets every value to `val`."""
    return _draw(tensor, "constant", val, 0)


def zeros_(tensor: Tensor) -> Tensor:
    """Sets every value to 0."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Sets every value to 1."""
    return constant_(tensor, 1)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Draws from the uniform distribution over [a, b)."""
    return _draw(tensor, "uniform", a, b)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Draws from the normal distribution."""
    return _draw(tensor, "normal", mean, std)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Draws from the normal distribution without what lies outside [a, b], by drawing anew what does.

    Raises UsageError unless [a, b] holds the mean: few draws would lie inside otherwise.
    """
    if not a <= mean <= b:
        raise UsageError(f"trunc_normal_: [{a}, {b}] does not hold the mean {mean}")
    normal_(tensor, mean, std)
    fresh = tensor.clone()
    while (outside := (tensor < a).to("f32") + (tensor > b).to("f32")).max().item() > 0:
        normal_(fresh, mean, std)
        tensor.assign(_core.call("where", [outside.to("bool"), fresh, tensor])[0])
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs of a weight (out,in,k…), times the places of its kernel."""
    if tensor.ndim < 2:
        raise UsageError(f"init: a fan is that of a weight of two axes or more, got {tuple(tensor.shape)}")
    out, into, *kernel = tensor.shape
    places = math.prod(kernel)
    return into * places, out * places


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks for larger weights; `param` is the slope of "leaky_relu"."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"relu": math.sqrt(2), "tanh": 5 / 3, "selu": 0.75, "linear": 1.0, "sigmoid": 1.0}
    gains |= {f"conv{axes}d": 1.0 for axes in (1, 2, 3)} | {f"conv_transpose{axes}d": 1.0 for axes in (1, 2, 3)}
    if nonlinearity not in gains:
        raise UsageError(f"calculate_gain: '{nonlinearity}' is not known; known are leaky_relu, {', '.join(gains)}")
    return gains[nonlinearity]


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2 / sum(_fans(tensor)))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Draws from the uniform distribution of variance 2 gain^2 / (fan in + fan out) (Glorot and Bengio, AISTATS'10)."""
    bound = math.sqrt(3) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Draws from the normal distribution of the variance of xavier_uniform_."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise UsageError(f"kaiming: mode is '{mode}', has to be fan_in or fan_out")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Draws from the uniform distribution of variance gain^2 / fan; `a` is leaky_relu's slope (He et al., ICCV'15)."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Draws from the normal distribution of the variance of kaiming_uniform_."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))
