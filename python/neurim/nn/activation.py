"""Activations: see the functions of the same names in functional."""

from __future__ import annotations

from .. import functional as F
from .._core import Tensor
from ..module import Module, Parameter
from .common import _Function, _Inplace, _values


class ReLU(_Inplace):
    """max(x, 0)"""

    function = F.relu


class ReLU6(_Inplace):
    """min(max(x, 0), 6)"""

    function = F.relu6


class LeakyReLU(_Function):
    """x where x > 0, else negative_slope * x."""

    function = F.leaky_relu

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        """`inplace` has no effect."""
        self._set(negative_slope=negative_slope)


class ELU(_Function):
    """x where x > 0, else alpha * (e^x - 1)."""

    function = F.elu

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        """`inplace` has no effect."""
        self._set(alpha=alpha)


class SELU(_Inplace):
    """1.0507 * elu(x, 1.6733)."""

    function = F.selu


class CELU(_Function):
    """x where x > 0, else alpha * (e^(x / alpha) - 1)."""

    function = F.celu

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        """`inplace` has no effect."""
        self._set(alpha=alpha)


class GELU(_Function):
    """x times the normal distribution function of x."""

    function = F.gelu

    def __init__(self, approximate: str = "none") -> None:
        """`approximate` is "none" or "tanh"."""
        self._set(approximate=approximate)


class SiLU(_Inplace):
    """x * sigmoid(x)"""

    function = F.silu


class Mish(_Inplace):
    """x * tanh(log(1 + e^x))"""

    function = F.mish


class Sigmoid(_Function):
    """1 / (1 + e^-x)"""

    function = F.sigmoid


class LogSigmoid(_Function):
    """log(sigmoid(x))"""

    function = F.logsigmoid


class Tanh(_Function):
    """The hyperbolic tangent."""

    function = F.tanh


class Tanhshrink(_Function):
    """x - tanh(x)"""

    function = F.tanhshrink


class Hardsigmoid(_Inplace):
    """min(max(x + 3, 0), 6) / 6"""

    function = F.hardsigmoid


class Hardswish(_Inplace):
    """x * hardsigmoid(x)"""

    function = F.hardswish


class Hardtanh(_Function):
    """min(max(x, min_val), max_val)"""

    function = F.hardtanh

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        """`inplace` has no effect."""
        self._set(min_val=min_val, max_val=max_val)


class Softplus(_Function):
    """log(1 + e^(beta x)) / beta"""

    function = F.softplus

    def __init__(self, beta: float = 1, threshold: float = 20) -> None:
        """Above the threshold, beta x gives x."""
        self._set(beta=beta, threshold=threshold)


class Softsign(_Function):
    """x / (1 + |x|)"""

    function = F.softsign


class Softshrink(_Function):
    """x moved by lambd towards 0 where |x| > lambd, else 0."""

    function = F.softshrink

    def __init__(self, lambd: float = 0.5) -> None:
        """`lambd` is 0 or more."""
        self._set(lambd=lambd)


class Hardshrink(_Function):
    """x where |x| > lambd, else 0."""

    function = F.hardshrink

    def __init__(self, lambd: float = 0.5) -> None:
        """`lambd` is 0 or more."""
        self._set(lambd=lambd)


class Threshold(_Function):
    """x where x > threshold, else value."""

    function = F.threshold

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        """`inplace` has no effect."""
        self._set(threshold=threshold, value=value)


class GLU(_Function):
    """a * sigmoid(b), a and b being the halves of x along `dim`."""

    function = F.glu

    def __init__(self, dim: int = -1) -> None:
        """`dim` may count from the back."""
        self._set(dim=dim)


class Softmax(_Function):
    """e^x / sum(e^x) along `dim`."""

    function = F.softmax

    def __init__(self, dim: int) -> None:
        """`dim` may count from the back."""
        self._set(dim=dim)


class Softmin(_Function):
    """softmax(-x)"""

    function = F.softmin

    def __init__(self, dim: int) -> None:
        """`dim` may count from the back."""
        self._set(dim=dim)


class LogSoftmax(_Function):
    """log(softmax(x)) along `dim`."""

    function = F.log_softmax

    def __init__(self, dim: int) -> None:
        """`dim` may count from the back."""
        self._set(dim=dim)


class PReLU(Module):
    """x where x > 0, else weight * x, the weight (1), or (C) for x(N,C,…) (He et al., 2015)."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        """`init` is the first value of the weight."""
        self.weight: Tensor = Parameter(_values(num_parameters, value=init))

    def forward(self, input: Tensor) -> Tensor:
        """x(N,C,…) -> the same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.weight.shape[0]}"
