"""Losses. `reduction` is "mean", "sum" or "none"; without "none" they give a scalar."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _core
from .._core import Tensor, UsageError
from ..tensors import check_tensors, tensor, where
from .activation import log_softmax, relu
from .common import _op, _sum, _wide
from .embeddings import pairwise_distance


def _reduced(losses: Tensor, reduction: str, dtype: str) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"reduction is '{reduction}', has to be mean, sum or none")
    return (losses if reduction == "none" else _op(reduction, losses, axes=[])).to(dtype)


def _check_alike(loss: str, input: Tensor, target: Tensor) -> None:
    check_tensors(loss, input, target)
    if input.shape != target.shape:
        raise UsageError(f"{loss}: {input.shape} and {target.shape} differ; this loss does not broadcast")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target]: logits (N,C,…), class numbers (N,…), weight(C) of the classes.

    The mean is over the weights of the targets; targets of `ignore_index` count nothing. `label_smoothing` spreads
    this share of the target evenly over the classes. A floating target (N,C,…) holds probabilities of the classes;
    then the mean is over the places.
    """
    check_tensors("cross_entropy", input, target)
    if not _core.is_floating(target.dtype):
        more = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": float(label_smoothing)}
        return _op("cross_entropy", input, target.to("i64"), weight, **more)
    _check_alike("cross_entropy", input, target)
    log_probs = log_softmax(_wide(input), 1)
    share, classes = target.to(log_probs.dtype), input.shape[1]
    if label_smoothing > 0:
        share = share * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    if weight is not None:
        share = share * weight.to(share.dtype).reshape(classes, *[1] * (input.ndim - 2))
    return _reduced(-_sum(share * log_probs, 1), reduction, input.dtype)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """-input[target]: log probabilities (N,C,…), class numbers (N,…), weight(C)."""
    check_tensors("nll_loss", input, target)
    x, classes = _wide(input), input.shape[1]
    target = target.to("i64")
    counts = target != ignore_index
    label = where(counts, target, 0)
    hit = _op("one_hot", label, classes=classes, dtype="bool")
    hit = hit.permute(0, hit.ndim - 1, *range(1, hit.ndim - 1))
    weights = counts.to(x.dtype)
    if weight is not None:
        weights = weights * _op("gather", weight.to(x.dtype), label, axis=0)
    losses = where(counts, -_sum(where(hit, x, 0.0), 1) * weights, 0.0)
    if reduction == "mean":
        return (_sum(losses) / _sum(weights)).to(input.dtype)
    return _reduced(losses, reduction, input.dtype)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-weight (y log p + (1 - y) log(1 - p)): probabilities p and target y of one shape; weight broadcasts to it.

    Logarithms stop at -100, and the gradient divides by at least 1e-12. What comes from a sigmoid is better given to
    binary_cross_entropy_with_logits: near 1, p itself is coarse.
    """
    _check_alike("binary_cross_entropy", input, target)
    p, y = _wide(input), _wide(target)
    fixed = p.detach()
    below = 1 - fixed
    tiny = below == 1.0
    # log(1 - p) exact for small p: the rounding of 1 - p cancels in the quotient (Kahan).
    log_below = where(tiny, -fixed, _op("log", below) * fixed / where(tiny, 1.0, 1 - below))
    yes, no = (_op("clamp", log, low=-100.0, high=math.inf) for log in (_op("log", fixed), log_below))
    slope = (p - y).detach() / _op("clamp", fixed * below, low=1e-12, high=math.inf)
    losses = slope * (p - fixed) - (y * yes + (1 - y) * no)  # the first term is 0 and carries the gradient
    return _reduced(losses if weight is None else losses * weight.to(p.dtype), reduction, input.dtype)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """-weight (pos_weight y log p + (1 - y) log(1 - p)) with p = sigmoid(input); the weights broadcast to the input."""
    if weight is None:
        return _op("binary_cross_entropy", input, target, pos_weight, reduction=reduction)
    losses = _op("binary_cross_entropy", input, target, pos_weight, reduction="none")
    return _reduced(losses * weight, reduction, input.dtype)


def mse_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """(x - y)^2"""
    return _op("mse_loss", input, target, reduction=reduction)


def _distance(loss: str, input: Tensor, target: Tensor) -> Tensor:
    _check_alike(loss, input, target)
    return _op("abs", _wide(input) - _wide(target))


def _huber(d: Tensor, delta: float, scale: float) -> Tensor:
    """Huber's loss times `scale`; nothing is squared beyond delta, so nothing overflows there."""
    near = _op("clamp", d, low=0.0, high=float(delta))
    return near * scale * (d - near * 0.5)


def l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """|x - y|"""
    return _reduced(_distance("l1_loss", input, target), reduction, input.dtype)


def smooth_l1_loss(input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |x - y| is below beta, else d - beta / 2 (Girshick, 2015)."""
    if beta < 0:
        raise UsageError(f"smooth_l1_loss: beta is {beta}, but must not be negative")
    d = _distance("smooth_l1_loss", input, target)
    return _reduced(d if beta == 0 else _huber(d, beta, 1 / beta), reduction, input.dtype)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d^2 / 2 where d = |x - y| is below delta, else delta (d - delta / 2) (Huber, 1964)."""
    if delta <= 0:
        raise UsageError(f"huber_loss: delta is {delta}, but has to be positive")
    return _reduced(_huber(_distance("huber_loss", input, target), delta, 1.0), reduction, input.dtype)


def kl_div(input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target (log target - input), input being log probabilities, where 0 log 0 is 0.

    `reduction` may also be "batchmean": the sum divided by the first size.
    """
    _check_alike("kl_div", input, target)
    x, y = _wide(input), _wide(target)
    losses = _op("exp", y) * (y - x) if log_target else y * (_op("log", where(y > 0.0, y, 1.0)) - x)
    if reduction == "batchmean":
        return (_sum(losses) / input.shape[0]).to(input.dtype)
    return _reduced(losses, reduction, input.dtype)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """e^x - target x, or without `log_input` x - target log(x + eps), of a Poisson distribution.

    `full` adds Stirling's approximation of log(target!) where the target is above 1.
    """
    check_tensors("poisson_nll_loss", input, target)
    x, y = _wide(input), _wide(target)
    losses = _op("exp", x) - y * x if log_input else x - y * _op("log", x + eps)
    if full:
        some = where(y > 1.0, y, 1.0)
        stirling = some * _op("log", some) - some + _op("log", some * (2 * math.pi)) * 0.5
        losses = losses + where(y > 1.0, stirling, 0.0)
    return _reduced(losses, reduction, input.dtype)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (x - target)^2 / var) / 2, of a normal distribution of mean x (Nix and Weigend, 1994).

    var is of the input's shape, or with a size of 1 or without the last axis. A smaller one counts as `eps`, and keeps
    its gradient. `full` adds log(2 pi) / 2.
    """
    check_tensors("gaussian_nll_loss", input, target, var)
    x, y, v = _wide(input), _wide(target), _wide(var)
    if v.ndim == x.ndim - 1:
        v = v.unsqueeze(-1)
    v = v + (_op("clamp", v, low=float(eps), high=math.inf) - v).detach()
    losses = (_op("log", v) + _op("square", x - y) / v) * 0.5
    return _reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction, input.dtype)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + e^(-target x)), the target 1 or -1."""
    check_tensors("soft_margin_loss", input, target)
    x = _wide(input)
    return _reduced(_op("softplus", -(target.to(x.dtype) * x)), reduction, input.dtype)


def _by_sign(target: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """`positive` where the target is 1, `negative` where it is -1, 0 where it is neither."""
    return where(target == 1.0, positive, 0.0) + where(target == -1.0, negative, 0.0)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean") -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1: x is a distance."""
    check_tensors("hinge_embedding_loss", input, target)
    x = _wide(input)
    return _reduced(_by_sign(target.to(x.dtype), x, relu(margin - x)), reduction, input.dtype)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - target (x1 - x2)): x1 should be the larger where the target is 1, x2 where it is -1."""
    check_tensors("margin_ranking_loss", input1, input2, target)
    lead = _wide(input1) - _wide(input2)
    return _reduced(relu(margin - target.to(lead.dtype) * lead), reduction, input1.dtype)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1: inputs (…,D), target (…)."""
    check_tensors("cosine_embedding_loss", input1, input2, target)
    a, b = _wide(input1), _wide(input2)
    squares = [_sum(_op("square", x), -1) + 1e-12 for x in (a, b)]  # PyTorch's summand: a vector of zeros has cosine 0
    cosine = _sum(a * b, -1) / _op("sqrt", squares[0] * squares[1])
    losses = _by_sign(target.to(a.dtype), 1 - cosine, relu(cosine - margin))
    return _reduced(losses, reduction, input1.dtype)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin) in the p-norm: (…,D) each (Schroff et al., 2015).

    `swap` compares the negative with the positive where that is nearer to it (Balntas et al., 2016).
    """
    check_tensors("triplet_margin_loss", anchor, positive, negative)
    a, near, far = _wide(anchor), _wide(positive), _wide(negative)
    away = pairwise_distance(a, far, p, eps)
    if swap:
        away = _op("minimum", away, pairwise_distance(near, far, p, eps))
    return _reduced(relu(pairwise_distance(a, near, p, eps) - away + margin), reduction, anchor.dtype)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that log_probs(T,N,C) spell the targets, whole numbers (N,S) or one after the other.

    Lengths are (N). The mean is over the losses divided by their target lengths. `zero_infinity` makes 0 of the loss
    of a target that is too long for its input (Graves et al., 2006).
    """
    check_tensors("ctc_loss", log_probs)
    whole = (targets, input_lengths, target_lengths)
    inputs = [(x if isinstance(x, Tensor) else tensor(x)).to("i64").to(log_probs.device) for x in whole]
    losses = _op("ctc_loss", _wide(log_probs), *inputs, blank=blank, zero_infinity=zero_infinity)
    if reduction == "mean":
        losses = losses / _op("clamp", inputs[2], low=1.0, high=math.inf).to(losses.dtype)
    return _reduced(losses, reduction, log_probs.dtype)
