"""Layers as functions, with the names, arguments and meaning of torch.nn.functional.

Shapes are written (N,C,…): N samples of C channels. Unless a function says otherwise, tensors are floating and of one
dtype, and f16 and bf16 are computed in f32 and rounded once. Wrong shapes and options raise UsageError. `inplace` is
accepted for PyTorch's sake and has no effect: a plan reuses memory by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import _core
from ._core import DataError, Tensor, UsageError
from .tensors import call, check_tensors, tensor, where

Size = int | Sequence[int]  # one number for all axes, or one for each
OptionalSize = int | None | Sequence[int | None]


def _ops(name: str, *inputs: Tensor | None, **attributes: Any) -> list[Tensor]:
    """Applies an op; an input that is None is left out."""
    return call(name, [x for x in inputs if x is not None], **attributes)


def _op(name: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
    """The first output of an op."""
    return _ops(name, *inputs, **attributes)[0]


def _each(value: Size, axes: int) -> list[int]:
    if isinstance(value, int):
        return [value] * axes
    sizes = list(value)
    return sizes * axes if len(sizes) == 1 else sizes


def _full(like: Tensor, shape: Sequence[int], value: float) -> Tensor:
    """A tensor of one value, of the dtype and on the device of `like`."""
    return _core.full(list(shape), value, like.dtype).to(like.device)


def _wide(x: Tensor) -> Tensor:
    """x in f32 where it is f16 or bf16: several ops compute there and their result is rounded once."""
    return x.to("f32") if x.dtype in ("f16", "bf16") else x


def _sum(x: Tensor, *axes: int, keepdim: bool = False) -> Tensor:
    return _op("sum", x, axes=list(axes), keepdims=keepdim)


# Linear layers and convolutions


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input(…,in) times the transpose of weight(out,in), plus bias(out) -> (…,out)."""
    return _op("linear", input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1(…,in1), input2(…,in2), weight(out,in1,in2), bias(out) -> (…,out): input1 weight[o] input2 + bias[o]."""
    if weight.ndim != 3 or input1.shape[:-1] != input2.shape[:-1]:
        raise UsageError(
            f"bilinear: takes input1(…,in1), input2(…,in2) and weight(out,in1,in2), "
            f"got {input1.shape}, {input2.shape} and {weight.shape}"
        )
    rows1, rows2 = input1.reshape(-1, input1.shape[-1]), input2.reshape(-1, input2.shape[-1])
    product = _sum(_op("matmul", rows1, weight) * rows2, -1).permute(1, 0)
    y = product.reshape(*input1.shape[:-1], weight.shape[0])
    return y if bias is None else y + bias


def _conv(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
) -> Tensor:
    strides, dilations = _each(stride, axes), _each(dilation, axes)
    if padding == "same":
        if any(step != 1 for step in strides):
            raise UsageError(f"conv{axes}d: padding 'same' keeps the size of the input, but stride is {strides}")
        both = [step * (size - 1) for step, size in zip(dilations, weight.shape[2:], strict=True)]
        pad = [sum_ // 2 for sum_ in both] + [sum_ - sum_ // 2 for sum_ in both]
    elif isinstance(padding, str):
        if padding != "valid":
            raise UsageError(f"conv{axes}d: padding is '{padding}', has to be a size, 'same' or 'valid'")
        pad = [0] * (2 * axes)
    else:
        pad = _each(padding, axes) * 2
    return _op(f"conv{axes}d", input, weight, bias, stride=strides, dilation=dilations, pad=pad, groups=groups)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """input(N,C,L), weight(O,C/groups,k), bias(O) -> (N,O,L'). `padding` is a size, "same" or "valid"."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """input(N,C,H,W), weight(O,C/groups,kh,kw), bias(O) -> (N,O,H',W'). `padding` is a size, "same" or "valid"."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """input(N,C,D,H,W), weight(O,C/groups,kd,kh,kw), bias(O) -> (N,O,D',H',W'). `padding` as of conv2d."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Size,
    padding: Size,
    output_padding: Size,
    groups: int,
    dilation: Size,
) -> Tensor:
    return _op(
        f"conv_transpose{axes}d",
        input,
        weight,
        bias,
        stride=_each(stride, axes),
        dilation=_each(dilation, axes),
        pad=_each(padding, axes) * 2,
        output_padding=_each(output_padding, axes),
        groups=groups,
    )


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """input(N,C,L), weight(C,O/groups,k), bias(O) -> (N,O,L'): the sizes from which conv1d makes those of the input."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """input(N,C,H,W), weight(C,O/groups,kh,kw), bias(O) -> (N,O,H',W')."""
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """input(N,C,D,H,W), weight(C,O/groups,kd,kh,kw), bias(O) -> (N,O,D',H',W')."""
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def unfold(input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> Tensor:
    """input(N,C,H,W) -> (N,C*kh*kw,windows): the elements of each window as a column."""
    check_tensors("unfold", input)
    channels, (height, width) = input.shape[1], _each(kernel_size, 2)
    places = height * width
    one = _op("one_hot", _op("iota", n=places), classes=places, dtype=input.dtype).to(input.device)
    weight = one.reshape(1, places, height, width).expand(channels, places, height, width)
    weight = weight.reshape(channels * places, 1, height, width)
    columns = conv2d(input, weight, None, stride, padding, dilation, groups=channels)
    return columns.reshape(input.shape[0], channels * places, -1)


# Pooling


def _pool(
    kind: str, axes: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size, **more: Any
) -> Tensor:
    kernel = _each(kernel_size, axes)
    steps = kernel if stride is None else _each(stride, axes)
    return _op(f"{kind}{axes}d", input, kernel=kernel, stride=steps, pad=_each(padding, axes) * 2, **more)


def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """input(N,C,L) -> (N,C,L'): the maximum of each window. The stride is by default the kernel's size."""
    return _pool("max_pool", 1, input, kernel_size, stride, padding, dilation=_each(dilation, 1), ceil_mode=ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """input(N,C,H,W) -> (N,C,H',W'): as max_pool1d."""
    return _pool("max_pool", 2, input, kernel_size, stride, padding, dilation=_each(dilation, 2), ceil_mode=ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """input(N,C,D,H,W) -> (N,C,D',H',W'): as max_pool1d."""
    return _pool("max_pool", 3, input, kernel_size, stride, padding, dilation=_each(dilation, 3), ceil_mode=ceil_mode)


def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """input(N,C,L) -> (N,C,L'): the mean of each window, in which padding counts if `count_include_pad`."""
    more = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _pool("avg_pool", 1, input, kernel_size, stride, padding, **more)


def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """input(N,C,H,W) -> (N,C,H',W'): as avg_pool1d."""
    more = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _pool("avg_pool", 2, input, kernel_size, stride, padding, **more)


def avg_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """input(N,C,D,H,W) -> (N,C,D',H',W'): as avg_pool1d."""
    more = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _pool("avg_pool", 3, input, kernel_size, stride, padding, **more)


def _lp_pool(
    axes: int, input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool
) -> Tensor:
    kernel = _each(kernel_size, axes)
    steps = kernel if stride is None else _each(stride, axes)
    return _op(f"lp_pool{axes}d", input, norm_type=float(norm_type), kernel=kernel, stride=steps, ceil_mode=ceil_mode)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """input(N,C,L) -> (N,C,L'): (sum of |x|^p)^(1/p) of each window. PyTorch has no absolute value for an odd p."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """input(N,C,H,W) -> (N,C,H',W'): as lp_pool1d."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def _adaptive_pool(kind: str, axes: int, input: Tensor, output_size: OptionalSize) -> Tensor:
    sizes = [output_size] * axes if output_size is None or isinstance(output_size, int) else list(output_size)
    return _op(f"adaptive_{kind}_pool{axes}d", input, output=[size or 0 for size in sizes])


def adaptive_avg_pool1d(input: Tensor, output_size: OptionalSize) -> Tensor:
    """input(N,C,L) -> (N,C,output): means of windows that cover the input. None keeps the size of an axis."""
    return _adaptive_pool("avg", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: OptionalSize) -> Tensor:
    """input(N,C,H,W) -> (N,C,output): as adaptive_avg_pool1d."""
    return _adaptive_pool("avg", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: OptionalSize) -> Tensor:
    """input(N,C,D,H,W) -> (N,C,output): as adaptive_avg_pool1d."""
    return _adaptive_pool("avg", 3, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: OptionalSize) -> Tensor:
    """input(N,C,L) -> (N,C,output): maxima of windows that cover the input. None keeps the size of an axis."""
    return _adaptive_pool("max", 1, input, output_size)


def adaptive_max_pool2d(input: Tensor, output_size: OptionalSize) -> Tensor:
    """input(N,C,H,W) -> (N,C,output): as adaptive_max_pool1d."""
    return _adaptive_pool("max", 2, input, output_size)


def adaptive_max_pool3d(input: Tensor, output_size: OptionalSize) -> Tensor:
    """input(N,C,D,H,W) -> (N,C,output): as adaptive_max_pool1d."""
    return _adaptive_pool("max", 3, input, output_size)


# Normalization. Weight, bias and running statistics share one dtype, which may differ from the input's.


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


# Activations, element by element


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


# Dropout: where `training`, draws anew at every call and at every replay of a trace; else gives the input


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


# Tables of embeddings, padding, resampling


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """weight(n,d), input (…) of i64 or i32 -> (…,d): a row for each index. Row `padding_idx` gets no gradient.

    Raises DataError for an index outside of 0 … n-1; in a trace, whose values are not known yet, -n … -1 count from
    the back.
    """
    check_tensors("embedding", input, weight)
    if not _core.tracing() and math.prod(input.shape) > 0:
        for index in (input.min().item(), input.max().item()):
            if not 0 <= index < weight.shape[0]:
                raise DataError(f"embedding: an index is {index}, which is not in [0,{weight.shape[0]})")
    if padding_idx is None:
        return _op("gather", weight, input, axis=0)
    row = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
    if not 0 <= row < weight.shape[0]:
        raise UsageError(f"embedding: padding_idx {padding_idx} names no row of the weight {weight.shape}")
    return _op("embedding", weight, input, padding_idx=row)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Class numbers (…), i64 or i32 -> i64 (…,num_classes): 1 at the class; -1 takes the largest number plus 1."""
    classes = int(tensor.max().item()) + 1 if num_classes == -1 else num_classes
    return _op("one_hot", tensor, classes=classes, dtype="i64")


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Surrounds the input: `pad` has a begin and an end of the last axis, then of the one before; a negative one crops.

    Modes are "constant", with `value` or 0, "reflect", "replicate" and "circular".
    """
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise UsageError(f"pad: takes two numbers for each padded axis of {input.shape}, got {list(pad)}")
    rest = [0] * (input.ndim - len(pad) // 2)
    pads = [*rest, *pad[-2::-2], *rest, *pad[::-2]]
    if mode == "constant":
        return _op("pad", input, pads=pads, value=float(value or 0))
    return _op("border_pad", input, pads=pads, mode=mode)


def interpolate(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """Resamples input(N,C,L) or (N,C,H,W) to a size, or by a factor.

    Modes are "nearest", "nearest-exact", "linear" of (N,C,L), "bilinear" and "bicubic" of (N,C,H,W).
    `recompute_scale_factor` takes the factor from the rounded size.
    """
    axes = input.ndim - 2
    factors = (
        [] if scale_factor is None else [scale_factor] if isinstance(scale_factor, (int, float)) else [*scale_factor]
    )
    sizes = [] if size is None else _each(size, axes)
    if recompute_scale_factor and factors:
        factors = factors * axes if len(factors) == 1 else factors
        sizes, factors = [math.floor(n * factor) for n, factor in zip(input.shape[2:], factors, strict=True)], []
    return _op(
        "interpolate",
        input,
        size=sizes,
        scale_factor=[float(factor) for factor in factors],
        mode=mode,
        align_corners=bool(align_corners),
    )


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """input(N,C,H,W) at the places grid(N,H',W',2), (x, y) in [-1,1] -> (N,C,H',W'); also of volumes. Has no gradient.

    Modes are "bilinear", "nearest" and "bicubic"; beyond the image are "zeros", its "border" or its "reflection"
    (Jaderberg et al., 2015).
    """
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    if mode not in modes:
        raise UsageError(f"grid_sample: mode is '{mode}', has to be one of {', '.join(modes)}")
    if mode == "bicubic" and padding_mode == "border":  # PyTorch limits each element of a window, the op its place
        sizes = input.shape[:1:-1]
        factors = tensor([(n - 1) / (n + 3) if align_corners else n / (n + 4) for n in sizes])
        input, grid = pad(input, [2] * (2 * len(sizes)), "replicate"), grid * factors.to(grid.dtype).to(grid.device)
    return _op("grid_sample", input, grid, mode=modes[mode], padding=padding_mode, align_corners=bool(align_corners))


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """input(N,C*r*r,H,W) -> (N,C,H*r,W*r), r being the factor (Shi et al., 2016)."""
    check_tensors("pixel_shuffle", input)
    r = upscale_factor
    if r < 1:
        raise UsageError(f"pixel_shuffle: the factor is {r}, has to be 1 or more")
    if input.ndim != 4 or input.shape[1] % (r * r):
        raise UsageError(f"pixel_shuffle: takes (N,C,H,W) with C a multiple of {r * r}, got {input.shape}")
    n, c, h, w = input.shape
    return input.reshape(n, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // (r * r), h * r, w * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """input(N,C,H*r,W*r) -> (N,C*r*r,H,W): the inverse of pixel_shuffle."""
    check_tensors("pixel_unshuffle", input)
    r = downscale_factor
    if r < 1:
        raise UsageError(f"pixel_unshuffle: the factor is {r}, has to be 1 or more")
    if input.ndim != 4 or input.shape[2] % r or input.shape[3] % r:
        raise UsageError(f"pixel_unshuffle: takes (N,C,H,W) with H and W multiples of {r}, got {input.shape}")
    n, c, h, w = input.shape
    return input.reshape(n, c, h // r, r, w // r, r).permute(0, 1, 3, 5, 2, 4).reshape(n, c * r * r, h // r, w // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of (N,C,…), read as (groups, C/groups), in the order of (C/groups, groups) (Zhang et al., 2018)."""
    check_tensors("channel_shuffle", input)
    if groups < 1:
        raise UsageError(f"channel_shuffle: groups is {groups}, has to be 1 or more")
    if input.ndim < 2 or input.shape[1] % groups:
        raise UsageError(f"channel_shuffle: takes (N,C,…) with C a multiple of {groups}, got {input.shape}")
    apart = input.reshape(input.shape[0], groups, input.shape[1] // groups, -1)
    return apart.permute(0, 2, 1, 3).reshape(*input.shape)


# Attention and similarities


def _attention(
    op: str, inputs: list[Tensor], features: int, attn_mask: Tensor | None, dropout_p: float, **attributes: Any
) -> Tensor:
    """An op of attention, with a mask and dropout where there are."""
    if features < 1:
        raise UsageError(f"{op}: the queries have no features, at least 1 is needed")
    attributes.setdefault("scale", 1 / math.sqrt(features))
    if dropout_p == 0:
        return _op(op, *inputs, attn_mask, **attributes)
    key, ordinal = _core.random_key()
    return _op(op, *inputs, attn_mask, key, dropout_p=float(dropout_p), ordinal=ordinal, **attributes)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale * query key^T) value: query(N,H,L,E), key(N,H,S,E), value(N,H,S,V) -> (N,H,L,V), or all without H.

    attn_mask broadcasts to (N,H,L,S): bool, True where a query sees a key, or floating and added to the products.
    `scale` is 1/sqrt(E) by default. `is_causal`: query i sees the keys 0 … i. Keys and values of fewer heads, with
    `enable_gqa`, serve neighbouring heads of the query (Vaswani et al., 2017; Ainslie et al., 2023).
    """
    check_tensors("scaled_dot_product_attention", query, key, value)
    if query.ndim == 3:
        if attn_mask is not None and attn_mask.ndim == 3:
            attn_mask = attn_mask.unsqueeze(1)
        q, k, v = (x.unsqueeze(1) for x in (query, key, value))
        return scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal, scale).squeeze(1)
    if not enable_gqa and query.shape[:-2] != key.shape[:-2]:
        raise UsageError(
            f"scaled_dot_product_attention: query {query.shape} and key {key.shape} differ in samples or heads; "
            "give enable_gqa=True where heads share keys"
        )
    more = {"is_causal": is_causal} if scale is None else {"is_causal": is_causal, "scale": float(scale)}
    return _attention(
        "scaled_dot_product_attention", [query, key, value], query.shape[-1], attn_mask, dropout_p, **more
    )


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`."""
    check_tensors("cosine_similarity", x1, x2)
    a, b = _wide(x1), _wide(x2)
    return _sum(normalize(a, 2, dim, eps) * normalize(b, 2, dim, eps), dim).to(x1.dtype)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    check_tensors("pairwise_distance", x1, x2)
    return _norm(_wide(x1) - _wide(x2) + eps, p, -1, keepdim).to(x1.dtype)


# Losses. `reduction` is "mean", "sum" or "none"; without "none" they give a scalar


def _reduced(losses: Tensor, reduction: str, dtype: str) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"reduction is '{reduction}', has to be mean, sum or none")
    return (losses if reduction == "none" else _op(reduction, losses, axes=[])).to(dtype)


def _check_alike(loss: str, input: Tensor, target: Tensor) -> None:
    check_tensors(loss, input, target)
    if input.shape != target.shape:
        raise UsageError(f"{loss}: {input.shape} and {target.shape} differ; this loss does not broadcast")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target]: logits (N,C,…), class numbers (N,…), weight(C) of the classes.

    The mean is over the weights of the targets; targets of `ignore_index` count nothing. `label_smoothing` spreads
    this share of the target evenly over the classes. A floating target (N,C,…) holds probabilities of the classes;
    then the mean is over the places.
    """
    check_tensors("cross_entropy", input, target)
    if not _core.is_floating(target.dtype):
        more = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": float(label_smoothing)}
        return _op("cross_entropy", input, target.to("i64"), weight, **more)
    _check_alike("cross_entropy", input, target)
    log_probs = log_softmax(_wide(input), 1)
    share, classes = target.to(log_probs.dtype), input.shape[1]
    if label_smoothing > 0:
        share = share * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    if weight is not None:
        share = share * weight.to(share.dtype).reshape(classes, *[1] * (input.ndim - 2))
    return _reduced(-_sum(share * log_probs, 1), reduction, input.dtype)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input[target]: log probabilities (N,C,…), class numbers (N,…), weight(C)."""
    check_tensors("nll_loss", input, target)
    x, classes = _wide(input), input.shape[1]
    target = target.to("i64")
    counts = target != ignore_index
    label = where(counts, target, 0)
    hit = _op("one_hot", label, classes=classes, dtype="bool")
    hit = hit.permute(0, hit.ndim - 1, *range(1, hit.ndim - 1))
    weights = counts.to(x.dtype)
    if weight is not None:
        weights = weights * _op("gather", weight.to(x.dtype), label, axis=0)
    losses = where(counts, -_sum(where(hit, x, 0.0), 1) * weights, 0.0)
    if reduction == "mean":
        return (_sum(losses) / _sum(weights)).to(input.dtype)
    return _reduced(losses, reduction, input.dtype)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-weight (y log p + (1 - y) log(1 - p)): probabilities p and target y of one shape; weight broadcasts to it.

    Logarithms stop at -100, and the gradient divides by at least 1e-12. What comes from a sigmoid is better given to
    binary_cross_entropy_with_logits: near 1, p itself is coarse.
    """
    _check_alike("binary_cross_entropy", input, target)
    p, y = _wide(input), _wide(target)
    fixed = p.detach()
    below = 1 - fixed
    tiny = below == 1.0
    # log(1 - p) exact for small p: the rounding of 1 - p cancels in the quotient (Kahan).
    log_below = where(tiny, -fixed, _op("log", below) * fixed / where(tiny, 1.0, 1 - below))
    yes, no = (_op("clamp", log, low=-100.0, high=math.inf) for log in (_op("log", fixed), log_below))
    slope = (p - y).detach() / _op("clamp", fixed * below, low=1e-12, high=math.inf)
    losses = slope * (p - fixed) - (y * yes + (1 - y) * no)  # the first term is 0 and carries the gradient
    return _reduced(losses if weight is None else losses * weight.to(p.dtype), reduction, input.dtype)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-weight (pos_weight y log p + (1 - y) log(1 - p)) with p = sigmoid(input); the weights broadcast to the input."""
    if weight is None:
        return _op("binary_cross_entropy", input, target, pos_weight, reduction=reduction)
    losses = _op("binary_cross_entropy", input, target, pos_weight, reduction="none")
    return _reduced(losses * weight, reduction, input.dtype)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(x - y)^2"""
    return _op("mse_loss", input, target, reduction=reduction)


def _distance(loss: str, input: Tensor, target: Tensor) -> Tensor:
    _check_alike(loss, input, target)
    return _op("abs", _wide(input) - _wide(target))


def _huber(d: Tensor, delta: float, scale: float) -> Tensor:
    """Huber's loss times `scale`; nothing is squared beyond delta, so nothing overflows there."""
    near = _op("clamp", d, low=0.0, high=float(delta))
    return near * scale * (d - near * 0.5)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """|x - y|"""
    return _reduced(_distance("l1_loss", input, target), reduction, input.dtype)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |x - y| is below beta, else d - beta / 2 (Girshick, 2015)."""
    if beta < 0:
        raise UsageError(f"smooth_l1_loss: beta is {beta}, but must not be negative")
    d = _distance("smooth_l1_loss", input, target)
    return _reduced(d if beta == 0 else _huber(d, beta, 1 / beta), reduction, input.dtype)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d^2 / 2 where d = |x - y| is below delta, else delta (d - delta / 2) (Huber, 1964)."""
    if delta <= 0:
        raise UsageError(f"huber_loss: delta is {delta}, but has to be positive")
    return _reduced(_huber(_distance("huber_loss", input, target), delta, 1.0), reduction, input.dtype)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log target - input), input being log probabilities, where 0 log 0 is 0.

    `reduction` may also be "batchmean": the sum divided by the first size.
    """
    _check_alike("kl_div", input, target)
    x, y = _wide(input), _wide(target)
    losses = _op("exp", y) * (y - x) if log_target else y * (_op("log", where(y > 0.0, y, 1.0)) - x)
    if reduction == "batchmean":
        return (_sum(losses) / input.shape[0]).to(input.dtype)
    return _reduced(losses, reduction, input.dtype)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """e^x - target x, or without `log_input` x - target log(x + eps), of a Poisson distribution.

    `full` adds Stirling's approximation of log(target!) where the target is above 1.
    """
    check_tensors("poisson_nll_loss", input, target)
    x, y = _wide(input), _wide(target)
    losses = _op("exp", x) - y * x if log_input else x - y * _op("log", x + eps)
    if full:
        some = where(y > 1.0, y, 1.0)
        stirling = some * _op("log", some) - some + _op("log", some * (2 * math.pi)) * 0.5
        losses = losses + where(y > 1.0, stirling, 0.0)
    return _reduced(losses, reduction, input.dtype)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (x - target)^2 / var) / 2, of a normal distribution of mean x (Nix and Weigend, 1994).

    var is of the input's shape, or with a size of 1 or without the last axis. A smaller one counts as `eps`, and keeps
    its gradient. `full` adds log(2 pi) / 2.
    """
    check_tensors("gaussian_nll_loss", input, target, var)
    x, y, v = _wide(input), _wide(target), _wide(var)
    if v.ndim == x.ndim - 1:
        v = v.unsqueeze(-1)
    v = v + (_op("clamp", v, low=float(eps), high=math.inf) - v).detach()
    losses = (_op("log", v) + _op("square", x - y) / v) * 0.5
    return _reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction, input.dtype)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + e^(-target x)), the target 1 or -1."""
    check_tensors("soft_margin_loss", input, target)
    x = _wide(input)
    return _reduced(_op("softplus", -(target.to(x.dtype) * x)), reduction, input.dtype)


def _by_sign(target: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """`positive` where the target is 1, `negative` where it is -1, 0 where it is neither."""
    return where(target == 1.0, positive, 0.0) + where(target == -1.0, negative, 0.0)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1: x is a distance."""
    check_tensors("hinge_embedding_loss", input, target)
    x = _wide(input)
    return _reduced(_by_sign(target.to(x.dtype), x, relu(margin - x)), reduction, input.dtype)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target (x1 - x2)): x1 should be the larger where the target is 1, x2 where it is -1."""
    check_tensors("margin_ranking_loss", input1, input2, target)
    lead = _wide(input1) - _wide(input2)
    return _reduced(relu(margin - target.to(lead.dtype) * lead), reduction, input1.dtype)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1: inputs (…,D), target (…)."""
    check_tensors("cosine_embedding_loss", input1, input2, target)
    a, b = _wide(input1), _wide(input2)
    squares = [_sum(_op("square", x), -1) + 1e-12 for x in (a, b)]  # PyTorch's summand: a vector of zeros has cosine 0
    cosine = _sum(a * b, -1) / _op("sqrt", squares[0] * squares[1])
    losses = _by_sign(target.to(a.dtype), 1 - cosine, relu(cosine - margin))
    return _reduced(losses, reduction, input1.dtype)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin) in the p-norm: (…,D) each (Schroff et al., 2015).

    `swap` compares the negative with the positive where that is nearer to it (Balntas et al., 2016).
    """
    check_tensors("triplet_margin_loss", anchor, positive, negative)
    a, near, far = _wide(anchor), _wide(positive), _wide(negative)
    away = pairwise_distance(a, far, p, eps)
    if swap:
        away = _op("minimum", away, pairwise_distance(near, far, p, eps))
    return _reduced(relu(pairwise_distance(a, near, p, eps) - away + margin), reduction, anchor.dtype)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that log_probs(T,N,C) spell the targets, whole numbers (N,S) or one after the other.

    Lengths are (N). The mean is over the losses divided by their target lengths. `zero_infinity` makes 0 of the loss
    of a target that is too long for its input (Graves et al., 2006).
    """
    check_tensors("ctc_loss", log_probs)
    whole = (targets, input_lengths, target_lengths)
    inputs = [(x if isinstance(x, Tensor) else tensor(x)).to("i64").to(log_probs.device) for x in whole]
    losses = _op("ctc_loss", _wide(log_probs), *inputs, blank=blank, zero_infinity=zero_infinity)
    if reduction == "mean":
        losses = losses / _op("clamp", inputs[2], low=1.0, high=math.inf).to(losses.dtype)
    return _reduced(losses, reduction, log_probs.dtype)
