"""Activations, element by element."""

from __future__ import annotations

from .._core import Tensor, UsageError
from ..tensors import check_tensors, where
from .common import _op, _ops, _wide


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)"""
    return _op("relu", input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)"""
    return _op("relu6", input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where x > 0, else negative_slope * x."""
    return _op("leaky_relu", input, slope=float(negative_slope))


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, else a learnt slope times x: weight (1), or (C) for input(N,C,…) (He et al., 2015)."""
    if weight.shape[0] > 1 and input.ndim > 2:
        weight = weight.reshape(-1, *[1] * (input.ndim - 2))
    return _op("prelu", input, weight)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (e^x - 1) (Clevert et al., 2015)."""
    return _op("elu", input, alpha=float(alpha))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """1.0507 * elu(x, 1.6733), which keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    return _op("selu", input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where x > 0, else alpha * (e^(x / alpha) - 1) (Barron, 2017)."""
    return _op("celu", input, alpha=float(alpha))


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x, or with "tanh" its approximation (Hendrycks and Gimpel, 2016)."""
    return _op("gelu", input, approximate=approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)"""
    return _op("silu", input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(log(1 + e^x)) (Misra, 2020)."""
    return _op("mish", input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e^-x)"""
    return _op("sigmoid", input)


def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)), which does not overflow."""
    return -_op("softplus", -input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return _op("tanh", input)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)"""
    check_tensors("tanhshrink", input)
    x = _wide(input)
    return (x - tanh(x)).to(input.dtype)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6"""
    return _op("hardsigmoid", input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)"""
    return _op("hardswish", input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """min(max(x, min_val), max_val)"""
    return _op("clamp", input, low=float(min_val), high=float(max_val))


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + e^(beta x)) / beta, or x where beta x is above the threshold."""
    if beta == 0:
        raise UsageError("softplus: beta is 0, has to be another number")
    y = _op("softplus", input) if beta == 1 else _op("softplus", input * beta) / beta
    # The two differ by less than the rounding of f32 from the default threshold on.
    return y if threshold >= 20 else where(input * beta > threshold, input, y)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)"""
    return _op("softsign", input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0 where |x| > lambd, else 0."""
    check_tensors("softshrink", input)
    if lambd < 0:
        raise UsageError(f"softshrink: lambd is {lambd}, has to be 0 or more")
    x = _wide(input)
    return (x - _op("clamp", x, low=-float(lambd), high=float(lambd))).to(input.dtype)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0."""
    check_tensors("hardshrink", input)
    return where(_op("abs", _wide(input)) <= lambd, 0.0, input)  # NaN, which is not <=, stays


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold or NaN, else value."""
    check_tensors("threshold", input)
    return where(input <= threshold, float(value), input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), a and b being the halves of the input along `dim` (Dauphin et al., 2017)."""
    if input.shape[dim] % 2:
        raise UsageError(f"glu: axis {dim} of {input.shape} has an odd size and no halves")
    half = input.shape[dim] // 2
    a, b = _ops("split", input, sizes=[half, half], axis=dim)
    return (_wide(a) * sigmoid(_wide(b))).to(input.dtype)


def softmax(input: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    """e^x / sum(e^x) along `dim`; the input is converted to `dtype` first."""
    return _op("softmax", input if dtype is None else input.to(dtype), axis=dim)


def softmin(input: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    """softmax(-x)"""
    return softmax(-input, dim, dtype)


def log_softmax(input: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    """log(softmax(x)), which does not overflow."""
    return _op("log_softmax", input if dtype is None else input.to(dtype), axis=dim)
