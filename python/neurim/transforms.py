"""Functions that are traced once and replayed, and their gradients.

A traced function runs as ordinary Python once for each signature: the dtypes and shapes of the tensors that it is given,
and the values of everything else. What it computes becomes a plan, which is replayed from then on.
"""

from __future__ import annotations

import difflib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from . import _core
from ._core import Tensor
from .arrays import is_arrow
from .tensors.making import checked_seed

T = TypeVar("T")
_OPTIONS = ("training", "deterministic", "precision", "device", "seed")  # of compile


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
    return _flatten(Tensor(value), tensors) if _is_array(value) or is_arrow(value) else (_Constant, _Constant(value))


def _is_array(value: Any) -> bool:
    """Whether a value is an array, also one without axes. Scalars of NumPy, which have no length, are none."""
    if hasattr(type(value), "__array_interface__") and not hasattr(value, "dtype"):  # such as an image of Pillow
        return True
    return hasattr(value, "ndim") and hasattr(type(value), "__len__") and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


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
        _check_options("compile", function, {})
        functools.update_wrapper(self, function)
        self._function = function
        self._random = _core.seed_key(checked_seed("compile: seed", seed))
        for word, value in (("precision", precision), ("device", device)):
            if not isinstance(value, str):
                raise _core.UsageError(f"compile: {word} is a {type(value).__name__}; it is the name of one")
        self._options = (bool(training), bool(deterministic), precision, device, self._random)
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


def gradients(loss: Tensor, wrt: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of a scalar with respect to tensors, inside a traced function; zeros where it does not depend on one.

    Throws UsageError outside of `compile`, `grad` and `value_and_grad`: eager ops keep no record.
    """
    found = _core.gradients([loss], list(wrt))
    return [one if one is not None else tensor * 0 for one, tensor in zip(found, wrt, strict=True)]


def value_and_grad(
    function: Callable[..., Any], wrt: Any = None, *, argnums: int | Sequence[int] | None = None, has_aux: bool = False, **options: Any
) -> Any:
    """Makes a function that gives `(value, gradients)`, traced and replayed as by `compile`, whose options it takes.

    `wrt`: a Module, of whose learnt parameters the gradients are a list in the order of `parameters()`, a tensor, or a list of tensors.
    Without it gradients are those of the arguments `argnums` (0: the first): one, or a tuple for several. An argument may be
    a list, a tuple or a dictionary of tensors, and so is its gradient then. The value is a scalar tensor; with `has_aux` the
    function returns (value, others), and so does this.

    Throws UsageError where an argument or a tensor of `wrt` is not floating: it has no gradient.

    >>> import neurim as nm
    >>> value, slope = nm.value_and_grad(lambda x: (x * x).sum())(nm.Tensor([1.0, 3.0]))
    >>> value.item(), slope.tolist()
    (10.0, [2.0, 6.0])
    """
    return _differentiated("value_and_grad", function, wrt, argnums, has_aux, options)


def grad(function: Callable[..., Any], wrt: Any = None, *, argnums: int | Sequence[int] | None = None, has_aux: bool = False, **options: Any) -> Any:
    """As value_and_grad, the gradients alone.

    >>> import neurim as nm
    >>> nm.grad(lambda x: (x * x).sum())(nm.Tensor([1.0, 3.0])).tolist()
    [2.0, 6.0]
    """
    both = _differentiated("grad", function, wrt, argnums, has_aux, options)

    def only(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    functools.update_wrapper(only, function)
    return only


def _differentiated(name: str, function: Callable[..., Any], wrt: Any, argnums: Any, has_aux: bool, options: dict[str, Any]) -> Compiled:
    """The function of value_and_grad, in whose errors `name` stands for it."""
    _check_options(name, function, options, ("wrt", "argnums", "has_aux"))
    if wrt is not None and argnums is not None:
        raise _core.UsageError(f"{name}: wrt and argnums are both given; gradients are those of one of them")
    several = isinstance(argnums, (tuple, list))
    try:
        numbers = [operator.index(one) for one in (argnums if several else [argnums or 0])]
    except TypeError:
        raise _core.UsageError(f"{name}: argnums is {argnums!r}; it is a whole number, or a tuple of them") from None
    of = _with_respect_to(name, wrt)

    def both(*args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        structures = [_argument(name, args, number, tensors) for number in numbers] if wrt is None else []
        value = function(*args, **kwargs)
        loss = value[0] if has_aux else value
        if not isinstance(loss, Tensor):
            raise _core.UsageError(f"{name}: the function has to return a tensor, not {type(loss).__name__}")
        if loss.shape != ():
            raise _core.UsageError(f"{name}: the value has shape {loss.shape}; it has to be a scalar, such as a mean")
        if wrt is not None:
            found = gradients(loss, of())
            return value, found[0] if isinstance(wrt, Tensor) else found
        found = gradients(loss, tensors)
        built = tuple(_build(structure, found) for structure in structures)
        return value, built if several else built[0]

    functools.update_wrapper(both, function)
    return Compiled(both, **options)


def _with_respect_to(name: str, wrt: Any) -> Callable[[], list[Tensor]]:
    """Gives the tensors of a Module at each call, or those of a list, which it checks."""
    if hasattr(wrt, "parameters"):
        return lambda: list(wrt.parameters(learnt=True))
    listed = isinstance(wrt, Iterable) and not isinstance(wrt, (Tensor, str, dict)) and not hasattr(wrt, "__array__")
    tensors = list(wrt) if listed else [] if wrt is None else [wrt]
    for at, one in enumerate(tensors):
        if not isinstance(one, Tensor):
            what = f"wrt[{at}]" if listed else "wrt"
            raise _core.UsageError(f"{name}: {what} is a {type(one).__name__}; wrt is a Module, a tensor or a list of tensors")
        if not _core.is_floating(one.dtype):
            raise _core.UsageError(f"{name}: a tensor of wrt is {one.dtype}, which has no gradient; convert it to f32 first")
    return lambda: tensors


def _argument(name: str, args: tuple[Any, ...], number: int, tensors: list[Tensor]) -> Any:
    """The structure of an argument, whose tensors are appended to the list."""
    if not -len(args) <= number < len(args):
        raise _core.UsageError(
            f"{name}: argnums has {number}, and the function is called with {len(args)} arguments by position; give that argument without its name, or wrt"
        )
    first = len(tensors)
    structure = _flatten(args[number], tensors)
    if _Constant in (kinds := list(_kinds(structure))) or Tensor not in kinds:
        raise _core.UsageError(f"{name}: argument {number} is or holds what is no tensor ({type(args[number]).__name__}); make one by nm.tensor, or choose others by argnums")
    for one in tensors[first:]:
        if not _core.is_floating(one.dtype):
            raise _core.UsageError(f"{name}: argument {number} is {one.dtype}, which has no gradient; convert it to f32 first, or choose others by argnums")
    return structure


def _kinds(structure: Any) -> Iterator[type]:
    """The kinds of the leaves of what _flatten gives: Tensor and _Constant."""
    kind, content = structure
    if kind in (Tensor, _Constant):
        yield kind
        return
    for one in content:
        yield from _kinds(one[1] if kind is dict else one)


def _check_options(name: str, function: Any, options: dict[str, Any], more: tuple[str, ...] = ()) -> None:
    """Throws UsageError for what is no function, and for options that `compile` does not have."""
    if not callable(function):
        raise _core.UsageError(f"{name}: takes a function, got {type(function).__name__}")
    for word in options:
        if word not in _OPTIONS:
            near = difflib.get_close_matches(word, (*_OPTIONS, *more), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join((*more, *_OPTIONS))}"
            raise _core.UsageError(f"{name}: there is no option '{word}'; {hint}")


class no_grad:
    """A scope in which gradients are not wanted, for programs that say so: Neurim records nothing outside of traces."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        return function
