"""Dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from .. import functional as F
from .._core import Tensor, UsageError
from ..module import Module
from .common import _trains


class _Dropout(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        """p is the probability that an element is dropped; `inplace` has no effect."""
        if not 0 <= p <= 1:
            raise UsageError(f"{type(self).__name__}: p is {p}, has to lie in [0, 1]")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        """x -> the same shape."""
        return type(self).function(input, self.p, _trains(self))

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class Dropout(_Dropout):
    """In training sets elements to 0 with probability p and scales the others by 1/(1-p) (Srivastava et al., 2014)."""

    function = F.dropout


class Dropout1d(_Dropout):
    """As Dropout, of whole channels of x(N,C,L)."""

    function = F.dropout1d


class Dropout2d(_Dropout):
    """As Dropout, of whole channels of x(N,C,H,W) (Tompson et al., 2015)."""

    function = F.dropout2d


class Dropout3d(_Dropout):
    """As Dropout, of whole channels of x(N,C,D,H,W)."""

    function = F.dropout3d


class AlphaDropout(_Dropout):
    """In training sets elements to the lower limit of selu; keeps mean 0 and variance 1 (Klambauer et al., 2017)."""

    function = F.alpha_dropout
