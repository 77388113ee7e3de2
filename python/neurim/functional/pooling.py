"""Pooling."""

from __future__ import annotations

from typing import Any

from .._core import Tensor
from .common import OptionalSize, Size, _each, _op


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
