"""Normalization."""

from __future__ import annotations

import numbers

from .. import functional as F
from .. import init
from .._core import Tensor, UsageError
from ..functional.common import Size, _each
from ..module import Module
from .common import _drawn, _Function, _parameter, _trains, _values


class _ChannelNorm(Module):
    """Normalization with a weight, a bias and running statistics for each channel."""

    ranks: tuple[int, ...]  # of the inputs

    def __init__(self, num_features: int, eps: float, momentum: float, affine: bool, track_running_stats: bool) -> None:
        """Makes what the options ask for."""
        for name, value in (("eps", eps), ("momentum", momentum)):
            if not isinstance(value, numbers.Real):
                hint = "; averages over all batches are not known here, so give a share such as 0.1" if value is None else ""
                raise UsageError(f"{type(self).__name__}: {name} is {value!r}, has to be a number{hint}")
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight: Tensor | None = _drawn(init.ones_, num_features) if affine else None
        self.bias: Tensor | None = _parameter(num_features) if affine else None
        self.register_buffer("running_mean", _values(num_features) if track_running_stats else None)
        self.register_buffer("running_var", _values(num_features, value=1.0) if track_running_stats else None)

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
        self.normalized_shape = tuple(_each(normalized_shape, 1))
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
        self.normalized_shape = tuple(_each(normalized_shape, 1))
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
