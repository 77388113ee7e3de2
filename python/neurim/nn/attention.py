"""Attention and transformers (Vaswani et al., "Attention is all you need", 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from .. import functional as F
from .. import init
from .._core import Tensor, UsageError
from ..functional.attention import _attention
from ..functional.common import _full, _op, _ops
from ..module import Module, ModuleList
from ..tensors import check_tensors, where
from .common import _drawn, _parameter, _trains
from .convolution import Linear
from .dropout import Dropout
from .normalization import LayerNorm


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
            y = _attention("multihead_attention", [packed], features, mask, p, packed=True, **options)
        else:
            q, k, v = self._projected(query, key, value)
            y = _attention("multihead_attention", [q, k, v], features, mask, p, **options)
        y = self.out_proj(y)
        weights = self._weights(q, k, mask, is_causal, average_attn_weights) if need_weights else None
        return y if self.batch_first else y.permute(1, 0, 2), weights

    def _projected(self, *inputs: Tensor) -> list[Tensor]:
        thirds = [self.embed_dim] * 3
        weights = (
            [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
            if self.in_proj_weight is None
            else _ops("split", self.in_proj_weight, sizes=thirds, axis=0)
        )
        biases = [None] * 3 if self.in_proj_bias is None else _ops("split", self.in_proj_bias, sizes=thirds, axis=0)
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
                zero = _full(query, (), 0.0)
                part = where(mask, -math.inf, zero) if mask.dtype == "bool" else mask
                total = part if total is None else total + part
        return total

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, average: bool) -> Tensor:
        heads, features = self.num_heads, self.embed_dim // self.num_heads
        q, k = (x.reshape(*x.shape[:2], heads, features).permute(0, 2, 1, 3) for x in (q, k))
        scores = _op("matmul", q / math.sqrt(features), k, transpose_b=True)
        if mask is not None:
            scores = scores + mask
        if is_causal:
            rows, columns = (_op("iota", n=n).to(q.device) for n in scores.shape[2:])
            scores = where(columns > rows.reshape(-1, 1), -math.inf, scores)
        weights = F.softmax(scores, -1)
        return _op("mean", weights, axes=[1]) if average else weights


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
