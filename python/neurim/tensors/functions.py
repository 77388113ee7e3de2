"""Methods of tensors as functions of the same names: nm.exp(x) is x.exp()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Tensor
from .making import tensor
from .methods import _METHODS


def _function(name: str) -> Callable[..., Any]:
    """The method of that name as a function, which also makes a tensor of a number, a list or an array."""
    method = _METHODS[name]

    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        return method(x if isinstance(x, Tensor) else tensor(x), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{method.__doc__}\n\nThe method of the same name; x may also be a number, a list or an array."
    return function


abs: Callable[..., Tensor] = _function("abs")
argmax: Callable[..., Tensor] = _function("argmax")
argmin: Callable[..., Tensor] = _function("argmin")
argsort: Callable[..., Tensor] = _function("argsort")
ceil: Callable[..., Tensor] = _function("ceil")
clamp: Callable[..., Tensor] = _function("clamp")
cos: Callable[..., Tensor] = _function("cos")
cumsum: Callable[..., Tensor] = _function("cumsum")
diagonal: Callable[..., Tensor] = _function("diagonal")
exp: Callable[..., Tensor] = _function("exp")
flip: Callable[..., Tensor] = _function("flip")
floor: Callable[..., Tensor] = _function("floor")
isinf: Callable[..., Tensor] = _function("isinf")
isnan: Callable[..., Tensor] = _function("isnan")
log: Callable[..., Tensor] = _function("log")
matmul: Callable[..., Tensor] = _function("matmul")
max: Callable[..., Tensor] = _function("max")
mean: Callable[..., Tensor] = _function("mean")
min: Callable[..., Tensor] = _function("min")
permute: Callable[..., Tensor] = _function("permute")
prod: Callable[..., Tensor] = _function("prod")
reshape: Callable[..., Tensor] = _function("reshape")
round: Callable[..., Tensor] = _function("round")
sign: Callable[..., Tensor] = _function("sign")
sin: Callable[..., Tensor] = _function("sin")
sort: Callable[..., tuple[Tensor, Tensor]] = _function("sort")
sqrt: Callable[..., Tensor] = _function("sqrt")
square: Callable[..., Tensor] = _function("square")
squeeze: Callable[..., Tensor] = _function("squeeze")
std: Callable[..., Tensor] = _function("std")
sum: Callable[..., Tensor] = _function("sum")
tan: Callable[..., Tensor] = _function("tan")
topk: Callable[..., tuple[Tensor, Tensor]] = _function("topk")
transpose: Callable[..., Tensor] = _function("transpose")
tril: Callable[..., Tensor] = _function("tril")
triu: Callable[..., Tensor] = _function("triu")
unsqueeze: Callable[..., Tensor] = _function("unsqueeze")
var: Callable[..., Tensor] = _function("var")
