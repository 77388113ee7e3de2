"""Operators and functions of each element, with numbers and arrays beside tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from ..arrays import is_arrow
from .common import Number, _integral, _one, _promoted, _real
from .making import _filled, tensor

_OF_BOOLS = {
    "add": "logical_or", "maximum": "logical_or", "or": "logical_or", "mul": "logical_and", "minimum": "logical_and", "and": "logical_and",
    "xor": "not_equal",
}  # fmt: skip
# Functions of the op "integer", which wraps around where a result has more bits than the dtype, as NumPy does.
_OF_INTEGERS = {"add": "add", "sub": "subtract", "mul": "multiply", "maximum": "maximum", "minimum": "minimum", "and": "and", "or": "or", "xor": "xor"}


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b; shapes broadcast by NumPy's rule."""
    if not isinstance(a, Tensor):
        a = _like(a, b) if isinstance(b, Tensor) else tensor(a)
    holds = condition if isinstance(condition, Tensor) else tensor(condition)
    return _one("where", holds.to("bool"), *_pair(a, b))


def maximum(a: Any, b: Any) -> Tensor:
    """The larger of each two elements; NaN where one is."""
    return _binary("maximum")(*_with_tensor(a, b))


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of each two elements; NaN where one is."""
    return _binary("minimum")(*_with_tensor(a, b))


def _with_tensor(a: Any, b: Any) -> tuple[Tensor, Any]:
    """Two values, of which the first is a tensor."""
    return (a, b) if isinstance(a, Tensor) else (b, a) if isinstance(b, Tensor) else (tensor(a), b)


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
        return _one(name, *_pair(a, b))

    op.__name__ = name
    op.__doc__ = f"The op {name}, element by element: bool; shapes broadcast by NumPy's rule."
    return op


def _usable(value: Any) -> builtins.bool:
    """Whether an operator makes a tensor of it."""
    known = isinstance(value, (Tensor, builtins.bool, builtins.int, builtins.float, list, tuple))
    return known or any(hasattr(type(value), name) for name in ("__array__", "__dlpack__", "__array_interface__")) or is_arrow(value)


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
    # The quotient that is cut off is one too large where something is left whose sign is not the divisor's.
    quotient, rest = _integer("divide", left, right), _integer("remainder", left, right)
    return _integer("subtract", quotient, ((rest != 0) & ((rest < 0) != (right < 0))).to(quotient.dtype))


def _mod(a: Tensor, b: Any) -> Tensor:
    """What is left after the quotient that is rounded down: of the sign of b. Floating numbers are computed in f64."""
    left, right = _pair(a, b)
    if not _core.is_floating(left.dtype):
        return _integer("modulo", left, right)
    dividend, divisor = left.to("f64"), right.to("f64")
    quotient = _floor_quotient(dividend, divisor)
    return (dividend - where(quotient == 0, 0.0, quotient * divisor)).to(left.dtype)  # 0 times infinity is no number


def _divmod(a: Tensor, b: Any) -> tuple[Tensor, Tensor]:
    """a // b and a % b."""
    return (_floordiv(a, b), _mod(a, b)) if _usable(b) else NotImplemented


def _rdivmod(b: Tensor, a: Any) -> tuple[Tensor, Tensor]:
    """a // b and a % b."""
    return _divmod(_like(a, b), b) if _usable(a) else NotImplemented


def _pow(a: Tensor, b: Any) -> Tensor:
    """a to the power of b. Throws UsageError for whole numbers to the power of a negative one, which are fractions."""
    if isinstance(b, (builtins.int, builtins.float)) and b == 2 and (isinstance(b, builtins.int) or _core.is_floating(a.dtype)):
        return _square(a)
    left, right = _pair(a, b)
    if not _core.is_floating(left.dtype):
        if not isinstance(b, (Tensor, list, tuple)) and getattr(b, "ndim", 0) == 0 and b < 0:
            raise UsageError(f"pow: whole numbers ({a.dtype}) to the power of {b} are fractions; convert them first: x.float() ** {b}")
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


def _ceil(x: Tensor) -> Tensor:
    """The least whole number that is not below each element, in its dtype."""
    return -_one("floor", -x) if _core.is_floating(x.dtype) else x


def _round(x: Tensor, decimals: builtins.int = 0) -> Tensor:
    """The nearest whole number, the even one of two, in the dtype of x; or the nearest with so many decimals. The gradient is 0."""
    decimals = _integral(decimals, "round: decimals")
    if not _core.is_floating(x.dtype):
        return x
    if decimals == 0:
        return _one("detach", _one("math_function", x, function="round"))
    scale = 10.0 ** abs(decimals)
    return _round(x * scale) / scale if decimals > 0 else _round(x / scale) * scale


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


def _clamp(x: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """Each element brought into [min, max], numbers or tensors; max where min is above it. Whole numbers stay such where the bounds are."""
    if _core.is_floating(x.dtype) and not any(isinstance(one, Tensor) or getattr(one, "ndim", 0) for one in (min, max)):
        high = math.inf if max is None else _real(max, "clamp: max")
        low = -math.inf if min is None else builtins.min(_real(min, "clamp: min"), high)
        return _one("clamp", x, low=low, high=high)
    out = x if min is None else maximum(x, min)
    out = out if max is None else minimum(out, max)
    if any(isinstance(one, Tensor) for one in (min, max)):
        return out
    return out if _core.is_floating(out.dtype) else out.to(x.dtype)


def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """value, in the dtype of x, where the mask holds, else x."""
    return where(mask, (value if isinstance(value, Tensor) else _like(value, x)).to(x.dtype), x)
