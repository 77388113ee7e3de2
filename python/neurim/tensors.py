"""What tensors can do: operators, indexing, reductions and shapes, as methods of Tensor and as functions.

A tensor is a handle to stored data, or to a value inside a traced function. It does not change, but for `assign`. Names and
meanings are PyTorch's where it has them; dtypes are called f64, f32, f16, bf16, i64, …, u8 and bool, and PyTorch's and
NumPy's names are known too.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union

from . import _core
from ._core import Tensor, UsageError

Number = Union[builtins.int, builtins.float, builtins.bool]
Axes = Union[builtins.int, Sequence[builtins.int], None]

_RANKS = {"bool": 0, "u8": 1, "i8": 2, "u16": 3, "i16": 4, "u32": 5, "i32": 6, "u64": 7, "i64": 8, "f16": 9, "bf16": 10, "f32": 11, "f64": 12}


def _one(name: str, *inputs: Tensor, **attributes: Any) -> Tensor:
    return _core.call(name, list(inputs), attributes)[0]


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

    Floating numbers of Python become f32, whole ones i64; arrays keep their dtype. Throws UsageError for rows of unequal length.

    >>> import neurim as nm
    >>> nm.tensor([1, 2]).dtype, nm.tensor([1.0, 2]).dtype
    ('i64', 'f32')
    """
    made = _from(data)
    made = made if dtype is None else made.to(dtype)
    return made if device == "cpu" else made.to(device)


def _from(data: Any) -> Tensor:
    if isinstance(data, Tensor):
        return data if data.traced else data.clone()
    if isinstance(data, (builtins.bool, builtins.int, builtins.float)):
        return _core.full((), data, "bool" if isinstance(data, builtins.bool) else "i64" if isinstance(data, builtins.int) else "f32")
    if hasattr(data, "requires_grad") and hasattr(data, "detach"):
        data = data.detach().cpu().contiguous()
    if isinstance(data, (list, tuple)):
        if any(isinstance(one, Tensor) for one in data):
            return stack([one if isinstance(one, Tensor) else tensor(one) for one in data])
        return _from_rows(data)
    if hasattr(data, "__dlpack__") or hasattr(data, "__array_interface__"):
        return _from_array(data, share=False)
    if hasattr(data, "__array__"):
        return _from_array(data.__array__(), share=False)
    raise UsageError(f"tensor: there is no way to make one of a {type(data).__name__}; give numbers, lists or an array")


def _from_array(array: Any, share: builtins.bool) -> Tensor:
    if getattr(array, "dtype", None) is not None and getattr(array.dtype, "kind", "") in ("O", "U", "S"):
        raise UsageError(f"tensor: an array of {array.dtype} holds no numbers")
    if hasattr(array, "flags") and not array.flags.c_contiguous:
        array = array.copy(order="C")
    elif hasattr(array, "is_contiguous") and not array.is_contiguous():
        array = array.contiguous()
    return _core.tensor_from(array, share)


def _from_rows(data: Sequence[Any]) -> Tensor:
    import array

    shape: list[builtins.int] = []
    level: Sequence[Any] = data
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    flat: list[Any] = list(data)
    for size in shape[1:]:
        for row in flat:
            if not isinstance(row, (list, tuple)) or len(row) != size:
                raise UsageError(f"tensor: rows have unequal lengths: {size} and {len(row) if isinstance(row, (list, tuple)) else 'a number'}")
        flat = [one for row in flat for one in row]
    for one in flat:
        if not isinstance(one, (builtins.bool, builtins.int, builtins.float)) and not hasattr(one, "__float__"):
            raise UsageError(f"tensor: {one!r} is no number")
        if isinstance(one, (list, tuple)):
            raise UsageError("tensor: rows have unequal depths")
    if flat and all(isinstance(one, builtins.bool) for one in flat):
        return _core.tensor_from(memoryview(array.array("B", flat)), False).to("bool").reshape(shape)
    if flat and all(isinstance(one, builtins.int) for one in flat):
        return _core.tensor_from(memoryview(array.array("q", flat)), False).reshape(shape)
    if not flat:
        return _core.full(tuple(shape), 0, "f32")
    return _core.tensor_from(memoryview(array.array("f", [builtins.float(one) for one in flat])), False).reshape(shape)


def from_dlpack(data: Any) -> Tensor:
    """A tensor in the memory of an array of NumPy, PyTorch, JAX and others, which it keeps alive; nothing is copied.

    Where the memory is not aligned to 16 bytes or not contiguous it is a copy. Who changes the array afterwards changes the tensor.
    """
    if isinstance(data, Tensor):
        return data
    if hasattr(data, "requires_grad") and data.requires_grad:
        data = data.detach()
    return _from_array(data, share=True)


def full(shape: Any, value: Number, dtype: Any = None) -> Tensor:
    """Every element `value`."""
    kind = "bool" if isinstance(value, builtins.bool) else "f32"
    return _core.full(_shape((shape,)), value, kind if dtype is None else _dtype(dtype))


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
    """From start (0 where there is one argument) up to, not including, end."""
    if end is None:
        start, end = 0, start
    count = builtins.max(0, math.ceil((end - start) / step))
    whole = all(isinstance(one, builtins.int) for one in (start, end, step))
    made = _one("iota", n=count, dtype="i64") * step + start if whole else _one("iota", n=count, dtype="f32") * step + start
    return made if dtype is None else made.to(dtype)


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
    return _core.call("concat", _promoted(*tensors), {"axis": dim})[0]


concat = cat


def stack(tensors: Sequence[Tensor], dim: builtins.int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return cat([one.unsqueeze(dim) for one in tensors], dim)


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b; shapes broadcast by NumPy's rule."""
    if not isinstance(a, Tensor):
        a = _like(a, b) if isinstance(b, Tensor) else tensor(a)
    left, right = _promoted(a, b if isinstance(b, Tensor) else _like(b, a))
    return _one("where", condition.to("bool"), left, right)


def maximum(a: Any, b: Any) -> Tensor:
    """The larger of each two elements; NaN where one is."""
    larger: Tensor = _binary("maximum")(*((a, b) if isinstance(a, Tensor) else (b, a)))
    return larger


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of each two elements; NaN where one is."""
    smaller: Tensor = _binary("minimum")(*((a, b) if isinstance(a, Tensor) else (b, a)))
    return smaller


def _shape(shape: tuple[Any, ...]) -> tuple[builtins.int, ...]:
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return tuple(builtins.int(size) for size in sizes)


def _axes(x: Tensor, dim: Axes) -> list[builtins.int]:
    if dim is None:
        return []
    return [dim] if isinstance(dim, builtins.int) else list(dim)


def _axis(x: Tensor, dim: builtins.int, more: builtins.int = 0) -> builtins.int:
    rank = x.ndim + more
    if not -rank <= dim < builtins.max(rank, 1):
        raise UsageError(f"dim is {dim}, and the tensor has {x.ndim} axes")
    return dim % builtins.max(rank, 1)


def _like(value: Any, x: Tensor) -> Tensor:
    """A number as a tensor of the dtype that it and x have together."""
    if not isinstance(value, (builtins.bool, builtins.int, builtins.float)):
        return tensor(value)
    dtype = x.dtype
    if isinstance(value, builtins.float) and not _core.is_floating(dtype):
        dtype = "f32"
    elif isinstance(value, builtins.int) and not isinstance(value, builtins.bool) and dtype == "bool":
        dtype = "i64"
    made = _core.full((), value, dtype)
    return made if x.device == "cpu" else made.to(x.device)


def _promoted(*tensors: Tensor) -> list[Tensor]:
    """The tensors in the least dtype that has the numbers of all, as PyTorch chooses it."""
    dtypes = {one.dtype for one in tensors}
    if len(dtypes) == 1:
        return list(tensors)
    dtype = builtins.max(dtypes, key=_RANKS.__getitem__)
    if dtypes >= {"f16", "bf16"} and dtype == "bf16":
        dtype = "f32"
    return [one.to(dtype) for one in tensors]


def _binary(name: str) -> Callable[[Tensor, Any], Any]:
    def op(a: Tensor, b: Any) -> Any:
        if not isinstance(b, Tensor):
            if b is None or isinstance(b, str):
                return NotImplemented
            b = _like(b, a)
        left, right = _promoted(a, b)
        if left.dtype == "bool" and name in ("sub", "mul", "add", "maximum", "minimum"):
            left, right = left.to("i64"), right.to("i64")
        return _one(name, left, right)

    op.__name__ = name
    op.__doc__ = f"The op {name}, element by element; shapes broadcast by NumPy's rule, and a number takes the tensor's dtype."
    return op


def _swapped(name: str) -> Callable[[Tensor, Any], Any]:
    def op(b: Tensor, a: Any) -> Any:
        return _METHODS[name](a if isinstance(a, Tensor) else _like(a, b), b)

    return op


def _div(a: Tensor, b: Any) -> Tensor:
    """The quotient, floating."""
    b = b if isinstance(b, Tensor) else _like(b, a)
    left, right = _promoted(a, b)
    if not _core.is_floating(left.dtype):
        left, right = left.to("f32"), right.to("f32")
    return _one("div", left, right)


def _integer(function: str, a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == "bool":
        a, b = a.to("i64"), b.to("i64")
    return _one("integer", a, b, function=function)


def _floordiv(a: Tensor, b: Any) -> Tensor:
    """The quotient, rounded down; of whole numbers by 0: 0."""
    left, right = _promoted(a, b if isinstance(b, Tensor) else _like(b, a))
    if _core.is_floating(left.dtype):
        return _one("floor", _one("div", left, right))
    return _integer("divide", _integer("subtract", left, _integer("modulo", left, right)), right)


def _mod(a: Tensor, b: Any) -> Tensor:
    """What is left after the quotient that is rounded down: of the sign of b."""
    left, right = _promoted(a, b if isinstance(b, Tensor) else _like(b, a))
    if _core.is_floating(left.dtype):
        return left - _floordiv(left, right) * right
    return _integer("modulo", left, right)


def _pow(a: Tensor, b: Any) -> Tensor:
    """a to the power of b."""
    if isinstance(b, (builtins.int, builtins.float)) and b == 2:
        return _one("square", a) if _core.is_floating(a.dtype) else a * a
    left, right = _promoted(a, b if isinstance(b, Tensor) else _like(b, a))
    if not _core.is_floating(left.dtype):
        return _integer("power", left, right)
    return _one("pow", left, right)


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
    """-x"""
    return _one("neg", x) if _core.is_floating(x.dtype) else 0 - x


def _invert(x: Tensor) -> Tensor:
    """Whether x does not hold; x is bool."""
    return _one("logical_not", x)


def _logical(name: str) -> Callable[[Tensor, Any], Tensor]:
    def op(a: Tensor, b: Any) -> Tensor:
        return _one(name, a.to("bool"), (b if isinstance(b, Tensor) else tensor(b)).to("bool"))

    return op


def _unary(name: str, op: str | None = None) -> Callable[[Tensor], Tensor]:
    def method(x: Tensor) -> Tensor:
        x = x if _core.is_floating(x.dtype) or name in ("abs", "sign") else x.to("f32")
        return _one(op or name, x)

    method.__name__ = name
    method.__doc__ = f"{name} of each element."
    return method


def _math(name: str) -> Callable[[Tensor], Tensor]:
    def method(x: Tensor) -> Tensor:
        return _one("math_function", x if _core.is_floating(x.dtype) else x.to("f32"), function=name)

    method.__name__ = name
    method.__doc__ = f"{name} of each element."
    return method


def _sum(x: Tensor, dim: Axes = None, keepdim: builtins.bool = False) -> Tensor:
    """The sum over an axis, several, or all."""
    return _one("sum", x.to("i64") if x.dtype == "bool" else x, axes=_axes(x, dim), keepdims=keepdim)


def _mean(x: Tensor, dim: Axes = None, keepdim: builtins.bool = False) -> Tensor:
    """The mean over an axis, several, or all; of floating elements, others become f32."""
    return _one("mean", x if _core.is_floating(x.dtype) else x.to("f32"), axes=_axes(x, dim), keepdims=keepdim)


def _var(x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False) -> Tensor:
    """The variance over axes, divided by their size less `correction`."""
    axes = _axes(x, dim) or list(range(x.ndim))
    count = math.prod(x.shape[axis] for axis in axes)
    return ((x - _mean(x, axes, True)) ** 2).sum(axes, keepdim) / builtins.max(count - correction, 0)


def _std(x: Tensor, dim: Axes = None, correction: builtins.int = 1, keepdim: builtins.bool = False) -> Tensor:
    """The root of the variance."""
    return _var(x, dim, correction, keepdim).sqrt()


def _max(x: Tensor, dim: Axes = None, keepdim: builtins.bool = False) -> Tensor:
    """The largest element over an axis, several, or all: the values alone; argmax says where they are."""
    return _one("reduce_max", x, axes=_axes(x, dim), keepdims=keepdim)


def _min(x: Tensor, dim: Axes = None, keepdim: builtins.bool = False) -> Tensor:
    """The smallest element over an axis, several, or all: the values alone; argmin says where they are."""
    return _one("reduce_min", x, axes=_axes(x, dim), keepdims=keepdim)


def _argmax(x: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
    """The index (i64) of the largest element, the first of equal ones; of all without an axis."""
    return _one("argmax", x.flatten() if dim is None else x, axis=0 if dim is None else _axis(x, dim), keepdims=keepdim)


def _argmin(x: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
    """The index (i64) of the smallest element, the first of equal ones; of all without an axis."""
    return _argmax(-x, dim, keepdim)


def _topk(x: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) along an axis in order, and their indices (i64)."""
    values, indices = _core.call("top_k", [x], {"k": k, "axis": dim, "largest": largest})
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
    return x.reshape(x.shape[:first] + (math.prod(x.shape[first : last + 1]),) + x.shape[last + 1 :])


def _permute(x: Tensor, *dims: Any) -> Tensor:
    """The axes in another order."""
    return _one("transpose", x, perm=[_axis(x, dim) for dim in _shape(dims)])


def _transpose(x: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Two axes exchanged."""
    perm = list(range(x.ndim))
    first, second = _axis(x, dim0), _axis(x, dim1)
    perm[first], perm[second] = second, first
    return _one("transpose", x, perm=perm)


def _squeeze(x: Tensor, dim: Axes = None) -> Tensor:
    """Without axes of size 1: all of them, or those that are named."""
    chosen = range(x.ndim) if dim is None else [_axis(x, one) for one in _axes(x, dim)]
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
    x = x.reshape((1,) * (len(times) - x.ndim) + x.shape)
    for axis, count in enumerate(times):
        x = cat([x] * count, axis) if count != 1 else x
    return x


def _split(x: Tensor, sizes: builtins.int | Sequence[builtins.int], dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Pieces of these sizes along an axis; of a number: of that size, the last may be smaller."""
    total = x.shape[_axis(x, dim)]
    if isinstance(sizes, builtins.int):
        sizes = [builtins.min(sizes, total - at) for at in range(0, total, sizes)]
    return tuple(_core.call("split", [x], {"sizes": list(sizes), "axis": _axis(x, dim)}))


def _chunk(x: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """So many pieces along an axis, the last may be smaller."""
    return _split(x, -(-x.shape[_axis(x, dim)] // chunks), dim)


def _clamp(x: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor:
    """Each element brought into [min, max]."""
    low = -math.inf if min is None else builtins.float(min)
    high = math.inf if max is None else builtins.float(max)
    return _one("clamp", x, low=low, high=high)


def _gather(x: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for axis 0, and so on, as torch.gather, where the other sizes are those of x."""
    axis = _axis(x, dim)
    grids = [index if a == axis else arange(size).reshape([-1 if a == b else 1 for b in range(x.ndim)]) for a, size in enumerate(index.shape)]
    flat = _core.full((), 0, "i64")
    for grid, size in zip(grids, x.shape, strict=True):
        flat = flat * size + grid
    return _one("gather", x.flatten(), flat, axis=0)


def _index_select(x: Tensor, dim: builtins.int, index: Tensor) -> Tensor:
    """The slices of these numbers along an axis."""
    return _one("gather", x, index, axis=_axis(x, dim))


def _getitem(x: Tensor, key: Any) -> Tensor:
    """Numbers, slices, None and ... as in NumPy; one tensor of integers; a bool mask of stored tensors."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(one is Ellipsis for one in keys):
        at = next(i for i, one in enumerate(keys) if one is Ellipsis)
        used = sum_of(1 for one in keys if one is not None and one is not Ellipsis)
        keys[at : at + 1] = [slice(None)] * (x.ndim - used)
    used = sum_of(1 for one in keys if one is not None)
    if used > x.ndim:
        raise IndexError(f"there are {used} indices for a tensor of {x.ndim} axes")
    cuts: list[tuple[builtins.int, builtins.int, builtins.int, builtins.int]] = []  # start, end, axis, step
    shape: list[builtins.int] = []  # after slicing, without the axes of numbers, with those of None
    chosen: list[tuple[builtins.int, Tensor]] = []  # tensors of indices and the axis that they choose from in `shape`
    axis = 0
    for one in keys + [slice(None)] * (x.ndim - used):
        if one is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        if isinstance(one, slice):
            start, end, step = one.indices(size)
            count = len(range(start, end, step))
            if (start, end, step) != (0, size, 1):
                cuts.append((start, -size - 1 if step < 0 and end < 0 else end, axis, step))
            shape.append(count)
        elif isinstance(one, Tensor) and one.ndim > 0 or isinstance(one, (list, tuple)) or hasattr(one, "__array__") and getattr(one, "ndim", 0) > 0:
            index = one if isinstance(one, Tensor) else tensor(one)
            if index.dtype == "bool":
                if index.shape != (size,):
                    raise IndexError(f"a mask of shape {index.shape} does not fit an axis of {size}")
                index = tensor([i for i, holds in enumerate(index.tolist()) if holds], dtype="i64") if any(index.tolist()) else zeros((0,), dtype="i64")
            chosen.append((len(shape), index))
            shape.append(size)
        else:
            number = builtins.int(one)
            if not -size <= number < size:
                raise IndexError(f"index {number} is out of range for axis {axis} with size {size}")
            cuts.append((number % size, number % size + 1, axis, 1))
        axis += 1
    out = x
    if cuts:
        starts, ends, axes, steps = (list(column) for column in zip(*cuts, strict=True))
        out = _one("slice", x, starts=starts, ends=ends, axes=axes, steps=steps)
    out = out.reshape(shape)
    if len(chosen) > 1:
        raise IndexError("one tensor of indices at a time; index by one, then by the other")
    for at, index in chosen:
        out = _one("gather", out, where(index < 0, index + out.shape[at], index), axis=at)
    return out


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
    shown = _numpy(x.float() if x.dtype == "bf16" else x)
    text = repr(shown).removeprefix("array(").rsplit(", dtype", 1)[0].rstrip(")")
    return f"Tensor({text}, dtype={x.dtype})"


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


def _dlpack_device(x: Tensor) -> tuple[builtins.int, builtins.int]:
    return (1, 0)


_METHODS: dict[str, Callable[..., Any]] = {
    "__add__": _binary("add"), "__sub__": _binary("sub"), "__mul__": _binary("mul"), "__truediv__": _div, "__floordiv__": _floordiv,
    "__mod__": _mod, "__pow__": _pow, "__matmul__": _matmul, "__neg__": _neg, "__abs__": _unary("abs"), "__invert__": _invert,
    "__lt__": _binary("less"), "__le__": _binary("less_equal"), "__gt__": _binary("greater"), "__ge__": _binary("greater_equal"),
    "__eq__": _binary("equal"), "__ne__": _binary("not_equal"), "__and__": _logical("logical_and"), "__or__": _logical("logical_or"),
    "__getitem__": _getitem, "__len__": _len, "__iter__": _iter, "__bool__": _bool, "__repr__": _repr, "__array__": _array,
    "__float__": lambda x: builtins.float(x.item()), "__int__": lambda x: builtins.int(x.item()), "__index__": lambda x: x.item(),
    "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device, "__hash__": lambda x: hash(x._identity()),
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "div": _div, "matmul": _matmul, "pow": _pow, "maximum": _binary("maximum"),
    "minimum": _binary("minimum"), "neg": _neg, "abs": _unary("abs"), "exp": _unary("exp"), "log": _unary("log"), "sqrt": _unary("sqrt"),
    "rsqrt": _unary("rsqrt"), "reciprocal": _unary("reciprocal"), "square": _unary("square"), "floor": _unary("floor"), "sign": _unary("sign"),
    "erf": _unary("erf"), "sigmoid": _unary("sigmoid"), "tanh": _unary("tanh"), "relu": _unary("relu"), "sin": _math("sin"), "cos": _math("cos"),
    "sum": _sum, "mean": _mean, "var": _var, "std": _std, "max": _max, "min": _min, "amax": _max, "amin": _min, "argmax": _argmax, "argmin": _argmin,
    "topk": _topk, "reshape": _reshape, "view": _reshape, "flatten": _flatten, "permute": _permute, "transpose": _transpose, "squeeze": _squeeze,
    "unsqueeze": _unsqueeze, "expand": _expand, "repeat": _repeat, "split": _split, "chunk": _chunk, "clamp": _clamp, "clip": _clamp,
    "gather": _gather, "index_select": _index_select, "to": _to, "astype": _to, "type": _to, "numpy": _numpy, "tolist": _tolist, "size": _size,
    "numel": _numel, "dim": lambda x: x.ndim, "detach": lambda x: _one("detach", x), "contiguous": lambda x: x, "cpu": lambda x: x._on("cpu"),
    "float": lambda x: _to(x, "f32"), "double": lambda x: _to(x, "f64"), "half": lambda x: _to(x, "f16"), "bfloat16": lambda x: _to(x, "bf16"),
    "long": lambda x: _to(x, "i64"), "int": lambda x: _to(x, "i32"), "bool": lambda x: _to(x, "bool"),
    "softmax": lambda x, dim: _one("softmax", x, axis=dim), "log_softmax": lambda x, dim: _one("log_softmax", x, axis=dim),
    "__deepcopy__": lambda x, memo: x.clone(), "t": lambda x: x if x.ndim < 2 else _transpose(x, 0, 1),
}  # fmt: skip
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name, _op in {"__radd__": "__add__", "__rmul__": "__mul__"}.items():
    setattr(Tensor, _name, _METHODS[_op])
for _name, _op in {"__rsub__": "__sub__", "__rtruediv__": "__truediv__", "__rfloordiv__": "__floordiv__", "__rpow__": "__pow__", "__rmatmul__": "__matmul__"}.items():
    setattr(Tensor, _name, _swapped(_op))
setattr(Tensor, "T", property(lambda x: _permute(x, *reversed(range(x.ndim)))))
setattr(Tensor, "mT", property(lambda x: _transpose(x, -2, -1)))
