"""Normalization. Weight, bias and running statistics share one dtype, which may differ from the input's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core import Tensor, UsageError
from ..tensors import check_tensors, where
from .common import Size, _each, _full, _op, _ops, _sum, _wide


def _affine(input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """The weight and the bias, ones and zeros where there is none."""
    like = weight if weight is not None else bias if bias is not None else input
    return (
        _full(like, shape, 1.0) if weight is None else weight,
        _full(like, shape, 0.0) if bias is None else bias,
    )


def _move(running: Tensor, batch: Tensor, momentum: float) -> None:
    running.assign(running * (1 - momentum) + batch.to(running.dtype) * momentum)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias of each channel of input(N,C,…); the other tensors are (C).

    `training` takes mean and variance of the batch, and moves the running ones, where there are any, towards the mean
    and the unbiased variance; without it the running ones are used (Ioffe and Szegedy, 2015).
    """
    check_tensors("batch_norm", input)
    if input.ndim < 2:
        raise UsageError(f"batch_norm: takes an input (N,C,…), got {input.shape}")
    if (running_mean is None) != (running_var is None) or (running_mean is None and not training):
        raise UsageError("batch_norm: running mean and variance are given together; only training does without them")
    channels = input.shape[1]
    like = input if running_mean is None else running_mean
    scale, shift = _affine(like, (channels,), weight, bias)
    if not training:
        return _op("batch_norm", input, scale, shift, running_mean, running_var, eps=eps)
    count = math.prod(input.shape) // max(channels, 1)
    if count < 2:
        raise UsageError(
            f"batch_norm: input {input.shape} has {'one value' if count else 'no values'} per channel, training needs "
            "more: use a larger batch or drop the last, smaller one"
        )
    y, mean, var = _ops("batch_norm_train", input, scale, shift, eps=eps)
    if running_mean is not None and running_var is not None:
        _move(running_mean, mean, momentum)
        _move(running_var, var * (count / (count - 1)), momentum)
    return y


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """As batch_norm, but each channel of each sample of input(N,C,…) by its own mean and variance.

    With `use_input_stats` running statistics move towards the means over the batch of those of the samples; without
    it they are used (Ulyanov et al., 2016).
    """
    check_tensors("instance_norm", input)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if input.ndim < 3 or math.prod(input.shape[2:]) < 2:
        raise UsageError(f"instance_norm: takes an input (N,C,…) with several values a channel, got {input.shape}")
    scale, shift = _affine(input, (input.shape[1],), weight, bias)
    if running_mean is not None and running_var is not None:
        count = math.prod(input.shape[2:])
        axes = list(range(2, input.ndim))
        x = input.to(running_mean.dtype)
        mean = _op("mean", x, axes=axes, keepdims=True)
        _move(running_mean, _op("mean", mean, axes=[0, *axes]), momentum)
        var = _op("mean", _op("square", x - mean), axes=[0, *axes])
        _move(running_var, var * (count / (count - 1)), momentum)
    return _op("instance_norm", input, scale, shift, eps=eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Size,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalizes over the last axes, of sizes `normalized_shape`, as are those of weight and bias (Ba et al., 2016)."""
    check_tensors("layer_norm", input)
    scale, shift = _affine(input, _each(normalized_shape, 1), weight, bias)
    return _op("layer_norm", input, scale, shift, eps=eps)


def rms_norm(input: Tensor, normalized_shape: Size, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """input / sqrt(mean of squares + eps) * weight over the last axes (Zhang and Sennrich, 2019); eps is 2^-23."""
    check_tensors("rms_norm", input)
    scale = _full(input, _each(normalized_shape, 1), 1.0) if weight is None else weight
    return _op("rms_norm", input, scale, eps=2.0**-23 if eps is None else eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalizes the channels of each sample of (N,C,…) in groups; weight(C), bias(C) (Wu and He, 2018)."""
    check_tensors("group_norm", input)
    scale, shift = _affine(input, (input.shape[1],), weight, bias)
    return _op("group_norm", input, scale, shift, groups=num_groups, eps=eps)


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """input / (k + alpha * mean of squares)^beta, the mean over `size` channels (Krizhevsky et al., 2012)."""
    planes = input if input.ndim == 4 else input.reshape(*input.shape[:2], -1, 1)
    y = _op("local_response_norm", planes, size=size, alpha=float(alpha), beta=float(beta), k=float(k))
    return y.reshape(*input.shape)


def _norm(x: Tensor, p: float, dim: int, keepdim: bool) -> Tensor:
    """(sum of |x|^p)^(1/p) along an axis. The gradient at a norm of 0 is 0, where that of a root is infinite."""
    if p in (0, -math.inf):
        raise UsageError(f"norm: p is {p}, which names no norm here; use 1, 2, math.inf or another finite number")
    size = _op("abs", x)
    if p == math.inf:
        return _op("reduce_max", size, axes=[dim], keepdims=keepdim)
    if p == 1:
        return _sum(size, dim, keepdim=keepdim)
    powers = _sum(_op("square", x) if p == 2 else size**p, dim, keepdim=keepdim)
    none = powers == 0
    safe = where(none, 1.0, powers)
    return where(none, 0.0, _op("sqrt", safe) if p == 2 else safe ** (1 / p))


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """input divided by its p-norm along `dim`, or by `eps` where the norm is less."""
    check_tensors("normalize", input)
    x = _wide(input)
    return (x / _op("clamp", _norm(x, p, dim, True), low=eps, high=math.inf)).to(input.dtype)
