"""Pooling: see the functions of the same names in functional."""

from __future__ import annotations

from .. import functional as F
from ..functional.common import OptionalSize, Size
from .common import _Function


class _MaxPool(_Function):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        """The stride is by default the kernel's size."""
        stride = kernel_size if stride is None else stride
        window = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
        self._set(**window, dilation=dilation, ceil_mode=ceil_mode)


class MaxPool1d(_MaxPool):
    """The maximum of each window of x(N,C,L)."""

    function = F.max_pool1d


class MaxPool2d(_MaxPool):
    """The maximum of each window of x(N,C,H,W)."""

    function = F.max_pool2d


class MaxPool3d(_MaxPool):
    """The maximum of each window of x(N,C,D,H,W)."""

    function = F.max_pool3d


class _AvgPool(_Function):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        """The stride is by default the kernel's size; padding counts in the mean if `count_include_pad`."""
        stride = kernel_size if stride is None else stride
        window = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
        self._set(**window, ceil_mode=ceil_mode, count_include_pad=count_include_pad)


class AvgPool1d(_AvgPool):
    """The mean of each window of x(N,C,L)."""

    function = F.avg_pool1d


class AvgPool2d(_AvgPool):
    """The mean of each window of x(N,C,H,W)."""

    function = F.avg_pool2d


class AvgPool3d(_AvgPool):
    """The mean of each window of x(N,C,D,H,W)."""

    function = F.avg_pool3d


class _LPPool(_Function):
    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> None:
        """`norm_type` is p."""
        window = {"norm_type": norm_type, "kernel_size": kernel_size, "stride": stride}
        self._set(**window, ceil_mode=ceil_mode)


class LPPool1d(_LPPool):
    """(sum of |x|^p)^(1/p) of each window of x(N,C,L)."""

    function = F.lp_pool1d


class LPPool2d(_LPPool):
    """(sum of |x|^p)^(1/p) of each window of x(N,C,H,W)."""

    function = F.lp_pool2d


class _AdaptivePool(_Function):
    def __init__(self, output_size: OptionalSize) -> None:
        """None keeps the size of an axis."""
        self._set(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means of windows that cover x(N,C,L)."""

    function = F.adaptive_avg_pool1d


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means of windows that cover x(N,C,H,W)."""

    function = F.adaptive_avg_pool2d


class AdaptiveAvgPool3d(_AdaptivePool):
    """Means of windows that cover x(N,C,D,H,W)."""

    function = F.adaptive_avg_pool3d


class AdaptiveMaxPool1d(_AdaptivePool):
    """Maxima of windows that cover x(N,C,L)."""

    function = F.adaptive_max_pool1d


class AdaptiveMaxPool2d(_AdaptivePool):
    """Maxima of windows that cover x(N,C,H,W)."""

    function = F.adaptive_max_pool2d


class AdaptiveMaxPool3d(_AdaptivePool):
    """Maxima of windows that cover x(N,C,D,H,W)."""

    function = F.adaptive_max_pool3d
