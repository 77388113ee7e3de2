"""Linear layers and convolutions."""

from __future__ import annotations

import math

from .. import functional as F
from .._core import Tensor, UsageError
from ..functional.common import Size, _each
from ..functional.convolution import _conv, _conv_transpose
from ..module import Module
from ..tensors.common import _integral
from .common import _by_fan_in, _Function


class Linear(Module):
    """x(…,in) times the transpose of weight(out,in), plus bias(out) -> (…,out)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        """`bias` adds a bias."""
        self.in_features, self.out_features = in_features, out_features
        self.weight: Tensor = _by_fan_in((out_features, in_features), in_features)
        self.bias: Tensor | None = _by_fan_in((out_features,), in_features) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        """x(…,in) -> (…,out)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1(…,in1), x2(…,in2) -> (…,out): x1 weight[o] x2 + bias[o]; weight(out,in1,in2), bias(out)."""

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        """`bias` adds a bias."""
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight: Tensor = _by_fan_in((out_features, in1_features, in2_features), in1_features)
        self.bias: Tensor | None = _by_fan_in((out_features,), in1_features) if bias else None

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """x1(…,in1), x2(…,in2) -> (…,out)."""
        return F.bilinear(input1, input2, self.weight, self.bias)


class _ConvBase(Module):
    """What convolutions and transposed ones share."""

    axes: int
    transposed = False

    def _set(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        dilation: Size,
        groups: int,
        bias: bool,
    ) -> None:
        if isinstance(padding, str) and (padding not in ("same", "valid") or self.transposed):
            known = "a size" if self.transposed else "a size, 'same' or 'valid'"
            raise UsageError(f"{type(self).__name__}: padding is '{padding}', has to be {known}")
        in_channels, out_channels = _integral(in_channels, "in_channels"), _integral(out_channels, "out_channels")
        groups = _integral(groups, "groups")
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise UsageError(
                f"{type(self).__name__}: {in_channels} and {out_channels} channels do not divide into {groups} groups"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = tuple(_each(kernel_size, self.axes)), tuple(_each(stride, self.axes))
        self.padding = padding if isinstance(padding, str) else tuple(_each(padding, self.axes))
        self.dilation = tuple(_each(dilation, self.axes))
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])
        self.weight: Tensor = _by_fan_in(shape, fan_in)
        self.bias: Tensor | None = _by_fan_in((out_channels,), fan_in) if bias else None

    def extra_repr(self) -> str:
        """The options that are not the default."""
        said = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        zeros, ones = (0,) * self.axes, (1,) * self.axes
        for name, default in (("padding", zeros), ("output_padding", zeros), ("dilation", ones), ("groups", 1)):
            if (value := getattr(self, name, default)) != default:
                said.append(f"{name}={value!r}")
        if self.bias is None:
            said.append("bias=False")
        return ", ".join(said)


class _Conv(_ConvBase):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        """`padding` is a size, "same" or "valid"; `padding_mode` "zeros", "reflect", "replicate" or "circular"."""
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise UsageError(f"{type(self).__name__}: padding_mode '{padding_mode}' is not known")
        self._set(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.padding_mode = padding_mode

    def forward(self, input: Tensor) -> Tensor:
        """x(N,in_channels,…) -> (N,out_channels,…)."""
        padding: Size | str = self.padding
        if self.padding_mode != "zeros" and padding != "valid":
            input, padding = F.pad(input, self._pads(), self.padding_mode), 0
        return _conv(self.axes, input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _pads(self) -> list[int]:
        """The padding as F.pad takes it."""
        pads: list[int] = []
        for axis in reversed(range(self.axes)):
            both = self.dilation[axis] * (self.kernel_size[axis] - 1)
            pads += [both // 2, both - both // 2] if isinstance(self.padding, str) else [self.padding[axis]] * 2
        return pads


class Conv1d(_Conv):
    """Convolution of x(N,in_channels,L); weight(out_channels,in_channels/groups,k), bias(out_channels)."""

    axes = 1


class Conv2d(_Conv):
    """Convolution of x(N,in_channels,H,W); weight(out_channels,in_channels/groups,kh,kw), bias(out_channels)."""

    axes = 2


class Conv3d(_Conv):
    """Convolution of x(N,in_channels,D,H,W); weight(out_channels,in_channels/groups,kd,kh,kw), bias(out_channels)."""

    axes = 3


class _ConvTranspose(_ConvBase):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
    ) -> None:
        """The options are those of the convolution of which this is the data gradient."""
        self._set(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
        self.output_padding = tuple(_each(output_padding, self.axes))

    def forward(self, input: Tensor) -> Tensor:
        """x(N,in_channels,…) -> (N,out_channels,…)."""
        assert not isinstance(self.padding, str)
        return _conv_transpose(
            self.axes,
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.output_padding,
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of x(N,in_channels,L); weight(in_channels,out_channels/groups,k), bias(out_channels)."""

    axes = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of x(N,in_channels,H,W); weight(in_channels,out_channels/groups,kh,kw)."""

    axes = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of x(N,in_channels,D,H,W); weight(in_channels,out_channels/groups,kd,kh,kw)."""

    axes = 3


class Unfold(_Function):
    """x(N,C,H,W) -> (N,C*kh*kw,windows): see functional.unfold."""

    function = F.unfold

    def __init__(self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> None:
        """Options as of Conv2d."""
        self._set(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
