"""Gives the class Tensor its operators and methods."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from .._core import Tensor, UsageError
from .arithmetic import (
    _abs,
    _binary,
    _ceil,
    _clamp,
    _comparison,
    _div,
    _divmod,
    _floor,
    _floordiv,
    _invert,
    _isinf,
    _isnan,
    _like,
    _masked_fill,
    _math,
    _matmul,
    _mod,
    _neg,
    _operator,
    _pow,
    _rdivmod,
    _round,
    _sign,
    _square,
    _swapped,
    _unary,
    _usable,
)
from .common import _one
from .conversion import _array, _arrow_c_array, _bool, _dlpack, _dlpack_device, _format, _index, _numpy, _reduce, _repr, _to, _tolist
from .indexing import _gather, _getitem, _index_select
from .making import _filled, _number
from .order import _argsort, _diagonal, _flip, _sort, _tril, _triu
from .reductions import _all, _any, _argmax, _argmin, _cumsum, _max, _mean_in, _min, _norm, _prod, _reduction, _reduction_in, _std, _sum, _topk, _var
from .shape import _chunk, _expand, _flatten, _iter, _len, _numel, _permute, _repeat, _reshape, _size, _split, _squeeze, _transpose, _unsqueeze


def _rounded(x: Tensor, decimals: builtins.int | None = None) -> Tensor:
    return _round(x, decimals or 0)


def _assign(x: Tensor, other: Any) -> None:
    """Writes the elements of another tensor of the same shape and dtype, or one number, into this one."""
    if not isinstance(other, Tensor):
        if not _usable(other):
            raise UsageError(f"assign: takes a tensor or a number, got {type(other).__name__}")
        other = _like(other, x) if getattr(other, "ndim", 0) or isinstance(other, (list, tuple)) else _filled(_number(other), x.dtype, x.shape)
    _ASSIGN(x, other if x.device == other.device else other.to(x.device))


_ASSIGN = Tensor.assign
_OPERATORS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "truediv": _div, "floordiv": _floordiv, "mod": _mod, "pow": _pow,
    "matmul": _matmul, "and": _binary("and"), "or": _binary("or"), "xor": _binary("xor"), "eq": _comparison("equal"), "ne": _comparison("not_equal"),
    "lt": _comparison("less"), "le": _comparison("less_equal"), "gt": _comparison("greater"), "ge": _comparison("greater_equal"),
}  # fmt: skip
_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "max": _max, "min": _min, "amax": _max, "amin": _min, "any": _any, "all": _all, "argmax": _argmax, "argmin": _argmin,
}  # fmt: skip
_METHODS: dict[str, Callable[..., Any]] = {
    **{f"__{word}__": _operator(function) for word, function in _OPERATORS.items()}, "__neg__": _neg, "__abs__": _abs, "__invert__": _invert,
    "__getitem__": _getitem, "__len__": _len, "__iter__": _iter, "__bool__": _bool, "__repr__": _repr, "__array__": _array,
    "__float__": lambda x: builtins.float(x.item()), "__int__": lambda x: builtins.int(x.item()), "__index__": _index,
    "__dlpack__": _dlpack, "__dlpack_device__": _dlpack_device, "__arrow_c_array__": _arrow_c_array, "__hash__": lambda x: hash(x._identity()), "__format__": _format,
    "__reduce__": _reduce, "__divmod__": _divmod, "__rdivmod__": _rdivmod, "__round__": _rounded,
    "add": _binary("add"), "sub": _binary("sub"), "mul": _binary("mul"), "div": _div, "matmul": _matmul, "pow": _pow, "maximum": _binary("maximum"),
    "minimum": _binary("minimum"), "neg": _neg, "abs": _abs, "exp": _unary("exp"), "log": _unary("log"), "sqrt": _unary("sqrt"),
    "rsqrt": _unary("rsqrt"), "reciprocal": _unary("reciprocal"), "square": _square, "floor": _floor, "ceil": _ceil, "round": _round, "tan": _math("tan"), "sign": _sign,
    "erf": _unary("erf"), "sigmoid": _unary("sigmoid"), "tanh": _unary("tanh"), "relu": _unary("relu"), "sin": _math("sin"), "cos": _math("cos"),
    **{word: _reduction(function) for word, function in _REDUCTIONS.items()},
    "sum": _reduction_in(_sum), "prod": _reduction_in(_prod), "mean": _mean_in, "var": _var, "std": _std, "norm": _norm, "cumsum": _cumsum,
    "isnan": _isnan, "isinf": _isinf, "masked_fill": _masked_fill,
    "topk": _topk, "sort": _sort, "argsort": _argsort, "flip": _flip, "tril": _tril, "triu": _triu, "diagonal": _diagonal,
    "reshape": _reshape, "view": _reshape, "flatten": _flatten, "permute": _permute, "transpose": _transpose, "squeeze": _squeeze,
    "unsqueeze": _unsqueeze, "expand": _expand, "repeat": _repeat, "split": _split, "chunk": _chunk, "clamp": _clamp, "clip": _clamp,
    "gather": _gather, "index_select": _index_select, "to": _to, "astype": _to, "type": _to, "numpy": _numpy, "tolist": _tolist, "size": _size,
    "numel": _numel, "dim": lambda x: x.ndim, "detach": lambda x: _one("detach", x), "contiguous": lambda x: x, "cpu": lambda x: x._on("cpu"),
    "float": lambda x: _to(x, "f32"), "double": lambda x: _to(x, "f64"), "half": lambda x: _to(x, "f16"), "bfloat16": lambda x: _to(x, "bf16"),
    "long": lambda x: _to(x, "i64"), "int": lambda x: _to(x, "i32"), "bool": lambda x: _to(x, "bool"),
    "softmax": lambda x, dim: _one("softmax", x, axis=dim), "log_softmax": lambda x, dim: _one("log_softmax", x, axis=dim),
    "__rmod__": _swapped(_mod), "__rand__": _swapped(_OPERATORS["and"]), "__ror__": _swapped(_OPERATORS["or"]), "__rxor__": _swapped(_OPERATORS["xor"]),
    "__deepcopy__": lambda x, memo: x.clone(), "t": lambda x: x if x.ndim < 2 else _transpose(x, 0, 1),
}  # fmt: skip
setattr(Tensor, "assign", _assign)
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name in ("add", "mul", "sub", "truediv", "floordiv", "pow", "matmul"):
    setattr(Tensor, f"__r{_name}__", _swapped(_OPERATORS[_name]))
setattr(Tensor, "__array_priority__", 1000)  # NumPy's operators leave a tensor at their right to the tensor's own
setattr(Tensor, "__array_ufunc__", None)
setattr(Tensor, "T", property(lambda x: _permute(x, *reversed(range(x.ndim)))))
setattr(Tensor, "mT", property(lambda x: _transpose(x, -2, -1)))
