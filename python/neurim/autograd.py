"""Functions with a gradient of their own.

>>> import neurim as nm
>>> class Round(nm.Function):
...     @staticmethod
...     def forward(ctx, x):
...         return (x + 0.5).floor()
...     @staticmethod
...     def backward(ctx, grad):
...         return grad  # as if it had not been rounded
>>> x = nm.tensor([0.4, 1.6])
>>> Round.apply(x).tolist(), nm.grad(lambda x: (Round.apply(x) * 3).sum())(x).tolist()
([0.0, 2.0], [3.0, 3.0])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from ._core import Tensor, UsageError
from .tensors import zeros_like


class FunctionContext:
    """What forward leaves for backward: `save_for_backward`, and any attribute."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad  # of each argument; in forward whether it can have a gradient
        self._saved: tuple[Tensor | None, ...] = ()
        self._without_gradient: list[Tensor] = []
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors, which backward finds in `saved_tensors`: arguments, results, and others that forward has made."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward was given."""
        return self._saved

    def mark_non_differentiable(self, *results: Tensor) -> None:
        """Says of results of forward that no gradient flows through them; backward gets zeros for them."""
        self._without_gradient = list(results)

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, not zeros, for results of which no gradient is known."""
        self._materialize = value


class Function:
    """A function of tensors with a gradient of its own, as torch.autograd.Function is one.

    A subclass defines two static methods. `forward(ctx, *args)` gives a tensor, or a tuple of tensors. `backward(ctx, *grads)`
    gets the gradient of each, and gives one for each argument of forward, of the argument's shape and dtype, or None. Both
    consist of Neurim's ops. With `setup_context(ctx, args, output)` forward takes no ctx. The function is called as `apply(*args)`;
    arguments that are no tensors are constants. The ops of forward take no part in gradients, and a plan computes nothing
    more than these ops.
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        """Computes the results. Each subclass has its own."""
        raise NotImplementedError("a Function defines forward")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Computes the gradients of the arguments. Each subclass has its own."""
        raise NotImplementedError("a Function defines backward")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls forward. Raises UsageError where no argument is a tensor, and where forward gives none.

        Gradients raise UsageError where what backward gives does not fit the arguments, and where one is wanted of a
        tensor that forward reads but that is no argument.
        """
        tensors = [one for one in args if isinstance(one, Tensor)]
        if not tensors:
            raise UsageError(f"{cls.__name__}: no argument is a tensor, and tensors inside of lists are not seen; pass each as an argument")
        call = _Call(cls, args)
        return call.returned(_core.custom_gradient(cls.__name__, tensors, call.forward, call.backward))


class _Call:
    """One call of a function."""

    def __init__(self, function: type[Function], args: tuple[Any, ...]) -> None:
        self._function, self._args = function, args
        self._ctx = FunctionContext(tuple(_core.tracing() and isinstance(one, Tensor) and _core.is_floating(one.dtype) for one in args))
        self._single = False  # whether forward has returned one tensor, not a tuple
        self._results: list[Tensor] = []
        self._marked: list[bool] = []  # of each result, whether no gradient flows through it

    def forward(self) -> list[Tensor]:
        """What forward has made."""
        function, ctx = self._function, self._ctx
        setup = getattr(function, "setup_context", None)
        made = function.forward(*self._args) if setup else function.forward(ctx, *self._args)
        if setup:
            setup(ctx, self._args, made)
        self._single = isinstance(made, Tensor)
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        for one in results or [None]:
            if not isinstance(one, Tensor):
                raise UsageError(f"{function.__name__}: forward gives {type(one).__name__}; it has to return a tensor or a tuple of tensors")
        self._results = results
        self._marked = [any(one is other for other in ctx._without_gradient) for one in self._results]
        return self._results

    def returned(self, results: Sequence[Tensor]) -> Any:
        """What apply returns: the results, which have the gradient of backward."""
        given = {id(made): result for made, result in zip(self._results, results, strict=True)}
        self._ctx._saved = tuple(given.get(id(one), one) for one in self._ctx._saved)
        self._results = list(results)
        return results[0] if self._single else tuple(results)

    def backward(self, grads: Sequence[Tensor | None], wanted: Sequence[bool]) -> list[Tensor | None]:
        """The gradients of the arguments that are tensors."""
        if self._function.backward is Function.backward:
            raise UsageError(f"{self._function.__name__}: there is no backward, which gives the gradients of the arguments; define it")
        needed = iter(wanted)
        self._ctx.needs_input_grad = tuple(isinstance(one, Tensor) and next(needed) for one in self._args)
        known = [None if marked else grad for grad, marked in zip(grads, self._marked, strict=True)]
        if self._ctx._materialize:
            known = [zeros_like(one)._on(one.device) if grad is None else grad for grad, one in zip(known, self._results, strict=True)]
        found = self._function.backward(self._ctx, *known)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        self._check(found)
        return [grad for grad, one in zip(found, self._args, strict=True) if isinstance(one, Tensor)]

    def _check(self, found: tuple[Any, ...]) -> None:
        name = self._function.__name__
        if len(found) != len(self._args):
            raise UsageError(
                f"{name}: backward gives {len(found)} gradients, and forward has {len(self._args)} arguments; return one for each, None where there is none"
            )
        for i, (grad, arg) in enumerate(zip(found, self._args, strict=True)):
            if grad is None:
                continue
            if not isinstance(arg, Tensor):
                raise UsageError(f"{name}: backward gives a gradient for argument {i}, which is {arg!r} and no tensor; return None there")
            if not isinstance(grad, Tensor):
                raise UsageError(f"{name}: backward gives {type(grad).__name__} for argument {i}; a gradient is a tensor, or None")
            if self._ctx.needs_input_grad[i] and (grad.shape, grad.dtype) != (arg.shape, arg.dtype):
                raise UsageError(
                    f"{name}: backward gives a gradient of shape {grad.shape} and dtype {grad.dtype} for argument {i}, "
                    f"which has shape {arg.shape} and dtype {arg.dtype}; a gradient has those of its argument"
                )
