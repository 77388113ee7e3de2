"""Shapes, padding, resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import functional as F
from .._core import Tensor, UsageError
from ..functional.common import Size, _each
from ..tensors.common import _axis
from .common import _Function


def _flatten(input: Tensor, start_dim: int, end_dim: int) -> Tensor:
    if input.ndim == 0:
        raise UsageError("flatten: a scalar has no axes")
    start, end, shape = _axis(input, start_dim), _axis(input, end_dim), input.shape
    if start > end:
        raise UsageError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}")
    return input.reshape(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def _unflatten(input: Tensor, dim: int, unflattened_size: tuple[int, ...]) -> Tensor:
    if input.ndim == 0:
        raise UsageError("unflatten: a scalar has no axes")
    axis, shape = _axis(input, dim), input.shape
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
        self._set(pad=_each(padding, 2 * self.axes), mode=self.mode)


class _ConstantPad(_Function):
    function = F.pad
    axes: int

    def __init__(self, padding: Size, value: float) -> None:
        """One number for all ends, or a begin and an end of the last axis, then of the one before, …."""
        self._set(pad=_each(padding, 2 * self.axes), value=value)


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
