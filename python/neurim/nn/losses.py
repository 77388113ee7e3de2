"""Losses: see the functions of nearly the same names in functional."""

from __future__ import annotations

from .. import functional as F
from .._core import Tensor
from ..module import Module
from .common import _Function


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
