"""Tables of embeddings, and how near vectors are to each other."""

from __future__ import annotations

import math

from .. import _core
from .._core import DataError, Tensor, UsageError
from ..tensors import check_tensors
from .common import _op, _sum, _wide
from .normalization import _norm, normalize


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


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`."""
    check_tensors("cosine_similarity", x1, x2)
    a, b = _wide(x1), _wide(x2)
    return _sum(normalize(a, 2, dim, eps) * normalize(b, 2, dim, eps), dim).to(x1.dtype)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last axis."""
    check_tensors("pairwise_distance", x1, x2)
    return _norm(_wide(x1) - _wide(x2) + eps, p, -1, keepdim).to(x1.dtype)
