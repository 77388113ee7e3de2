"""Layers with the names, options, defaults and first values of torch.nn; weights exchange by state_dict.

Shapes are written (N,C,…): N samples of C channels. New parameters are f32 and drawn as PyTorch draws them; nm.seed
makes them repeatable. Wrong options and shapes raise UsageError. Layers that behave differently in training do so where
`training` is True and the code runs in a trace for training: see Module.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from . import _core
from . import functional as F
from . import functional as functional
from . import init as init
from ._core import Tensor, UsageError
from .functional import OptionalSize, Size
from .module import Identity as Identity
from .module import Module as Module
from .module import ModuleDict as ModuleDict
from .module import ModuleList as ModuleList
from .module import Parameter as Parameter
from .module import ParameterList as ParameterList
from .module import Sequential as Sequential
from .tensors import check_tensors, where

# So that `import neurim.nn.functional as F` is found, as users of torch.nn.functional write it.
sys.modules[f"{__name__}.functional"] = functional
sys.modules[f"{__name__}.init"] = init


def _parameter(*shape: int) -> Any:
    """A learnt tensor of zeros."""
    return Parameter(_core.full(list(shape), 0.0, "f32"))


def _drawn(draw: Callable[..., Tensor], *shape: int, **options: Any) -> Any:
    """A learnt tensor with values of a function of nn.init."""
    return Parameter(draw(_core.full(list(shape), 0.0, "f32"), **options))


def _by_fan_in(shape: Sequence[int], fan_in: int) -> Any:
    """A learnt tensor drawn as PyTorch draws weights and biases of linear layers and convolutions."""
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return _drawn(init.uniform_, *shape, a=-bound, b=bound)


def _trains(module: Module) -> bool:
    return module.training and _core.training()


class _Function(Module):
    """A layer without tensors: a function with fixed options, which are attributes."""

    function: ClassVar[Callable[..., Tensor]]
    _options: tuple[str, ...] = ()

    def _set(self, **options: Any) -> None:
        self._options = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the function gives."""
        return type(self).function(*inputs, **{name: getattr(self, name) for name in self._options})

    def extra_repr(self) -> str:
        """The options."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._options)


class _Inplace(_Function):
    def __init__(self, inplace: bool = False) -> None:
        """`inplace` has no effect."""


# Linear layers and convolutions


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
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise UsageError(
                f"{type(self).__name__}: {in_channels} and {out_channels} channels do not divide into {groups} groups"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = tuple(F._each(kernel_size, self.axes)), tuple(F._each(stride, self.axes))
        self.padding = padding if isinstance(padding, str) else tuple(F._each(padding, self.axes))
        self.dilation = tuple(F._each(dilation, self.axes))
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
        return F._conv(self.axes, input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

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
        self.output_padding = tuple(F._each(output_padding, self.axes))

    def forward(self, input: Tensor) -> Tensor:
        """x(N,in_channels,…) -> (N,out_channels,…)."""
        assert not isinstance(self.padding, str)
        return F._conv_transpose(
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


# Normalization


class _ChannelNorm(Module):
    """Normalization with a weight, a bias and running statistics for each channel."""

    ranks: tuple[int, ...]  # of the inputs

    def __init__(self, num_features: int, eps: float, momentum: float, affine: bool, track_running_stats: bool) -> None:
        """Makes what the options ask for."""
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight: Tensor | None = _drawn(init.ones_, num_features) if affine else None
        self.bias: Tensor | None = _parameter(num_features) if affine else None
        self.register_buffer("running_mean", _core.full([num_features], 0.0, "f32") if track_running_stats else None)
        self.register_buffer("running_var", _core.full([num_features], 1.0, "f32") if track_running_stats else None)

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            axes = " or ".join(map(str, self.ranks))
            raise UsageError(f"{type(self).__name__}: takes an input of {axes} axes, got {input.shape}")

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        """`momentum` is the share of the new batch in the running statistics."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, input: Tensor) -> Tensor:
        """x(N,num_features,…) -> the same shape."""
        self._check(input)
        batch = _trains(self) or self.running_mean is None
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, batch, self.momentum, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """Normalizes the channels of x(N,C) or (N,C,L) over the batch (Ioffe and Szegedy, 2015)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalizes the channels of x(N,C,H,W) over the batch (Ioffe and Szegedy, 2015)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalizes the channels of x(N,C,D,H,W) over the batch (Ioffe and Szegedy, 2015)."""

    ranks = (5,)


class _InstanceNorm(_ChannelNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        """Running statistics, where there are any, take the place of the sample's outside training."""
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, input: Tensor) -> Tensor:
        """x(N,num_features,…) -> the same shape."""
        self._check(input)
        own = _trains(self) or self.running_mean is None
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, own, self.momentum, self.eps
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalizes each channel of each sample of x(N,C,L) (Ulyanov et al., 2016)."""

    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each sample of x(N,C,H,W) (Ulyanov et al., 2016)."""

    ranks = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Normalizes each channel of each sample of x(N,C,D,H,W) (Ulyanov et al., 2016)."""

    ranks = (5,)


class LayerNorm(Module):
    """Normalizes over the last axes, of sizes `normalized_shape`, as are those of weight and bias (Ba et al., 2016)."""

    def __init__(
        self, normalized_shape: Size, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True
    ) -> None:
        """`elementwise_affine` makes weight and bias, without `bias` a weight alone."""
        self.normalized_shape = tuple(F._each(normalized_shape, 1))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight: Tensor | None = _drawn(init.ones_, *self.normalized_shape) if elementwise_affine else None
        self.bias: Tensor | None = _parameter(*self.normalized_shape) if elementwise_affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        """x(…,normalized_shape) -> the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """Divides by the root of the mean square over the last axes; weight of their sizes (Zhang and Sennrich, 2019)."""

    def __init__(self, normalized_shape: Size, eps: float | None = None, elementwise_affine: bool = True) -> None:
        """`eps` is 2^-23 by default."""
        self.normalized_shape = tuple(F._each(normalized_shape, 1))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight: Tensor | None = _drawn(init.ones_, *self.normalized_shape) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        """x(…,normalized_shape) -> the same shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalizes the channels of each sample in groups; weight(num_channels), bias(num_channels) (Wu and He, 2018)."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        """`affine` makes weight and bias."""
        if num_groups < 1 or num_channels % num_groups:
            raise UsageError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight: Tensor | None = _drawn(init.ones_, num_channels) if affine else None
        self.bias: Tensor | None = _parameter(num_channels) if affine else None

    def forward(self, input: Tensor) -> Tensor:
        """x(N,num_channels,…) -> the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class LocalResponseNorm(_Function):
    """Divides x(N,C,…) by the squares of `size` neighbouring channels (Krizhevsky et al., 2012)."""

    function = F.local_response_norm

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        """See functional.local_response_norm."""
        self._set(size=size, alpha=alpha, beta=beta, k=k)


# Activations: see the functions of the same names in functional


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
        self.weight: Tensor = Parameter(_core.full([num_parameters], init, "f32"))

    def forward(self, input: Tensor) -> Tensor:
        """x(N,C,…) -> the same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.weight.shape[0]}"


# Dropout


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


# Pooling: see the functions of the same names in functional


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


# Shapes, padding, resampling


def _flatten(input: Tensor, start_dim: int, end_dim: int) -> Tensor:
    if input.ndim == 0:
        raise UsageError("flatten: a scalar has no axes")
    start, end = start_dim % input.ndim, end_dim % input.ndim
    shape = input.shape
    return input.reshape(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def _unflatten(input: Tensor, dim: int, unflattened_size: tuple[int, ...]) -> Tensor:
    if input.ndim == 0:
        raise UsageError("unflatten: a scalar has no axes")
    axis, shape = dim % input.ndim, input.shape
    return input.reshape(*shape[:axis], *unflattened_size, *shape[axis + 1 :])


class Flatten(_Function):
    """Joins the axes start_dim … end_dim, both included."""

    function = _flatten

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        """Either may count from the back."""
        self._set(start_dim=start_dim, end_dim=end_dim)


class Unflatten(_Function):
    """Takes one axis apart into several of the given sizes, of which one may be -1."""

    function = _unflatten

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        """`dim` may count from the back."""
        self._set(dim=dim, unflattened_size=tuple(unflattened_size))


class PixelShuffle(_Function):
    """x(N,C*r*r,H,W) -> (N,C,H*r,W*r) (Shi et al., 2016)."""

    function = F.pixel_shuffle

    def __init__(self, upscale_factor: int) -> None:
        """The factor is r."""
        self._set(upscale_factor=upscale_factor)


class PixelUnshuffle(_Function):
    """x(N,C,H*r,W*r) -> (N,C*r*r,H,W)."""

    function = F.pixel_unshuffle

    def __init__(self, downscale_factor: int) -> None:
        """The factor is r."""
        self._set(downscale_factor=downscale_factor)


class ChannelShuffle(_Function):
    """The channels of x(N,C,…), read as (groups, C/groups), in the order of (C/groups, groups)."""

    function = F.channel_shuffle

    def __init__(self, groups: int) -> None:
        """The groups divide the channels."""
        self._set(groups=groups)


class Upsample(_Function):
    """Resamples x(N,C,L) or (N,C,H,W) to a size, or by a factor: see functional.interpolate."""

    function = F.interpolate

    def __init__(
        self,
        size: Size | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        """Takes either a size or a factor."""
        self._set(
            size=size,
            scale_factor=scale_factor,
            mode=mode,
            align_corners=align_corners,
            recompute_scale_factor=recompute_scale_factor,
        )


class _Pad(_Function):
    function = F.pad
    axes: int
    mode: str

    def __init__(self, padding: Size) -> None:
        """One number for all ends, or a begin and an end of the last axis, then of the one before, …."""
        self._set(pad=F._each(padding, 2 * self.axes), mode=self.mode)


class _ConstantPad(_Function):
    function = F.pad
    axes: int

    def __init__(self, padding: Size, value: float) -> None:
        """One number for all ends, or a begin and an end of the last axis, then of the one before, …."""
        self._set(pad=F._each(padding, 2 * self.axes), value=value)


class ConstantPad1d(_ConstantPad):
    """Surrounds x(N,C,L) with a value."""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """Surrounds x(N,C,H,W) with a value."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """Surrounds x(N,C,D,H,W) with a value."""

    axes = 3


class ZeroPad1d(_Pad):
    """Surrounds x(N,C,L) with zeros."""

    axes, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Surrounds x(N,C,H,W) with zeros."""

    axes, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Surrounds x(N,C,D,H,W) with zeros."""

    axes, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """Mirrors x(N,C,L) at its outermost elements."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Mirrors x(N,C,H,W) at its outermost elements."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Mirrors x(N,C,D,H,W) at its outermost elements."""

    axes, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Repeats the outermost elements of x(N,C,L)."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Repeats the outermost elements of x(N,C,H,W)."""

    axes, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Repeats the outermost elements of x(N,C,D,H,W)."""

    axes, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """Goes on at the other end of x(N,C,L)."""

    axes, mode = 1, "circular"


class CircularPad2d(_Pad):
    """Goes on at the other end of x(N,C,H,W)."""

    axes, mode = 2, "circular"


class CircularPad3d(_Pad):
    """Goes on at the other end of x(N,C,D,H,W)."""

    axes, mode = 3, "circular"


class CosineSimilarity(_Function):
    """The cosine of x1 and x2 along `dim`."""

    function = F.cosine_similarity

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        """Norms are at least `eps`."""
        self._set(dim=dim, eps=eps)


class PairwiseDistance(_Function):
    """The p-norm of x1 - x2 along the last axis."""

    function = F.pairwise_distance

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        """`eps` is added to each difference."""
        self._set(p=p, eps=eps, keepdim=keepdim)


class Embedding(Module):
    """Indices (…), i64 or i32 -> rows (…,embedding_dim) of weight(num_embeddings,embedding_dim)."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        """Row `padding_idx`, which may count from the back, is 0 at first and is not learnt."""
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        weight = init.normal_(_core.full([num_embeddings, embedding_dim], 0.0, "f32"))
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise UsageError(f"Embedding: padding_idx {padding_idx} names none of {num_embeddings} rows")
            self.padding_idx = padding_idx % num_embeddings
            row = F._op("iota", n=num_embeddings).reshape(num_embeddings, 1) == self.padding_idx
            weight = where(row, 0.0, weight)
        self.weight: Tensor = Parameter(weight)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """A layer whose weight is the given tensor (n,d), by default frozen."""
        rows, features = embeddings.shape
        layer = cls(rows, features, padding_idx)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def forward(self, input: Tensor) -> Tensor:
        """Indices (…) -> (…,embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


# Recurrent layers


class _Recurrent(Module):
    """What LSTM, GRU and RNN share.

    Weights of layer k: weight_ih_l<k>(G*H,features), weight_hh_l<k>(G*H,H), bias_ih_l<k>(G*H), bias_hh_l<k>(G*H), with
    "_reverse" those of the other direction. The G gates are i, f, g, o of the LSTM and r, z, n of the GRU.
    """

    cell: str
    gates: int

    def _set(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int = 0,
    ) -> None:
        if min(input_size, hidden_size, num_layers) < 1 or not 0 <= proj_size < hidden_size:
            raise UsageError(
                f"{type(self).__name__}: sizes and layers are 1 or more and proj_size is less than hidden_size, got "
                f"{input_size}, {hidden_size}, {num_layers} and {proj_size}"
            )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, outputs = self.gates * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            features = input_size if layer == 0 else outputs * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features), "weight_hh": (rows, outputs)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (outputs, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, _by_fan_in(shape, hidden_size))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    def _run(
        self, input: Tensor, states: Sequence[Tensor], lengths: Tensor | None, **options: Any
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs of the last layer and the last states (layers*directions,N,…)."""
        check_tensors(self.cell, input)
        if input.ndim != 3:
            raise UsageError(f"{type(self).__name__}: takes x of three axes, got {input.shape}")
        y = input.permute(1, 0, 2) if self.batch_first else input
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        names += ["weight_hr"] if self.proj_size else []
        options |= {"bias": self.bias, "state": bool(states), "lengths": lengths is not None}
        last: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer:
                y = F.dropout(y, self.dropout, _trains(self))
            both = []
            for suffix in self._suffixes(layer):
                inputs = [y, *(getattr(self, name + suffix) for name in names)]
                inputs += [state[len(last)] for state in states] + ([] if lengths is None else [lengths])
                out, *ends = F._ops(self.cell, *inputs, **options, reverse=suffix.endswith("_reverse"))
                both.append(out)
                last.append([end.unsqueeze(0) for end in ends])
            y = both[0] if len(both) == 1 else F._op("concat", *both, axis=-1)
        return y.permute(1, 0, 2) if self.batch_first else y, [
            F._op("concat", *ends, axis=0) for ends in zip(*last, strict=True)
        ]

    def extra_repr(self) -> str:
        """The options that are not the default."""
        said = [f"{self.input_size}, {self.hidden_size}"]
        options = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        for name, default in {**options, "proj_size": 0}.items():
            if (value := getattr(self, name)) != default:
                said.append(f"{name}={value}")
        return ", ".join(said)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997)."""

    cell, gates = "lstm", 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        """`dropout` acts between layers; `proj_size` projects the outputs (Sak et al., 2014)."""
        self._set(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x(T,N,features), or (N,T,features) for batch_first -> y of all steps, and the last h and c.

        `hx` are h and c before the first step, (layers*directions,N,…). `lengths` i64(N) are the steps of each sequence
        that count; outputs after them are 0.
        """
        y, (h, c) = self._run(input, hx or (), lengths, projection=self.proj_size > 0)
        return y, (h, c)


class GRU(_Recurrent):
    """Gated recurrent unit (Cho et al., 2014)."""

    cell, gates = "gru", 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        """`dropout` acts between layers."""
        self._set(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def forward(
        self, input: Tensor, hx: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As of LSTM, with h alone."""
        y, (h,) = self._run(input, () if hx is None else (hx,), lengths)
        return y, h


class RNN(_Recurrent):
    """h = f(W x + b + V h + c), f being "tanh" or "relu" (Elman, 1990)."""

    cell, gates = "rnn", 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        """`dropout` acts between layers."""
        self._set(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        self.nonlinearity = nonlinearity

    def forward(
        self, input: Tensor, hx: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As of LSTM, with h alone."""
        y, (h,) = self._run(input, () if hx is None else (hx,), lengths, nonlinearity=self.nonlinearity)
        return y, h


# Attention and transformers (Vaswani et al., "Attention is all you need", 2017)


class MultiheadAttention(Module):
    """Attention of several heads with projections around it.

    Parameters: in_proj_weight(3*embed_dim,embed_dim), or q_proj_weight, k_proj_weight and v_proj_weight where kdim or
    vdim differ from embed_dim; in_proj_bias(3*embed_dim), out_proj.weight and out_proj.bias.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        """The heads divide embed_dim; `dropout` is that of the weights of the values."""
        if num_heads < 1 or embed_dim % num_heads:
            raise UsageError(f"MultiheadAttention: {embed_dim} features do not divide into {num_heads} heads")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        packed = self.kdim == self.vdim == embed_dim
        self.in_proj_weight: Tensor | None = _drawn(init.xavier_uniform_, 3 * embed_dim, embed_dim) if packed else None
        for name, features in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            weight = None if packed else _drawn(init.xavier_uniform_, embed_dim, features)
            setattr(self, f"{name}_proj_weight", weight)
        self.in_proj_bias: Tensor | None = _parameter(3 * embed_dim) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """query(L,N,embed_dim), key(S,N,kdim), value(S,N,vdim), or N first for batch_first -> y like query, weights.

        key_padding_mask(N,S) and attn_mask(L,S) or (N*heads,L,S): True HIDES a key, a floating mask is added to the
        scores. The weights are (N,L,S), their mean over the heads, or (N,heads,L,S), before dropout; None without
        `need_weights`. In a trace they cost nothing unless they are used.
        """
        check_tensors("multihead_attention", query, key, value)
        same = query is key and key is value
        if not self.batch_first:
            query, key, value = (x.permute(1, 0, 2) for x in (query, key, value))
        mask = self._mask(query, key, key_padding_mask, attn_mask)
        p = self.dropout if _trains(self) else 0.0
        options = {"heads": self.num_heads, "is_causal": is_causal}
        features = self.embed_dim // self.num_heads
        if same and self.in_proj_weight is not None and not need_weights:
            packed = F.linear(query, self.in_proj_weight, self.in_proj_bias)
            y = F._attention("multihead_attention", [packed], features, mask, p, packed=True, **options)
        else:
            q, k, v = self._projected(query, key, value)
            y = F._attention("multihead_attention", [q, k, v], features, mask, p, **options)
        y = self.out_proj(y)
        weights = self._weights(q, k, mask, is_causal, average_attn_weights) if need_weights else None
        return y if self.batch_first else y.permute(1, 0, 2), weights

    def _projected(self, *inputs: Tensor) -> list[Tensor]:
        thirds = [self.embed_dim] * 3
        weights = (
            [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
            if self.in_proj_weight is None
            else F._ops("split", self.in_proj_weight, sizes=thirds, axis=0)
        )
        biases = [None] * 3 if self.in_proj_bias is None else F._ops("split", self.in_proj_bias, sizes=thirds, axis=0)
        return [F.linear(x, weight, bias) for x, weight, bias in zip(inputs, weights, biases, strict=True)]

    def _mask(
        self, query: Tensor, key: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None
    ) -> Tensor | None:
        """Both masks as one that is added to the scores (N,heads,L,S)."""
        batch, length, positions = query.shape[0], query.shape[1], key.shape[1]
        total: Tensor | None = None
        if attn_mask is not None and attn_mask.ndim == 3:
            attn_mask = attn_mask.reshape(batch, self.num_heads, length, positions)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.reshape(batch, 1, 1, positions)
        for mask in (attn_mask, key_padding_mask):
            if mask is not None:
                zero = F._full(query, (), 0.0)
                part = where(mask, -math.inf, zero) if mask.dtype == "bool" else mask
                total = part if total is None else total + part
        return total

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, average: bool) -> Tensor:
        heads, features = self.num_heads, self.embed_dim // self.num_heads
        q, k = (x.reshape(*x.shape[:2], heads, features).permute(0, 2, 1, 3) for x in (q, k))
        scores = F._op("matmul", q / math.sqrt(features), k, transpose_b=True)
        if mask is not None:
            scores = scores + mask
        if is_causal:
            rows, columns = (F._op("iota", n=n).to(q.device) for n in scores.shape[2:])
            scores = where(columns > rows.reshape(-1, 1), -math.inf, scores)
        weights = F.softmax(scores, -1)
        return F._op("mean", weights, axes=[1]) if average else weights


def _activation(of: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if not isinstance(of, str):
        return of
    if of not in ("relu", "gelu"):
        raise UsageError(f"activation is '{of}', has to be relu, gelu or a function")
    return F.relu if of == "relu" else F.gelu


class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself and two linear layers, each a branch that is added.

    Parts: self_attn, linear1, linear2, norm1, norm2.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        """`norm_first` begins each branch with its norm; else norms follow the sums, as in the paper."""
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first = norm_first
        self.norm1, self.norm2 = (LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """x(L,N,d_model), or (N,L,d_model) for batch_first -> the same shape. Masks as of MultiheadAttention."""

        def attention(x: Tensor) -> Tensor:
            y = _attended(self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal)
            return self.dropout1.forward(y)

        x = _branch(src, self.norm1, self.norm_first, attention)
        return _branch(x, self.norm2, self.norm_first, lambda x: self.dropout2(_feed_forward(self, x)))


class TransformerDecoderLayer(Module):
    """Attention of a sequence to itself and to an encoder's output, and two linear layers, each a branch that is added.

    Parts: self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
    ) -> None:
        """Options as of TransformerEncoderLayer."""
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.linear1 = Linear(d_model, dim_feedforward, bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        self.norm_first = norm_first
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, layer_norm_eps, bias=bias) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """target(L,N,d_model), memory(S,N,d_model), or N first for batch_first -> like the target."""

        def own(x: Tensor) -> Tensor:
            y = _attended(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            return self.dropout1.forward(y)

        def other(x: Tensor) -> Tensor:
            y = _attended(self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
            return self.dropout2.forward(y)

        x = _branch(tgt, self.norm1, self.norm_first, own)
        x = _branch(x, self.norm2, self.norm_first, other)
        return _branch(x, self.norm3, self.norm_first, lambda x: self.dropout3(_feed_forward(self, x)))


def _attended(
    attention: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    # Beside a mask, is_causal is PyTorch's hint that the mask is causal.
    causal = is_causal and mask is None
    y, _ = attention.forward(query, key, key, key_padding_mask, need_weights=False, attn_mask=mask, is_causal=causal)
    return y


def _branch(x: Tensor, norm: LayerNorm, norm_first: bool, branch: Callable[[Tensor], Tensor]) -> Tensor:
    return x + branch(norm.forward(x)) if norm_first else norm.forward(x + branch(x))


def _feed_forward(layer: TransformerEncoderLayer | TransformerDecoderLayer, x: Tensor) -> Tensor:
    return layer.linear2.forward(layer.dropout.forward(layer.activation(layer.linear1.forward(x))))


class TransformerEncoder(Module):
    """A stack of copies of a layer, layers.0 …, and a norm after the last one."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        """The copies begin with equal values."""
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """x -> the same shape; every layer has the masks."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of copies of a layer, layers.0 …, each of which sees the memory, and a norm after the last one."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        """The copies begin with equal values."""
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """target and memory -> like the target; every layer has the masks."""
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks)
        return tgt if self.norm is None else self.norm(tgt)


# Losses: see the functions of nearly the same names in functional


class CrossEntropyLoss(Module):
    """-log softmax(logits)[target]: see functional.cross_entropy."""

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        """weight(C) is that of the classes."""
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits (N,C,…), class numbers (N,…) or probabilities (N,C,…) -> a scalar, or (N,…)."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(Module):
    """-log_probs[target]: see functional.nll_loss."""

    def __init__(self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean") -> None:
        """weight(C) is that of the classes."""
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Log probabilities (N,C,…), class numbers (N,…) -> a scalar, or (N,…)."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class BCELoss(Module):
    """Binary cross entropy of probabilities: see functional.binary_cross_entropy."""

    def __init__(self, weight: Tensor | None = None, *, reduction: str = "mean") -> None:
        """The weight broadcasts to the losses."""
        self.register_buffer("weight", weight)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Probabilities and targets of one shape -> a scalar, or that shape."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(Module):
    """Binary cross entropy of logits: see functional.binary_cross_entropy_with_logits."""

    def __init__(
        self, weight: Tensor | None = None, *, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        """Both weights broadcast to the losses."""
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Logits and targets of one shape -> a scalar, or that shape."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class MSELoss(_Function):
    """(x - y)^2"""

    function = F.mse_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(reduction=reduction)


class L1Loss(_Function):
    """|x - y|"""

    function = F.l1_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(reduction=reduction)


class SmoothL1Loss(_Function):
    """Quadratic below beta, absolute above: see functional.smooth_l1_loss."""

    function = F.smooth_l1_loss

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(reduction=reduction, beta=beta)


class HuberLoss(_Function):
    """Quadratic below delta, absolute above: see functional.huber_loss."""

    function = F.huber_loss

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(reduction=reduction, delta=delta)


class KLDivLoss(_Function):
    """target (log target - input): see functional.kl_div."""

    function = F.kl_div

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        """`reduction` is "mean", "batchmean", "sum" or "none"."""
        self._set(reduction=reduction, log_target=log_target)


class PoissonNLLLoss(_Function):
    """Negative log likelihood of a Poisson distribution: see functional.poisson_nll_loss."""

    function = F.poisson_nll_loss

    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(log_input=log_input, full=full, eps=eps, reduction=reduction)


class GaussianNLLLoss(_Function):
    """Negative log likelihood of a normal distribution: see functional.gaussian_nll_loss."""

    function = F.gaussian_nll_loss

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(full=full, eps=eps, reduction=reduction)


class SoftMarginLoss(_Function):
    """log(1 + e^(-target x))"""

    function = F.soft_margin_loss

    def __init__(self, *, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(reduction=reduction)


class HingeEmbeddingLoss(_Function):
    """x where the target is 1, max(0, margin - x) where it is -1."""

    function = F.hinge_embedding_loss

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(margin=margin, reduction=reduction)


class MarginRankingLoss(_Function):
    """max(0, margin - target (x1 - x2))"""

    function = F.margin_ranking_loss

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(margin=margin, reduction=reduction)


class CosineEmbeddingLoss(_Function):
    """1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1."""

    function = F.cosine_embedding_loss

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        """`reduction` is "mean", "sum" or "none"."""
        self._set(margin=margin, reduction=reduction)


class TripletMarginLoss(_Function):
    """max(0, |anchor - positive| - |anchor - negative| + margin)"""

    function = F.triplet_margin_loss

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean"
    ) -> None:
        """See functional.triplet_margin_loss."""
        self._set(margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)


class CTCLoss(_Function):
    """Connectionist temporal classification (Graves et al., 2006): see functional.ctc_loss."""

    function = F.ctc_loss

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        """`blank` is the class that stands for no label."""
        self._set(blank=blank, reduction=reduction, zero_infinity=zero_infinity)
