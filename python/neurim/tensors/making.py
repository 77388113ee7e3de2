"""Tensors made of numbers, lists, arrays, draws and other tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence
from operator import index as index_of
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from ..arrays import is_arrow, is_table, tensor_of
from .common import Number, _dtype, _integral, _one, _promoted, _real, _shape, check_tensors


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
    if hasattr(data, "__dlpack__") or hasattr(type(data), "__array_interface__") or hasattr(data, "__array_interface__"):
        return _from_array(data, share=False)
    if hasattr(data, "__array__"):
        return _from_array(data.__array__(), share=False)
    raise UsageError(f"tensor: there is no way to make one of a {type(data).__name__}; give numbers, lists or an array")


def _is_array(kind: type) -> builtins.bool:
    """Whether objects of a class are arrays or columns. Scalars of NumPy give arrays, too, but have no length."""
    return (hasattr(kind, "__array__") and hasattr(kind, "__len__")) or hasattr(kind, "__arrow_c_array__") or hasattr(kind, "__arrow_c_stream__")


def _from_array(array: Any, share: builtins.bool) -> Tensor:
    if not hasattr(array, "__dlpack__") and hasattr(type(array), "__array_interface__"):  # such as images of Pillow
        import numpy as np

        array = np.asarray(array)
        share = share and array.flags.writeable
    dtype = getattr(array, "dtype", None)
    if str(dtype) == "torch.bool" and array.device.type == "cpu":  # older versions of PyTorch do not export it
        array = array.numpy()
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
    """Every element `value`, which decides the dtype where none is given, as in `tensor`."""
    value = _number(value)
    kind = "bool" if isinstance(value, builtins.bool) else "i64" if isinstance(value, builtins.int) else "f32"
    return _filled(value, kind if dtype is None else _dtype(dtype), _shape((shape,)))


def zeros(*shape: Any, dtype: Any = "f32") -> Tensor:
    """Every element 0."""
    return _core.full(_shape(shape), 0, _dtype(dtype))


def ones(*shape: Any, dtype: Any = "f32") -> Tensor:
    """Every element 1."""
    return _core.full(_shape(shape), 1, _dtype(dtype))


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Zeros of the shape and dtype of x."""
    check_tensors("zeros_like", x)
    return _core.full(x.shape, 0, x.dtype if dtype is None else _dtype(dtype))


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Ones of the shape and dtype of x."""
    check_tensors("ones_like", x)
    return _core.full(x.shape, 1, x.dtype if dtype is None else _dtype(dtype))


def full_like(x: Tensor, value: Number, dtype: Any = None) -> Tensor:
    """Of the shape and dtype of x, every element `value`."""
    check_tensors("full_like", x)
    return _filled(_number(value), x.dtype if dtype is None else _dtype(dtype), x.shape)


def eye(n: builtins.int, m: builtins.int | None = None, dtype: Any = "f32") -> Tensor:
    """Ones on the diagonal of (n,m), or of (n,n), else zeros."""
    rows, columns = _shape((n, n if m is None else m))
    return (arange(rows).reshape(rows, 1) == arange(columns)).to(dtype)


def linspace(start: Number, end: Number, steps: builtins.int, dtype: Any = "f32") -> Tensor:
    """So many numbers at equal distances from start to end, both included; computed in f64."""
    steps = _integral(steps, "linspace: steps")
    if steps < 0:
        raise UsageError(f"linspace: steps is {steps}; it is 0 or more")
    first, last = _real(start, "linspace: start"), _real(end, "linspace: end")
    if steps == 1:
        return full((1,), first, dtype)
    step, at = (last - first) / builtins.max(steps - 1, 1), arange(steps).to("f64")
    half = steps // 2  # both ends are exact
    return cat([at[:half] * step + first, last - (steps - 1 - at[half:]) * step]).to(dtype)


def arange(start: Number, end: Number | None = None, step: Number = 1, dtype: Any = None) -> Tensor:
    """From start (0 where there is one argument) up to, not including, end; i64 of whole numbers, else f32 computed in f64."""
    if end is None:
        start, end = 0, start
    start, end, step = (one if isinstance(one, builtins.int) else _plain(one) for one in (start, end, step))
    if step == 0:
        raise UsageError("arange: step is 0")
    whole = all(isinstance(one, builtins.int) for one in (start, end, step))
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    made = _one("iota", n=builtins.max(0, count), dtype="i64" if whole else "f64") * step + start
    return made.to("i64" if whole else "f32") if dtype is None else made.to(dtype)


def _plain(value: Any) -> Number:
    """A number of Python: a whole one of whatever is an index, else a float."""
    try:
        return index_of(value)
    except TypeError:
        return _real(value, "arange: a number")


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
    from .. import init

    number = checked_seed("seed: the number", number)
    _core.seed_random(number)
    init.seed(number)


def set_threads(threads: builtins.int) -> None:
    """How many threads compute, from now on; 1 to 1024."""
    _core.set_threads(_integral(threads, "set_threads: threads"))


def checked_seed(what: str, number: Any) -> builtins.int:
    """The number of a seed. Throws UsageError for what is none."""
    number = _integral(number, what)
    if not 0 <= number < 1 << 64:
        raise UsageError(f"{what} is {number}; it is 0 or more, and of 64 bits at most")
    return builtins.int(number)


def cat(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """Tensors one after the other along an axis; their other sizes are equal."""
    listed = _listed("cat", tensors)
    return _one("concat", *_promoted(*listed), axis=_integral(dim, "cat: dim"))


concat = cat


def stack(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return cat([one.unsqueeze(dim) for one in _listed("stack", tensors)], dim)


def _listed(name: str, tensors: Any) -> list[Tensor]:
    """The tensors, one at least. Throws UsageError for others."""
    if not isinstance(tensors, Iterable):
        raise UsageError(f"{name}: takes a list of tensors, got {type(tensors).__name__}")
    listed = list(tensors)
    if not listed:
        raise UsageError(f"{name}: there are no tensors; give one at least")
    check_tensors(name, *listed)
    return listed


def _filled(value: Number, dtype: str, shape: tuple[builtins.int, ...] = ()) -> Tensor:
    # Values reach _core.full as f64, which holds whole numbers up to 2**53.
    if isinstance(value, builtins.int) and abs(value) > 2**53:
        return _from_numbers([value], [], dtype).expand(shape)
    return _core.full(shape, value, dtype)
