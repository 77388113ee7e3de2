"""Linear layers and convolutions."""

from __future__ import annotations

from .._core import Tensor, UsageError
from ..tensors import check_tensors
from .common import Size, _each, _op, _sum


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
