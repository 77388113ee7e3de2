"""Dropout: where `training`, draws anew at every call and at every replay of a trace; else gives the input."""

from __future__ import annotations

import math

from .. import _core
from .._core import Tensor, UsageError
from ..tensors import check_tensors, where
from .common import _full, _op, _wide


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Sets each element to 0 with probability p and scales the others by 1/(1-p) (Srivastava et al., 2014)."""
    check_tensors("dropout", input)
    if not training or p == 0:
        return input
    key, ordinal = _core.random_key()
    return _op("dropout", input, key, p=float(p), ordinal=ordinal)


def _channel_dropout(axes: int, input: Tensor, p: float, training: bool) -> Tensor:
    check_tensors(f"dropout{axes}d", input)
    if input.ndim != axes + 2:
        raise UsageError(f"dropout{axes}d: takes x(N,C,…) of {axes + 2} axes, got {input.shape}")
    if not training or p == 0:
        return input
    return input * dropout(_full(input, (*input.shape[:2], *[1] * axes), 1.0), p)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As dropout, of whole channels of input(N,C,L)."""
    return _channel_dropout(1, input, p, training)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As dropout, of whole channels of input(N,C,H,W) (Tompson et al., 2015)."""
    return _channel_dropout(2, input, p, training)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """As dropout, of whole channels of input(N,C,D,H,W)."""
    return _channel_dropout(3, input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Sets elements to the lower limit of selu; keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    check_tensors("alpha_dropout", input)
    if not training or p == 0:
        return input
    if not 0 <= p < 1:
        raise UsageError(f"alpha_dropout: p is {p}, has to lie in [0, 1): no scale keeps the variance of nothing")
    limit = -1.7580993408473766  # -alpha * scale of selu
    x = _wide(input)
    stays = dropout(_full(x, x.shape, 1.0), p) > 0.0
    scale = 1 / math.sqrt((1 - p) * (1 + p * limit * limit))
    return (where(stays, x, limit) * scale - scale * p * limit).to(input.dtype)
