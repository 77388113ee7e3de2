"""Tables of embeddings, and how near vectors are to each other."""

from __future__ import annotations

from .. import functional as F
from .. import init
from .._core import Tensor, UsageError
from ..functional.common import _op
from ..module import Module, Parameter
from ..tensors import where
from .common import _Function, _values


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
        weight = init.normal_(_values(num_embeddings, embedding_dim))
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise UsageError(f"Embedding: padding_idx {padding_idx} names none of {num_embeddings} rows")
            self.padding_idx = padding_idx % num_embeddings
            row = _op("iota", n=num_embeddings).reshape(num_embeddings, 1) == self.padding_idx
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
