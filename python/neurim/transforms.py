"""Functions that are traced once and replayed, and their gradients.

A traced function runs as ordinary Python once for each signature: the dtypes and shapes of the tensors that it is given,
and the values of everything else. What it computes becomes a plan, which is replayed from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import _core
from ._core import Tensor
from .arrays import is_arrow

T = TypeVar("T")


class _Constant:
    """A value of a signature. 1, 1.0 and True are others there, and so are 0.0 and -0.0; NaN is itself."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = (type(value), value.hex() if isinstance(value, float) else value)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and self._key == other._key


def _flatten(value: Any, tensors: list[Tensor]) -> Any:
    """The signature of a value, hashable, with the tensors in it appended to the list."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return (Tensor, (value.dtype, value.shape))
    if isinstance(value, (tuple, list)):
        return (type(value), tuple(_flatten(one, tensors) for one in value))
    if isinstance(value, dict):
        return (dict, tuple((key, _flatten(one, tensors)) for key, one in value.items()))
    if getattr(value, "ndim", 0) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__")) or is_arrow(value):
        return _flatten(Tensor(value), tensors)
    return (_Constant, _Constant(value))


def _build(structure: Any, tensors: list[Tensor]) -> Any:
    """The inverse of _flatten; takes tensors from the front of the list."""
    kind, content = structure
    if kind is Tensor:
        return tensors.pop(0)
    if kind is _Constant:
        return content.value
    if kind is dict:
        return {key: _build(one, tensors) for key, one in content}
    values = [_build(one, tensors) for one in content]
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


class Compiled:
    """A function that is traced once for each signature of its arguments, and then replayed as a plan.

    Tensors and arrays may stand anywhere in lists, tuples and dictionaries of the arguments and of the result; everything
    else counts as a constant and has to be hashable: another value is another trace. Tensors that the function reads from
    outside, such as weights, are read anew at every call; what it assigns to them is kept.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        training: bool = False,
        deterministic: bool = False,
        precision: str = "f32",
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._random = _core.seed_key(seed)
        self._options = (training, deterministic, precision, device, self._random)
        self._plans: dict[Any, tuple[Any, list[Any]]] = {}  # of each signature: the plan, and what its trace has returned

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        structure = _flatten((args, kwargs), tensors)
        try:
            plans, result = self._plans[structure]
        except KeyError:
            plans, result = self._plans[structure] = self._trace(structure)
        except TypeError as error:
            raise _core.UsageError(
                f"{self.__name__}: an argument that is no tensor has to be hashable, as each value of it is a trace of its own ({error})"
            ) from None
        outputs = plans(tensors)  # traces before there is a result
        return _build(result[0], outputs)

    def __get__(self, holder: Any, kind: Any = None) -> Any:
        return self if holder is None else functools.partial(self, holder)

    def _trace(self, structure: Any) -> tuple[_core.Compiled, list[Any]]:
        result: list[Any] = []
        function = self._function  # not self, which holds the plan

        def traced(inputs: list[Tensor]) -> list[Tensor]:
            args, kwargs = _build(structure, list(inputs))
            outputs: list[Tensor] = []
            result[:] = [_flatten(function(*args, **kwargs), outputs)]
            return outputs

        return _core.Compiled(traced, *self._options), result

    @property
    def __name__(self) -> str:
        return str(getattr(self._function, "__name__", "compiled function"))

    @__name__.setter
    def __name__(self, name: str) -> None:  # functools.update_wrapper sets it
        pass


def compile(
    function: Callable[..., Any] | None = None,
    *,
    training: bool = False,
    deterministic: bool = False,
    precision: str = "f32",
    device: str = "cpu",
    seed: int = 0,
) -> Any:
    """Makes a function that is traced once for each signature, and replayed from then on; also a decorator.

    `training`: dropout drops and batch norm takes statistics of the batch. `deterministic`: the same bits with any number
    of threads. `precision`: f32, bf16 or fp16, in which products are computed. `seed`: of random ops, which give other
    numbers at each call.

    >>> import neurim as nm
    >>> double = nm.compile(lambda x: x + x)
    >>> double(nm.Tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    options: dict[str, Any] = {
        "training": training,
        "deterministic": deterministic,
        "precision": precision,
        "device": device,
        "seed": seed,
    }
    if function is None:
        return lambda given: Compiled(given, **options)
    return Compiled(function, **options)


def _learnt(wrt: Any) -> list[Tensor]:
    return list(wrt.parameters(learnt=True)) if hasattr(wrt, "parameters") else list(wrt)


def gradients(loss: Tensor, wrt: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a scalar with respect to tensors, inside a traced function; zeros where it does not depend on one.

    Throws UsageError outside of `compile`, `grad` and `value_and_grad`: eager ops keep no record.
    """
    found = _core.gradients([loss], list(wrt))
    return [one if one is not None else tensor * 0 for one, tensor in zip(found, wrt, strict=True)]


def value_and_grad(
    function: Callable[..., Any], wrt: Any = None, *, argnums: int | tuple[int, ...] | None = None, has_aux: bool = False, **options: Any
) -> Any:
    """Makes a function that gives `(value, gradients)`, traced and replayed as by `compile`, whose options it takes.

    `wrt`: a Module, of whose learnt parameters the gradients are a list in the order of `parameters()`, a tensor, or a list of tensors.
    Without it gradients are those of the arguments `argnums` (0: the first): one, or a tuple for several. The value is a
    scalar tensor; with `has_aux` the function returns (value, others), and so does this.

    >>> import neurim as nm
    >>> value, slope = nm.value_and_grad(lambda x: (x * x).sum())(nm.Tensor([1.0, 3.0]))
    >>> value.item(), slope.tolist()
    (10.0, [2.0, 6.0])
    """

    def both(*args: Any, **kwargs: Any) -> Any:
        value = function(*args, **kwargs)
        loss = value[0] if has_aux else value
        if not isinstance(loss, Tensor):
            raise _core.UsageError(f"value_and_grad: the function has to return a tensor, not {type(loss).__name__}")
        if loss.shape != ():
            raise _core.UsageError(f"value_and_grad: the value has shape {loss.shape}; it has to be a scalar, such as a mean")
        if wrt is not None:
            if isinstance(wrt, Tensor):
                return value, gradients(loss, [wrt])[0]
            return value, gradients(loss, _learnt(wrt))
        numbers = (0,) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
        found = gradients(loss, [args[number] for number in numbers])
        return value, found[0] if isinstance(argnums, int) or argnums is None else tuple(found)

    functools.update_wrapper(both, function)
    return Compiled(both, **options)


def grad(function: Callable[..., Any], wrt: Any = None, *, argnums: int | tuple[int, ...] | None = None, **options: Any) -> Any:
    """As value_and_grad, the gradients alone.

    >>> import neurim as nm
    >>> nm.grad(lambda x: (x * x).sum())(nm.Tensor([1.0, 3.0])).tolist()
    [2.0, 6.0]
    """
    both = value_and_grad(function, wrt, argnums=argnums, **options)

    def only(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    functools.update_wrapper(only, function)
    return only


class no_grad:
    """A scope in which gradients are not wanted, for programs that say so: Neurim records nothing outside of traces."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        return function
