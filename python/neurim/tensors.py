"""What tensors can do: operators, indexing, reductions and shapes, as methods of Tensor and as functions.

A tensor is a handle to stored data, or to a value inside a traced function. It does not change, but for `assign`. Names and
meanings are PyTorch's where it has them; dtypes are called f64, f32, f16, bf16, i64, …, u8 and bool, and PyTorch's and
NumPy's names are known too.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from operator import index as _whole
from typing import Any, Union

from . import _core
from ._core import Tensor, UsageError
from .arrays import is_arrow, is_table, tensor_of

Number = Union[builtins.int, builtins.float, builtins.bool]
Axes = Union[builtins.int, Sequence[builtins.int], None]

_RANKS = {"bool": 0, "u8": 1, "i8": 2, "u16": 3, "i16": 4, "u32": 5, "i32": 6, "u64": 7, "i64": 8, "f16": 9, "bf16": 10, "f32": 11, "f64": 12}
_OF_BOOLS = {
    "add": "logical_or", "maximum": "logical_or", "or": "logical_or", "mul": "logical_and", "minimum": "logical_and", "and": "logical_and",
    "xor": "not_equal",
}  # fmt: skip
# Functions of the op "integer", which is exact in all bits; other kernels compute whole numbers in f64.
_OF_INTEGERS = {"add": "add", "sub": "subtract", "mul": "multiply", "maximum": "maximum", "minimum": "minimum", "and": "and", "or": "or", "xor": "xor"}


def check_tensors(name: str, *inputs: object) -> None:
    """Throws UsageError where an input is no tensor."""
    for one in inputs:
        if not isinstance(one, Tensor):
            raise UsageError(f"{name}: takes tensors, got {type(one).__name__}; nm.tensor(x) makes one")


def call(name: str, inputs: Sequence[Tensor], **attributes: Any) -> list[Tensor]:
    """The outputs of an op. Throws UsageError where an input is no tensor."""
    check_tensors(name, *inputs)
    return _core.call(name, list(inputs), attributes)


def _one(name: str, *inputs: Tensor, **attributes: Any) -> Tensor:
    return call(name, inputs, **attributes)[0]


def _dtype(dtype: Any) -> str:
    """The name of a dtype that may be one of NumPy or PyTorch."""
    if isinstance(dtype, str):
        return str(_core.dtype_named(dtype))
    if dtype is builtins.float:
        return "f32"
    if dtype is builtins.int:
        return "i64"
    if dtype is builtins.bool:
        return "bool"
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
    return str(_core.dtype_named(name))


def tensor(data: Any, dtype: Any = None, device: str = "cpu") -> Tensor:
    """A tensor with a copy of the data: a number, nested lists, an array, or anything with `__dlpack__` or `__array__`.

    Columns and tables that export Arrow data (pyarrow, Polars, DuckDB, …) are taken, too: a column of numbers in one chunk
    shares its memory, which is read-only; tables, also frames of pandas, become (rows, columns).

    Floating numbers of Python become f32, whole ones i64; arrays keep their dtype, and lists of arrays are stacked. With a
    dtype, numbers are converted to it at once: no digit is lost on the way. Throws UsageError for rows of unequal length,
    for what holds no numbers, and for whole numbers that i64 (or u64, where that is asked for) does not hold.

    >>> import neurim as nm
    >>> nm.tensor([1, 2]).dtype, nm.tensor([1.0, 2]).dtype
    ('i64', 'f32')
    """
    name = None if dtype is None else _dtype(dtype)
    made = _from(data, name)
    made = made if name is None else made.to(name)
    return made if device == "cpu" else made.to(device)


def _from(data: Any, dtype: str | None) -> Tensor:
    if isinstance(data, Tensor):
        return data if data.traced else data.clone()
    if isinstance(data, (builtins.bool, builtins.int, builtins.float)):
        kind = "bool" if isinstance(data, builtins.bool) else "i64" if isinstance(data, builtins.int) else "f32"
        return _filled(data, dtype or kind)
    if isinstance(data, (list, tuple)):
        return _from_rows(data, dtype)
    if hasattr(data, "requires_grad") and hasattr(data, "detach"):
        data = data.detach().cpu().contiguous()
    if is_table(data):
        return tensor_of(data)
    if hasattr(data, "__dlpack__") or hasattr(data, "__array_interface__"):
        return _from_array(data, share=False)
    if hasattr(data, "__array__"):
        return _from_array(data.__array__(), share=False)
    raise UsageError(f"tensor: there is no way to make one of a {type(data).__name__}; give numbers, lists or an array")


def _is_array(kind: type) -> builtins.bool:
    """Whether objects of a class are arrays or columns. Scalars of NumPy give arrays, too, but have no length."""
    return (hasattr(kind, "__array__") and hasattr(kind, "__len__")) or hasattr(kind, "__arrow_c_array__") or hasattr(kind, "__arrow_c_stream__")


def _from_array(array: Any, share: builtins.bool) -> Tensor:
    dtype = getattr(array, "dtype", None)
    if getattr(dtype, "kind", "") in ("O", "U", "S"):
        raise UsageError(f"tensor: an array of {dtype} holds no numbers")
    if not getattr(dtype, "isnative", True):
        array = array.astype(array.dtype.newbyteorder("="))
    if hasattr(array, "flags") and not array.flags.c_contiguous:
        array = array.copy(order="C")
    elif hasattr(array, "is_contiguous") and not array.is_contiguous():
        array = array.contiguous()
    try:
        return _core.tensor_from(array, share)
    except TypeError:
        raise UsageError(f"tensor: there is no way to read a {type(array).__name__} of {dtype}; convert it to numbers or bool first") from None


def _from_rows(data: Sequence[Any], dtype: str | None) -> Tensor:
    shape, flat = [len(data)], list(data)
    while True:
        kinds = set(map(type, flat))
        if any(_is_array(kind) for kind in kinds):
            return stack([_from(one, dtype) for one in data])
        if not any(issubclass(kind, (list, tuple)) for kind in kinds):
            break
        lengths = {len(row) if isinstance(row, (list, tuple)) else "a number" for row in flat}
        if len(lengths) > 1:
            raise UsageError(f"tensor: rows have unequal lengths: {' and '.join(sorted(map(str, lengths)))}")
        shape.append(len(flat[0]))
        flat = [one for row in flat for one in row]
    if not kinds <= {builtins.bool, builtins.int, builtins.float}:
        flat = [_number(one) for one in flat]
    return _from_numbers(flat, shape, dtype)


def _number(value: Any) -> Number:
    """Of Python; from a scalar of NumPy, a fraction, and so on."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, (builtins.bool, builtins.int, builtins.float)):
        return number
    if not hasattr(number, "__float__"):
        raise UsageError(f"tensor: {value!r} is no number")
    return builtins.float(number)


def _from_numbers(flat: list[Any], shape: Sequence[builtins.int], dtype: str | None) -> Tensor:
    """Of numbers of Python, through the array whose elements lose none of their digits."""
    import array

    if not flat:
        return _core.full(tuple(shape), 0, dtype or "f32")
    if all(isinstance(one, builtins.bool) for one in flat):
        return _core.tensor_from(memoryview(array.array("B", flat)), False).to("bool").reshape(shape)
    whole = all(isinstance(one, builtins.int) for one in flat) and (dtype is None or not _core.is_floating(dtype))
    code = ("Q" if dtype == "u64" else "q") if whole else "f" if dtype in (None, "f32") else "d"
    try:
        return _core.tensor_from(memoryview(array.array(code, flat)), False).reshape(shape)
    except OverflowError:
        raise UsageError(f"tensor: a number is beyond the range of {({'q': 'i64', 'Q': 'u64'}).get(code, 'f64')}") from None


def from_dlpack(data: Any) -> Tensor:
    """A tensor in the memory of an array of NumPy, PyTorch, JAX and others, which it keeps alive; nothing is copied.

    Columns that export Arrow data are taken as `tensor` does. Where the memory is read-only, not contiguous or not aligned to 16 bytes it is a copy. Who changes the array afterwards
    changes the tensor.
    """
    if isinstance(data, Tensor):
        return data
    if is_arrow(data):
        return tensor_of(data)
    if hasattr(data, "requires_grad") and data.requires_grad:
        data = data.detach()
    return _from_array(data, share=getattr(getattr(data, "flags", None), "writeable", True))


def full(shape: Any, value: Number, dtype: Any = None) -> Tensor:
    """Every element `value`."""
    kind = "bool" if isinstance(value, builtins.bool) else "f32"
    return _filled(value, kind if dtype is None else _dtype(dtype), _shape((shape,)))


def zeros(*shape: Any, dtype: Any = "f32") -> Tensor:
    """Every element 0."""
    return _core.full(_shape(shape), 0, _dtype(dtype))


def ones(*shape: Any, dtype: Any = "f32") -> Tensor:
    """Every element 1."""
    return _core.full(_shape(shape), 1, _dtype(dtype))


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Zeros of the shape and dtype of x."""
    return _core.full(x.shape, 0, x.dtype if dtype is None else _dtype(dtype))


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Ones of the shape and dtype of x."""
    return _core.full(x.shape, 1, x.dtype if dtype is None else _dtype(dtype))


def arange(start: Number, end: Number | None = None, step: Number = 1, dtype: Any = None) -> Tensor:
    """From start (0 where there is one argument) up to, not including, end; computed in i64 or f64."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise UsageError("arange: step is 0")
    whole = all(isinstance(one, builtins.int) for one in (start, end, step))
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    made = _one("iota", n=builtins.max(0, count), dtype="i64" if whole else "f64") * step + start
    return made.to("i64" if whole else "f32") if dtype is None else made.to(dtype)


def rand(*shape: Any, dtype: Any = "f32") -> Tensor:
    """Uniform draws from [0, 1): see seed. In a traced function other ones at each call."""
    key, ordinal = _core.random_key()
    return _one("random_uniform", key, shape=list(_shape(shape)), low=0.0, high=1.0, ordinal=ordinal).to(dtype)


def randn(*shape: Any, dtype: Any = "f32") -> Tensor:
    """Normal draws of mean 0 and variance 1, by the transform of Box and Muller (1958)."""
    sizes = _shape(shape)
    radius = (-2 * (1 - rand(sizes)).log()).sqrt()
    return (radius * _one("math_function", rand(sizes) * (2 * math.pi), function="cos")).to(dtype)


def seed(number: builtins.int) -> None:
    """Makes draws of this thread, and the first weights of layers that are made from now on, repeat themselves."""
    from . import init

    _core.seed_random(number)
    init.seed(number)


def cat(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """Tensors one after the other along an axis; their other sizes are equal."""
    if len(tensors) == 0:
        raise UsageError("cat: there are no tensors; give one at least")
    check_tensors("cat", *tensors)
    return _one("concat", *_promoted(*tensors), axis=dim)


concat = cat


def stack(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    if len(tensors) == 0:
        raise UsageError("stack: there are no tensors; give one at least")
    check_tensors("stack", *tensors)
    return cat([one.unsqueeze(dim) for one in tensors], dim)


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b; shapes broadcast by NumPy's rule."""
    if not isinstance(a, Tensor):
        a = _like(a, b) if isinstance(b, Tensor) else tensor(a)
    holds = condition if isinstance(condition, Tensor) else tensor(condition)
    return _one("where", holds.to("bool"), *_pair(a, b))


def maximum(a: Any, b: Any) -> Tensor:
    """The larger of each two elements; NaN where one is."""
    return _binary("maximum")(*((a, b) if isinstance(a, Tensor) else (b, a)))


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of each two elements; NaN where one is."""
    return _binary("minimum")(*((a, b) if isinstance(a, Tensor) else (b, a)))


def _shape(shape: tuple[Any, ...]) -> tuple[builtins.int, ...]:
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return tuple(builtins.int(size) for size in sizes)


def _axes(dim: Axes) -> list[builtins.int]:
    if dim is None:
        return []
    return [_whole(one) for one in dim] if isinstance(dim, Sequence) else [_whole(dim)]


def _axis(x: Tensor, dim: builtins.int, more: builtins.int = 0) -> builtins.int:
    rank = x.ndim + more
    if not -rank <= dim < builtins.max(rank, 1):
        raise UsageError(f"dim is {dim}, and the tensor has {x.ndim} axes")
    return dim % builtins.max(rank, 1)


def _like(value: Any, x: Tensor) -> Tensor:
    """A number as a tensor of x's dtype; of f32 or i64 where that holds no such number. Other values as tensor() makes them."""
    if hasattr(value, "item") and not hasattr(value, "__len__"):  # a scalar of NumPy
        value = value.item()
    if not isinstance(value, (builtins.bool, builtins.int, builtins.float)):
        return tensor(value)
    dtype = x.dtype
    if not _core.is_floating(dtype):
        if isinstance(value, builtins.float):
            dtype = "f32"
        elif not isinstance(value, builtins.bool) and not _holds(dtype, value):
            dtype = "i64"
    made = _filled(value, dtype)
    return made if x.device == "cpu" else made.to(x.device)


def _holds(dtype: str, value: builtins.int) -> builtins.bool:
    if dtype == "bool":
        return False
    bits = builtins.int(dtype[1:])
    return 0 <= value < 1 << bits if dtype[0] == "u" else -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def _filled(value: Number, dtype: str, shape: tuple[builtins.int, ...] = ()) -> Tensor:
    # Values reach _core.full as f64, which holds whole numbers up to 2**53.
    if isinstance(value, builtins.int) and abs(value) > 2**53:
        return _from_numbers([value], [], dtype).expand(shape)
    return _core.full(shape, value, dtype)


def _promoted(*tensors: Tensor) -> list[Tensor]:
    """The tensors in the least dtype that has the numbers of all, as PyTorch chooses it."""
    dtypes = {one.dtype for one in tensors}
    if len(dtypes) == 1:
        return list(tensors)
    dtype = builtins.max(dtypes, key=_RANKS.__getitem__)
    if dtype == "bf16" and "f16" in dtypes:
        dtype = "f32"
    elif not _core.is_floating(dtype) and {"u", "i"} <= {one[0] for one in dtypes}:  # signed, of more bits than the unsigned ones
        bits = builtins.max(builtins.int(one[1:]) * (2 if one[0] == "u" else 1) for one in dtypes if one != "bool")
        dtype = f"i{builtins.min(bits, 64)}"
    return [one.to(dtype) for one in tensors]


def _pair(a: Tensor, b: Any) -> list[Tensor]:
    """Both in one dtype; b may be a number or an array."""
    return _promoted(a, b if isinstance(b, Tensor) else _like(b, a))


def _binary(name: str) -> Callable[[Tensor, Any], Tensor]:
    def op(a: Tensor, b: Any) -> Tensor:
        left, right = _pair(a, b)
        if left.dtype == "bool" and name in _OF_BOOLS:
            return _one(_OF_BOOLS[name], left, right)
        if name in _OF_INTEGERS and not _core.is_floating(left.dtype):
            return _integer(_OF_INTEGERS[name], left, right)
        if name in ("and", "or", "xor"):
            raise UsageError(f"{name}: takes bool or whole numbers, got {left.dtype}")
        return _one(name, left, right)

    op.__name__ = name
    op.__doc__ = f"The op {name}, element by element; shapes broadcast by NumPy's rule, and a number takes the tensor's dtype."
    return op


def _comparison(name: str) -> Callable[[Tensor, Any], Tensor]:
    def op(a: Tensor, b: Any) -> Tensor:
        left, right = _pair(a, b)
        if left.dtype not in ("i64", "u64"):
            return _one(name, left, right)
        # Kernels compare in f64, which does not hold all of these numbers: look at differences instead, which may wrap.
        if name in ("equal", "not_equal"):
            difference = _integer("subtract", left, right)
        else:
            low, high = (left, right) if name in ("less", "greater_equal") else (right, left)
            difference = _integer("subtract", _integer("maximum", low, high), low)
        return _one("equal" if name in ("equal", "less_equal", "greater_equal") else "not_equal", difference, _like(0, difference))

    op.__name__ = name
    op.__doc__ = f"The op {name}, element by element: bool; shapes broadcast by NumPy's rule."
    return op


def _usable(value: Any) -> builtins.bool:
    """Whether an operator makes a tensor of it."""
    known = isinstance(value, (Tensor, builtins.bool, builtins.int, builtins.float, list, tuple))
    return known or hasattr(value, "__array__") or hasattr(value, "__dlpack__") or is_arrow(value)


def _operator(function: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    def op(a: Tensor, b: Any) -> Tensor:
        return function(a, b) if _usable(b) else NotImplemented

    op.__doc__ = function.__doc__
    return op


def _swapped(function: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    def op(b: Tensor, a: Any) -> Tensor:
        return function(_like(a, b), b) if _usable(a) else NotImplemented

    return op


def _div(a: Tensor, b: Any) -> Tensor:
    """The quotient, floating."""
    left, right = _pair(a, b)
    if not _core.is_floating(left.dtype):
        left, right = left.to("f32"), right.to("f32")
    return _one("div", left, right)


def _integer(function: str, *inputs: Tensor) -> Tensor:
    return _one("integer", *(one.to("i64") if one.dtype == "bool" else one for one in inputs), function=function)


def _floor_quotient(a: Tensor, b: Tensor) -> Tensor:
    """The quotient of floating numbers, rounded down, in f64; -1 where it lies between f64's least number and 0."""
    quotient = _one("div", a, b)
    return where((quotient == 0) & (a.sign() * b.sign() < 0), -1.0, _one("floor", quotient))


def _floordiv(a: Tensor, b: Any) -> Tensor:
    """The quotient, rounded down; of whole numbers by 0: 0."""
    left, right = _pair(a, b)
    if _core.is_floating(left.dtype):
        return _floor_quotient(left.to("f64"), right.to("f64")).to(left.dtype)
    return _integer("divide", _integer("subtract", left, _integer("modulo", left, right)), right)


def _mod(a: Tensor, b: Any) -> Tensor:
    """What is left after the quotient that is rounded down: of the sign of b. Floating numbers are computed in f64."""
    left, right = _pair(a, b)
    if not _core.is_floating(left.dtype):
        return _integer("modulo", left, right)
    dividend, divisor = left.to("f64"), right.to("f64")
    quotient = _floor_quotient(dividend, divisor)
    return (dividend - where(quotient == 0, 0.0, quotient * divisor)).to(left.dtype)  # 0 times infinity is no number


def _pow(a: Tensor, b: Any) -> Tensor:
    """a to the power of b."""
    if isinstance(b, (builtins.int, builtins.float)) and b == 2 and (isinstance(b, builtins.int) or _core.is_floating(a.dtype)):
        return _square(a)
    left, right = _pair(a, b)
    if not _core.is_floating(left.dtype):
        return _integer("power", left, right)
    return _one("pow", left, right)


def _square(x: Tensor) -> Tensor:
    """x times x."""
    return _one("square", x) if _core.is_floating(x.dtype) else _integer("multiply", x, x)


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product, as NumPy's: vectors are a row or a column, further axes are batches that broadcast."""
    if not isinstance(b, Tensor):
        b = tensor(b)
    if a.ndim == 0 or b.ndim == 0:
        raise UsageError(f"matmul: shapes {a.shape} and {b.shape}; both have an axis at least")
    left, right = _promoted(a, b)
    left = left.unsqueeze(0) if a.ndim == 1 else left
    right = right.unsqueeze(1) if b.ndim == 1 else right
    out = _one("matmul", left, right)
    if b.ndim == 1:
        out = out.squeeze(-1)
    return out.squeeze(-2 if b.ndim > 1 else -1) if a.ndim == 1 else out


def _neg(x: Tensor) -> Tensor:
    """-x; of whole numbers it wraps."""
    return _one("neg", x) if _core.is_floating(x.dtype) else _integer("negative", x)


def _abs(x: Tensor) -> Tensor:
    """The absolute value of each element."""
    return _one("abs", x) if _core.is_floating(x.dtype) else _integer("absolute", x)


def _sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 for each element, in its dtype."""
    return _one("sign", x.to("i64") if x.dtype == "bool" else x)


def _floor(x: Tensor) -> Tensor:
    """The largest whole number that is not above each element, in its dtype."""
    return _one("floor", x) if _core.is_floating(x.dtype) else x


def _invert(x: Tensor) -> Tensor:
    """Of bool: whether it does not hold; of whole numbers: all bits the other way."""
    return _one("logical_not", x) if x.dtype == "bool" else _integer("not", x)


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    def method(x: Tensor) -> Tensor:
        return _one(name, x if _core.is_floating(x.dtype) else x.to("f32"))

    method.__name__ = name
    method.__doc__ = f"{name} of each element; whole numbers become f32."
    return method


def _math(name: str) -> Callable[[Tensor], Tensor]:
    def method(x: Tensor) -> Tensor:
        return _one("math_function", x if _core.is_floating(x.dtype) else x.to("f32"), function=name)

    method.__name__ = name
    method.__doc__ = f"{name} of each element."
    return method


def _isnan(x: Tensor) -> Tensor:
    """Whether each element is not a number."""
    return x != x


def _isinf(x: Tensor) -> Tensor:
    """Whether each element is infinite."""
    return _abs(x) == math.inf


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Takes NumPy's words for the arguments, axis and keepdims, too."""

    def method(x: Tensor, dim: Axes = None, keepdim: builtins.bool = False, *, axis: Axes = None, keepdims: builtins.bool = False) -> Tensor:
        return function(x, dim if axis is None else axis, keepdim or keepdims)

    method.__doc__ = function.__doc__
    return method


def _widened(x: Tensor) -> Tensor:
    """Narrow whole numbers and bool as i64, in which their sums and products are."""
    return x if _core.is_floating(x.dtype) or x.dtype == "u64" else x.to("i64")


def _sum(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The sum over an axis, several, or all; of whole numbers and bool: i64 (u64 stays)."""
    return _one("sum", _widened(x), axes=_axes(dim), keepdims=keepdim)


def _prod(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The product over an axis, several, or all; of whole numbers and bool: i64 (u64 stays). Of no elements: 1."""
    x = _widened(x)
    axes = sorted(_axis(x, axis) for axis in (range(x.ndim) if dim is None else _axes(dim)))
    for axis in axes:
        if x.shape[axis] == 0:
            x = ones(x.shape[:axis] + (1,) + x.shape[axis + 1 :], dtype=x.dtype)
        while (size := x.shape[axis]) > 1:
            first, second, rest = _split(x, [size // 2, size // 2, size % 2], axis)
            x = cat([first * second, rest], axis)
    return x if keepdim else _squeeze(x, axes) if axes else x


def _cumsum(x: Tensor, dim: builtins.int) -> Tensor:
    """The sums of all elements up to each one along an axis; of whole numbers and bool: i64. By Hillis and Steele (1986)."""
    x, axis = _widened(x), _axis(x, dim)
    size, shift = x.shape[axis], 1
    while shift < size:  # each element is the sum of the last `shift` ones
        head, tail = _split(x, [shift, size - shift], axis)
        x = cat([head, tail + _split(x, [size - shift, shift], axis)[0]], axis)
        shift *= 2
    return x


def _any(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """Whether one element at least is not 0, over an axis, several, or all."""
    return _sum(x.to("bool"), dim, keepdim) > 0


def _all(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """Whether no element is 0, over an axis, several, or all."""
    return _sum(_invert(x.to("bool")), dim, keepdim) == 0


def _mean(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The mean over an axis, several, or all; of floating elements, others become f32."""
    return _one("mean", x if _core.is_floating(x.dtype) else x.to("f32"), axes=_axes(dim), keepdims=keepdim)


def _var(
    x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False, *,
    unbiased: builtins.bool | None = None, axis: Axes = None, keepdims: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """The variance over axes, divided by their size less `correction`; unbiased=False is a correction of 0."""
    axes = _axes(dim if axis is None else axis) or list(range(x.ndim))
    less = correction if unbiased is None else builtins.int(unbiased)
    count = math.prod(x.shape[one] for one in axes)
    return _sum((x - _mean(x, axes, True)) ** 2, axes, keepdim or keepdims) / builtins.max(count - less, 0)


def _std(
    x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False, *,
    unbiased: builtins.bool | None = None, axis: Axes = None, keepdims: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """The root of the variance, whose arguments it takes. The gradient of a std of 0 is 0."""
    return _root(_var(x, dim, correction, keepdim, unbiased=unbiased, axis=axis, keepdims=keepdims))


def _root(x: Tensor) -> Tensor:
    """The square root, whose gradient at 0 is 0 instead of infinite."""
    zero = x == 0
    return where(zero, 0.0, where(zero, 1.0, x).sqrt())


def _norm(
    x: Tensor, p: Number | str = 2, dim: Axes = None, keepdim: builtins.bool = False, *, axis: Axes = None, keepdims: builtins.bool = False
) -> Tensor:  # fmt: skip
    """The p-norm of the elements over an axis, several, or all; "fro" is 2, and infinity the largest absolute value."""
    x, axes, keep = x if _core.is_floating(x.dtype) else x.to("f32"), dim if axis is None else axis, keepdim or keepdims
    if p in (2, "fro"):
        return _root(_sum(_square(x), axes, keep))
    if isinstance(p, str) or p <= 0:
        raise UsageError(f"norm: p is {p!r}; it is a number above 0, or 'fro'")
    size = _abs(x)
    if p == math.inf:
        return _max(size, axes, keep)
    return _sum(size, axes, keep) if p == 1 else _sum(size**p, axes, keep) ** (1 / p)


def _max(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The largest element over an axis, several, or all: the values alone; argmax says where they are."""
    return _one("reduce_max", x, axes=_axes(dim), keepdims=keepdim)


def _min(x: Tensor, dim: Axes, keepdim: builtins.bool) -> Tensor:
    """The smallest element over an axis, several, or all: the values alone; argmin says where they are."""
    return _one("reduce_min", x, axes=_axes(dim), keepdims=keepdim)


def _argmax(x: Tensor, dim: builtins.int | None, keepdim: builtins.bool) -> Tensor:
    """The index (i64) of the largest element, the first of equal ones; of all without an axis."""
    x = x.to("u8") if x.dtype == "bool" else x
    if dim is None:
        found = _one("argmax", x.flatten(), axis=0)
        return found.reshape((1,) * x.ndim) if keepdim else found
    return _one("argmax", x, axis=_axis(x, dim), keepdims=keepdim)


def _argmin(x: Tensor, dim: builtins.int | None, keepdim: builtins.bool) -> Tensor:
    """The index (i64) of the smallest element, the first of equal ones; of all without an axis."""
    # The bits the other way reverse the order of whole numbers and overflow nowhere, as -x does.
    return _argmax(-x if _core.is_floating(x.dtype) else _invert(x), dim, keepdim)


def _topk(x: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) along an axis in order, and their indices (i64)."""
    values, indices = call("top_k", [x], k=k, axis=dim, largest=largest)
    return values, indices


def _reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1, which follows from the others."""
    sizes = list(_shape(shape))
    total = math.prod(x.shape)
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) > 1 or known == 0 or total % known != 0:
            raise UsageError(f"reshape: shape {x.shape} does not fit {tuple(sizes)}")
        sizes[sizes.index(-1)] = total // known
    if math.prod(sizes) != total:
        raise UsageError(f"reshape: shape {x.shape} has {total} elements, {tuple(sizes)} has {math.prod(sizes)}")
    return x if tuple(sizes) == x.shape else _one("reshape", x, shape=sizes)


def _flatten(x: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    """The axes from start_dim to end_dim as one."""
    if x.ndim == 0:
        return x.reshape(1)
    first, last = _axis(x, start_dim), _axis(x, end_dim)
    if first > last:
        raise UsageError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}")
    return x.reshape(x.shape[:first] + (math.prod(x.shape[first : last + 1]),) + x.shape[last + 1 :])


def _permute(x: Tensor, *dims: Any) -> Tensor:
    """The axes in another order."""
    perm = [_axis(x, dim) for dim in _shape(dims)]
    return x if perm == list(range(x.ndim)) else _one("transpose", x, perm=perm)


def _transpose(x: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Two axes exchanged."""
    perm = list(range(x.ndim))
    first, second = _axis(x, dim0), _axis(x, dim1)
    perm[first], perm[second] = second, first
    return _one("transpose", x, perm=perm)


def _squeeze(x: Tensor, dim: Axes = None) -> Tensor:
    """Without axes of size 1: all of them, or those that are named."""
    chosen = range(x.ndim) if dim is None else [_axis(x, one) for one in _axes(dim)]
    return x.reshape([size for axis, size in enumerate(x.shape) if axis not in chosen or size != 1])


def _unsqueeze(x: Tensor, dim: builtins.int) -> Tensor:
    """With a new axis of size 1 there."""
    axis = _axis(x, dim, 1)
    return x.reshape(x.shape[:axis] + (1,) + x.shape[axis:])


def _expand(x: Tensor, *shape: Any) -> Tensor:
    """Repeated along axes of size 1; -1 leaves a size."""
    sizes = list(_shape(shape))
    offset = len(sizes) - x.ndim
    full_sizes = [x.shape[i - offset] if size == -1 and i >= offset else size for i, size in enumerate(sizes)]
    return _one("broadcast_to", x, shape=full_sizes)


def _repeat(x: Tensor, *counts: Any) -> Tensor:
    """All of it so many times along each axis."""
    times = _shape(counts)
    if len(times) < x.ndim or any(count < 0 for count in times):
        raise UsageError(f"repeat: counts are {times}; there is one of 0 or more for each of the {x.ndim} axes at least")
    x = x.reshape((1,) * (len(times) - x.ndim) + x.shape)
    for axis, count in enumerate(times):
        x = cat([x] * count, axis) if count > 1 else x if count == 1 else _split(x, [0, x.shape[axis]], axis)[0]
    return x


def _split(x: Tensor, sizes: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Pieces of these sizes along an axis; of a number: of that size, the last may be smaller."""
    axis = _axis(x, dim)
    if isinstance(sizes, builtins.int):
        if sizes <= 0:
            raise UsageError(f"split: the size is {sizes}; it is 1 or more")
        total = x.shape[axis]
        sizes = [builtins.min(sizes, total - at) for at in range(0, total, sizes)] or [0]
    return tuple(call("split", [x], sizes=list(sizes), axis=axis))


def _chunk(x: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """So many pieces along an axis, the last may be smaller."""
    if chunks <= 0:
        raise UsageError(f"chunk: the number of chunks is {chunks}; it is 1 or more")
    return _split(x, builtins.max(-(-x.shape[_axis(x, dim)] // chunks), 1), dim)


def _clamp(x: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor:
    """Each element brought into [min, max]. Whole numbers stay such where the bounds are."""
    if _core.is_floating(x.dtype):
        low = -math.inf if min is None else builtins.float(min)
        high = math.inf if max is None else builtins.float(max)
        return _one("clamp", x, low=low, high=high)
    out = x if min is None else maximum(x, min)
    out = out if max is None else minimum(out, max)
    return out if _core.is_floating(out.dtype) else out.to(x.dtype)


def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """value, in the dtype of x, where the mask holds, else x."""
    return where(mask, (value if isinstance(value, Tensor) else _like(value, x)).to(x.dtype), x)


def _indices(index: Tensor) -> Tensor:
    """Integers of the dtypes that ops take as indices."""
    if index.dtype == "bool" or _core.is_floating(index.dtype):
        raise IndexError(f"indices are {index.dtype}; they have to be integers")
    return index if index.dtype in ("i64", "i32") else index.to("i64")


def _inside(index: Tensor, size: builtins.int, axis: builtins.int, total: builtins.int) -> Tensor:
    """The indices along an axis, which are in [0, size); throws IndexError where one is not.

    A trace does not know the values: there such an index becomes `total`, the number of elements, so that the flat index is
    behind the end and the op gather throws DataError when the trace runs.
    """
    inside = (index >= 0) & (index < size)
    if _core.tracing():
        return where(inside, index, total)
    if not _all(inside, None, False).item():
        raise IndexError(f"an index for axis {axis}, whose size is {size}, is out of range")
    return index


def _flat_index(indices: Sequence[Tensor], sizes: Sequence[builtins.int]) -> Tensor:
    """The positions of elements with these indices along axes of these sizes as one axis; the indices broadcast."""
    flat = _filled(0, "i64")
    for index, size in zip(indices, sizes, strict=True):
        flat = flat * size + index
    return flat


def _gather(x: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for axis 0, and so on, as torch.gather; along other axes index may be smaller than x.

    Throws IndexError for an index outside [0, size); in a trace DataError when it runs.
    """
    check_tensors("gather", index)
    axis = _axis(x, dim)
    if index.ndim != x.ndim or any(a != axis and own > size for a, (own, size) in enumerate(zip(index.shape, x.shape, strict=True))):
        raise UsageError(f"gather: index of shape {index.shape} does not fit {x.shape} along axis {axis}")
    grids = [arange(size).reshape([-1 if a == b else 1 for b in range(x.ndim)]) for a, size in enumerate(index.shape)]
    grids[axis] = _inside(_indices(index), x.shape[axis], axis, x.numel())
    return _one("gather", x.flatten(), _flat_index(grids, x.shape), axis=0)


def _index_select(x: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """The slices of these numbers along an axis."""
    check_tensors("index_select", index)
    return _one("gather", x, _indices(index), axis=_axis(x, dim))


def _is_list(key: Any) -> builtins.bool:
    """Whether a key is a list or tensor of indices, or a mask. A traced scalar chooses by the op gather as they do."""
    return isinstance(key, (list, tuple)) or getattr(key, "ndim", 0) > 0 or isinstance(key, Tensor) and key.traced


def _keys(x: Tensor, key: Any) -> list[Any]:
    """One key for each axis of x, and None: without ..., and with a mask as the indices of its true elements."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for at, one in enumerate(keys):
        if _is_list(one) and not isinstance(one, Tensor):
            keys[at] = tensor(one) if len(one) > 0 else zeros(0, dtype="i64")
    masks = [isinstance(one, Tensor) and one.ndim > 0 and one.dtype == "bool" for one in keys]
    used = [one.ndim if mask else one is not None and one is not Ellipsis for one, mask in zip(keys, masks, strict=True)]
    if sum_of(used) > x.ndim:
        raise IndexError(f"there are {sum_of(used)} indices for a tensor of {x.ndim} axes")
    if sum_of(one is Ellipsis for one in keys) > 1:
        raise IndexError("there is more than one ...")
    made: list[Any] = []
    axis = 0
    for one, mask, count in zip(keys, masks, used, strict=True):
        if one is Ellipsis:
            count = x.ndim - sum_of(used)
            made += [slice(None)] * count
        elif mask:
            if one.shape != x.shape[axis : axis + count]:
                raise IndexError(f"a mask of shape {one.shape} does not fit axes of {x.shape[axis : axis + count]}")
            made += [tensor(indices) for indices in _numpy(one).nonzero()]
        else:
            made.append(_indices(one) if _is_list(one) else one)
        axis += count
    return made + [slice(None)] * (x.ndim - axis)


def _position(key: Any, size: builtins.int, axis: builtins.int) -> builtins.int:
    """The number of a key that is one, counted from the front."""
    try:
        if isinstance(key, builtins.bool) or getattr(getattr(key, "dtype", None), "kind", "") == "b":
            raise TypeError
        number = _whole(key)
    except TypeError:
        raise IndexError(f"an index is a {type(key).__name__}; it has to be a whole number, a slice, None, ..., a list or tensor of these, or a mask") from None
    if not -size <= number < size:
        raise IndexError(f"index {number} is out of range for axis {axis} with size {size}")
    return number % size


def _getitem(x: Tensor, key: Any) -> Tensor:
    """Numbers, slices, None, ..., tensors of integers and bool masks (of stored tensors) as in NumPy, but a copy.

    Throws IndexError for what is out of range; for an element of a single tensor of indices DataError.
    """
    cuts: list[tuple[builtins.int, builtins.int, builtins.int, builtins.int]] = []  # start, end, axis, step
    shape: list[builtins.int] = []  # after slicing, without the axes of numbers, with those of None
    chosen: list[tuple[builtins.int, Tensor]] = []  # tensors of indices and the axis that they choose from in `shape`
    places: list[builtins.int] = []  # of numbers and tensors of indices among the keys
    axis = 0
    for place, one in enumerate(_keys(x, key)):
        if one is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(one, slice):
            start, end, step = one.indices(size)
            if (start, end, step) != (0, size, 1):
                cuts.append((start, -size - 1 if step < 0 and end < 0 else end, axis, step))
            shape.append(len(range(start, end, step)))
        elif _is_list(one):
            chosen.append((len(shape), one))
            shape.append(size)
            places.append(place)
        else:
            number = _position(one, size, axis)
            cuts.append((number, number + 1, axis, 1))
            places.append(place)
        axis += 1
    out = x
    if cuts:
        starts, ends, axes, steps = (list(column) for column in zip(*cuts, strict=True))
        out = _one("slice", x, starts=starts, ends=ends, axes=axes, steps=steps)
    out = out.reshape(shape)
    if not chosen:
        return out
    # As in NumPy, what is chosen comes first where slices part the indices.
    first = 0 if places[-1] - places[0] >= len(places) else chosen[0][0]
    last = first + len(chosen)
    rest = [axis for axis in range(out.ndim) if axis not in dict(chosen)]
    out = out.permute(rest[:first] + [axis for axis, _ in chosen] + rest[first:])
    index = chosen[0][1]
    if len(chosen) > 1:
        sizes = out.shape[first:last]
        fronts = [where(one < 0, one + size, one) for (_, one), size in zip(chosen, sizes, strict=True)]
        total = math.prod(sizes)
        index = _flat_index([_inside(one, size, axis, total) for one, size, (axis, _) in zip(fronts, sizes, chosen, strict=True)], sizes)
        out = out.flatten(first, last - 1)
    return _one("gather", out, index, axis=first)


def sum_of(numbers: Iterable[builtins.int]) -> builtins.int:
    """Python's own sum, whose name is a method's here."""
    return builtins.sum(numbers)


def _to(x: Tensor, *targets: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """In another dtype, or on another device; itself where it is there already."""
    for target in targets:
        if isinstance(target, str) and (target in ("cpu",) or target.partition(":")[0] in ("cpu", "cuda", "test")):
            device = target
        elif target is not None:
            dtype = target
    if dtype is not None and (name := _dtype(dtype)) != x.dtype:
        x = _one("cast", x, dtype=name)
    return x if device is None else x._on(device)


def _numpy(x: Tensor) -> Any:
    """An array of NumPy in the tensor's memory, where that is the host's. Throws UsageError for bf16, which NumPy has not."""
    if x.dtype == "bf16":
        raise UsageError("numpy: NumPy has no bfloat16; use x.float().numpy()")
    return x._numpy()


def _array(x: Tensor, dtype: Any = None, copy: builtins.bool | None = None) -> Any:
    made = _numpy(x)
    return made.astype(dtype) if dtype is not None and made.dtype != dtype else made.copy() if copy else made


def _tolist(x: Tensor) -> Any:
    """Nested lists of numbers of Python; of a scalar the number."""
    if x.ndim == 0:
        return x.item()
    return _numpy(x.float() if x.dtype in ("bf16",) else x).tolist()


def _repr(x: Tensor) -> str:
    if x.traced:
        return f"Tensor(shape={x.shape}, dtype={x.dtype}, in a trace)"
    import numpy as np

    text = np.array2string(_numpy(x.float() if x.dtype == "bf16" else x), separator=", ", prefix="Tensor(")
    return f"Tensor({text}, {f'shape={x.shape}, ' if x.ndim > 1 and 0 in x.shape else ''}dtype={x.dtype})"


def _format(x: Tensor, spec: str) -> str:
    return format(x.item(), spec) if x.ndim == 0 and not x.traced else format(repr(x), spec)


def _index(x: Tensor) -> builtins.int:
    if x.dtype == "bool" or _core.is_floating(x.dtype):
        raise TypeError(f"a tensor of {x.dtype} is no index")
    return builtins.int(x.item())


def _reduce(x: Tensor) -> tuple[Any, ...]:
    return tensor, (_numpy(x.float() if x.dtype == "bf16" else x), x.dtype, x.device)


def _bool(x: Tensor) -> builtins.bool:
    return builtins.bool(x.item())


def _len(x: Tensor) -> builtins.int:
    if x.ndim == 0:
        raise TypeError("a scalar has no length")
    return builtins.int(x.shape[0])


def _iter(x: Tensor) -> Any:
    return (x[i] for i in range(_len(x)))


def _size(x: Tensor, dim: builtins.int | None = None) -> Any:
    """The shape, or the size along an axis."""
    return x.shape if dim is None else x.shape[dim]


def _numel(x: Tensor) -> builtins.int:
    """The number of elements."""
    return math.prod(x.shape)


def _dlpack(x: Tensor, **wanted: Any) -> Any:
    """For consumers of the array API: the tensor's memory, not a copy, where that is the host's."""
    return x._exchange().__dlpack__(**{key: value for key, value in wanted.items() if value is not None and key != "copy"})


def _arrow_c_array(x: Tensor, requested_schema: Any = None) -> tuple[Any, Any]:
    """For consumers of Arrow: numbers (N), or lists of fixed size (N,size), in the tensor's memory where that is the host's.

    bool is packed into bits, which is a copy, and numbers are cast where the schema asks for others. The export stays as it
    is when the tensor changes. Throws UsageError for bf16, which Arrow has not, and for a tensor without axes.
    """
    dtype = None if requested_schema is None else _core.arrow_dtype(requested_schema)
    return _core.arrow_array(x if dtype is None else _to(x, dtype))


def _dlpack_device(x: Tensor) -> tuple[builtins.int, builtins.int]:
    return (1, 0)


_OPERATORS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "truediv": _div, "floordiv": _floordiv, "mod": _mod, "pow": _pow,
    "matmul": _matmul, "and": _binary("and"), "or": _binary("or"), "xor": _binary("xor"), "eq": _comparison("equal"), "ne": _comparison("not_equal"),
    "lt": _comparison("less"), "le": _comparison("less_equal"), "gt": _comparison("greater"), "ge": _comparison("greater_equal"),
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum": _sum, "prod": _prod, "mean": _mean, "max": _max, "min": _min, "amax": _max, "amin": _min, "any": _any, "all": _all, "argmax": _argmax,
    "argmin": _argmin,
}  # fmt: skip
_METHODS: dict[str, Callable[..., Any]] = {
    **{f"__{word}__": _operator(function) for word, function in _OPERATORS.items()}, "__neg__": _neg, "__abs__": _abs, "__invert__": _invert,
    "__getitem__": _getitem, "__len__": _len, "__iter__": _iter, "__bool__": _bool, "__repr__": _repr, "__array__": _array,
    "__float__": lambda x: builtins.float(x.item()), "__int__": lambda x: builtins.int(x.item()), "__index__": _index,
    "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device, "__arrow_c_array__": _arrow_c_array, "__hash__": lambda x: hash(x._identity()), "__format__": _format,
    "__reduce__": _reduce,
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "div": _div, "matmul": _matmul, "pow": _pow, "maximum": _binary("maximum"),
    "minimum": _binary("minimum"), "neg": _neg, "abs": _abs, "exp": _unary("exp"), "log": _unary("log"), "sqrt": _unary("sqrt"),
    "rsqrt": _unary("rsqrt"), "reciprocal": _unary("reciprocal"), "square": _square, "floor": _floor, "sign": _sign,
    "erf": _unary("erf"), "sigmoid": _unary("sigmoid"), "tanh": _unary("tanh"), "relu": _unary("relu"), "sin": _math("sin"), "cos": _math("cos"),
    **{word: _reduction(function) for word, function in _REDUCTIONS.items()}, "var": _var, "std": _std, "norm": _norm, "cumsum": _cumsum,
    "isnan": _isnan, "isinf": _isinf, "masked_fill": _masked_fill,
    "topk": _topk, "reshape": _reshape, "view": _reshape, "flatten": _flatten, "permute": _permute, "transpose": _transpose, "squeeze": _squeeze,
    "unsqueeze": _unsqueeze, "expand": _expand, "repeat": _repeat, "split": _split, "chunk": _chunk, "clamp": _clamp, "clip": _clamp,
    "gather": _gather, "index_select": _index_select, "to": _to, "astype": _to, "type": _to, "numpy": _numpy, "tolist": _tolist, "size": _size,
    "numel": _numel, "dim": lambda x: x.ndim, "detach": lambda x: _one("detach", x), "contiguous": lambda x: x, "cpu": lambda x: x._on("cpu"),
    "float": lambda x: _to(x, "f32"), "double": lambda x: _to(x, "f64"), "half": lambda x: _to(x, "f16"), "bfloat16": lambda x: _to(x, "bf16"),
    "long": lambda x: _to(x, "i64"), "int": lambda x: _to(x, "i32"), "bool": lambda x: _to(x, "bool"),
    "softmax": lambda x, dim: _one("softmax", x, axis=dim), "log_softmax": lambda x, dim: _one("log_softmax", x, axis=dim),
    "__rmod__": _swapped(_mod), "__rand__": _swapped(_OPERATORS["and"]), "__ror__": _swapped(_OPERATORS["or"]), "__rxor__": _swapped(_OPERATORS["xor"]),
    "__deepcopy__": lambda x, memo: x.clone(), "t": lambda x: x if x.ndim < 2 else _transpose(x, 0, 1),
}  # fmt: skip
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name in ("add", "mul", "sub", "truediv", "floordiv", "pow", "matmul"):
    setattr(Tensor, f"__r{_name}__", _swapped(_OPERATORS[_name]))
setattr(Tensor, "__array_priority__", 1000)  # NumPy's operators leave a tensor at their right to the tensor's own
setattr(Tensor, "__array_ufunc__", None)
setattr(Tensor, "T", property(lambda x: _permute(x, *reversed(range(x.ndim)))))
setattr(Tensor, "mT", property(lambda x: _transpose(x, -2, -1)))
