"""Optimizers and schedules.

>>> import neurim as nm
>>> net = nm.nn.Linear(2, 1)
>>> opt = nm.optim.SGD(net.parameters(), lr=0.1)
>>> step = nm.compile(lambda x, y: opt.minimize(nm.nn.functional.mse_loss(net(x), y)), training=True)
>>> x, y = nm.ones((4, 2)), nm.zeros((4, 1))
>>> first = step(x, y).item()
>>> step(x, y).item() < first
True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _core
from ._core import Tensor
from .module import is_frozen
from .tensors import check_tensors
from .tensors import tensor as tensor_of
from .tensors.common import _real


class Optimizer:
    """What all optimizers have. `params`: tensors, as `module.parameters()` gives them, (name, tensor) pairs or a Module."""

    def __init__(self, params: Any, kind: Any, *config: Any, clip_norm: float | None = None, clip_value: float | None = None) -> None:
        named = _named(params)
        if not named:
            raise _core.UsageError("optimizer: there are no parameters to step")
        self._names = [name for name, _ in named]
        self._core = kind(named, *config)
        if clip_norm is not None:
            self._core.clip_norm(_real(clip_norm, "clip_norm"))
        if clip_value is not None:
            self._core.clip_value(_real(clip_value, "clip_value"))

    def minimize(self, loss: Tensor, samples: float = 1) -> Tensor:
        """Records the gradients of `loss`, a scalar, and a step, in a function that `compile` traces with training=True.

        `samples`: how many the loss is the mean of. Gives the loss back.
        """
        if not _core.tracing():
            raise _core.UsageError("minimize: is for functions that are compiled: step = nm.compile(function, training=True)")
        check_tensors("minimize", loss)
        if loss.shape != ():
            raise _core.UsageError(f"minimize: the loss has shape {loss.shape}; it has to be a scalar, such as a mean")
        self._core.minimize(loss, _real(samples, "minimize: samples"))
        return loss

    def step(self, gradients: Iterable[Tensor]) -> None:
        """Moves all weights by one step; one gradient for each parameter, in their order, as value_and_grad gives them.

        Gradients may also be arrays. Throws UsageError for another number of them, and for None.
        """
        if isinstance(gradients, (Tensor, Mapping)) or not isinstance(gradients, Iterable):
            raise _core.UsageError(f"step: takes a list of gradients, got a {type(gradients).__name__}")
        given = list(gradients)
        if len(given) != len(self._names):
            raise _core.UsageError(f"step: there are {len(given)} gradients for {len(self._names)} parameters; give one for each, in their order")
        for at, one in enumerate(given):
            if not isinstance(one, Tensor):
                if not hasattr(one, "__array__") and not hasattr(one, "__dlpack__"):
                    raise _core.UsageError(f"step: the gradient of {self._names[at]} is a {type(one).__name__}; it is a tensor or an array")
                given[at] = tensor_of(one)
        self._core.step(given)

    update = step

    @property
    def lr(self) -> float:
        """The learning rate of the next step; setting it needs no new trace."""
        return float(self._core.lr)

    @lr.setter
    def lr(self, lr: float) -> None:
        self._core.lr = _real(lr, "lr")

    @property
    def steps(self) -> int:
        """How many steps were done."""
        return int(self._core.steps)

    def state_dict(self) -> dict[str, Tensor]:
        """Learning rate, number of steps and the state of each weight, by names; copies."""
        return {name: tensor.clone() for name, tensor in self._core.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes back what state_dict gave."""
        own = dict(self._core.state())
        if missing := own.keys() - state.keys():
            raise _core.UsageError(f"load_state_dict: the state lacks {', '.join(sorted(missing))}")
        for name, tensor in own.items():
            tensor.assign(Tensor(state[name]))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: gradients are values, and nothing adds them up."""


def _named(params: Any) -> list[tuple[str, Tensor]]:
    if hasattr(params, "named_parameters"):
        return list(params.named_parameters(learnt=True))
    if isinstance(params, (Tensor, str)) or hasattr(params, "__array__") or not isinstance(params, Iterable):
        raise _core.UsageError(f"optimizer: the parameters are a single {type(params).__name__}; give a list of tensors, such as [tensor], or a Module")
    pairs: list[tuple[str, Tensor]] = []
    for i, one in enumerate(params):
        if isinstance(one, dict):
            raise _core.UsageError("optimizer: there are no groups of parameters; make an optimizer for each group")
        name, tensor = (one.name, one) if isinstance(one, Tensor) else one if isinstance(one, tuple) and len(one) == 2 else ("", one)
        if not isinstance(tensor, Tensor):
            raise _core.UsageError(f"optimizer: parameter {i} is a {type(tensor).__name__}; give tensors, or pairs of a name and a tensor")
        if not _core.is_floating(tensor.dtype):
            raise _core.UsageError(f"optimizer: parameter {i} is {tensor.dtype}, which has no gradient; leave it out, or convert it to f32")
        if not is_frozen(tensor):
            pairs.append((name or f"parameter{i}", tensor))
    twice = len({name for name, _ in pairs}) < len(pairs)
    return [(f"parameter{i}" if twice else name, tensor) for i, (name, tensor) in enumerate(pairs)]


def _numbers(**options: Any) -> list[float]:
    return [_real(value, word) for word, value in options.items()]


def _betas(betas: Any) -> list[float]:
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise _core.UsageError(f"optimizer: betas is {betas!r}; it is two numbers, such as (0.9, 0.999)")
    return [_real(one, "betas") for one in betas]


class SGD(Optimizer):
    """Stochastic gradient descent with torch.optim.SGD's numerics and defaults."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        decay_1d: bool = True,
        clip_norm: float | None = None,
        clip_value: float | None = None,
    ) -> None:
        config = _numbers(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay)
        super().__init__(params, _core.SGD, *config, bool(nesterov), bool(decay_1d), clip_norm=clip_norm, clip_value=clip_value)


class Adam(Optimizer):
    """Adam with torch.optim.Adam's numerics and defaults (Kingma and Ba, ICLR'15)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        decay_1d: bool = True,
        clip_norm: float | None = None,
        clip_value: float | None = None,
    ) -> None:
        config = _numbers(lr=lr) + _betas(betas) + _numbers(eps=eps, weight_decay=weight_decay)
        super().__init__(params, _core.Adam, *config, bool(decay_1d), clip_norm=clip_norm, clip_value=clip_value)


class AdamW(Optimizer):
    """AdamW with torch.optim.AdamW's numerics and defaults (Loshchilov and Hutter, ICLR'19)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        *,
        decay_1d: bool = True,
        clip_norm: float | None = None,
        clip_value: float | None = None,
    ) -> None:
        config = _numbers(lr=lr) + _betas(betas) + _numbers(eps=eps, weight_decay=weight_decay)
        super().__init__(params, _core.AdamW, *config, bool(decay_1d), clip_norm=clip_norm, clip_value=clip_value)


def cosine_lr(lr: float, at: float, total: float, min_lr: float = 0) -> float:
    """Half a cosine from lr at 0 to min_lr at `total`, and min_lr after that (Loshchilov and Hutter, arXiv 1608.03983)."""
    return float(_core.cosine_lr(*_numbers(lr=lr, at=at, total=total, min_lr=min_lr)))


def step_lr(lr: float, at: float, every: float, gamma: float = 0.1) -> float:
    """lr * gamma^floor(at / every). Throws UsageError unless every > 0."""
    return float(_core.step_lr(*_numbers(lr=lr, at=at, every=every, gamma=gamma)))


def warmup_lr(lr: float, at: float, warmup: float, start: float = 0) -> float:
    """The straight line from `start` at 0 to lr at `warmup`, and lr after that."""
    return float(_core.warmup_lr(*_numbers(lr=lr, at=at, warmup=warmup, start=start)))
