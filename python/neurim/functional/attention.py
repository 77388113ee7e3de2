"""Attention."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from ..tensors import check_tensors
from .common import _op


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
