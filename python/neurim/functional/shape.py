"""Padding, resampling, and channels as places."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core import Tensor, UsageError
from ..tensors import check_tensors, tensor
from .common import Size, _each, _op


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
