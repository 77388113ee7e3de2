"""Neurim: models that are developed, trained and deployed from one small install.

>>> import neurim as nm
>>> x = nm.Tensor([[1.0, 2.0], [3.0, 4.0]])
>>> (x @ x).tolist()
[[7.0, 10.0], [15.0, 22.0]]
"""

from typing import TYPE_CHECKING

from . import tensors as _methods  # gives Tensor its operators
from ._core import DataError, Error, FailureError, ResourceError, Tensor, UsageError, threads
from .module import Module, ModuleDict, ModuleList, Parameter, Sequential
from .tensors import (
    abs,
    arange,
    argmax,
    argmin,
    argsort,
    cat,
    ceil,
    clamp,
    cos,
    cumsum,
    diagonal,
    einsum,
    exp,
    eye,
    flip,
    floor,
    from_dlpack,
    full,
    full_like,
    isinf,
    isnan,
    linspace,
    log,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    ones,
    ones_like,
    outer,
    permute,
    prod,
    rand,
    randn,
    reshape,
    round,
    seed,
    set_threads,
    sign,
    sin,
    sort,
    sqrt,
    square,
    squeeze,
    stack,
    std,
    sum,
    tan,
    tensor,
    topk,
    transpose,
    tril,
    triu,
    unsqueeze,
    var,
    where,
    zeros,
    zeros_like,
)
from .transforms import compile, grad, no_grad, value_and_grad

if TYPE_CHECKING:
    from . import arrays, autograd, data, functional, init, losses, ml, nn, ops, optim, safetensors, sklearn
    from .autograd import Function
    from .callbacks import Callback, EarlyStopping
    from .models import Model, create_model, list_models, load
    from .runs import Run, command, resume, train

__all__ = [
    "Callback",
    "DataError",
    "EarlyStopping",
    "Error",
    "FailureError",
    "Function",
    "Model",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ResourceError",
    "Run",
    "Sequential",
    "Tensor",
    "UsageError",
    "abs",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "arrays",
    "autograd",
    "cat",
    "ceil",
    "clamp",
    "command",
    "compile",
    "cos",
    "create_model",
    "cumsum",
    "data",
    "diagonal",
    "einsum",
    "exp",
    "eye",
    "flip",
    "floor",
    "from_dlpack",
    "full",
    "full_like",
    "functional",
    "grad",
    "init",
    "isinf",
    "isnan",
    "linspace",
    "list_models",
    "load",
    "log",
    "losses",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "ml",
    "nn",
    "no_grad",
    "ones",
    "ones_like",
    "ops",
    "optim",
    "outer",
    "permute",
    "prod",
    "rand",
    "randn",
    "reshape",
    "resume",
    "round",
    "safetensors",
    "seed",
    "set_threads",
    "sign",
    "sin",
    "sklearn",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sum",
    "tan",
    "tensor",
    "threads",
    "topk",
    "train",
    "transpose",
    "tril",
    "triu",
    "unsqueeze",
    "value_and_grad",
    "var",
    "where",
    "zeros",
    "zeros_like",
]

__version__ = "0.1.0"

_LAZY = {
    "create_model": "models",
    "list_models": "models",
    "load": "models",
    "Model": "models",
    "Run": "runs",
    "command": "runs",
    "resume": "runs",
    "train": "runs",
    "Callback": "callbacks",
    "EarlyStopping": "callbacks",
    "Function": "autograd",
}
_MODULES = ("arrays", "autograd", "callbacks", "data", "functional", "init", "losses", "ml", "models", "nn", "ops", "optim", "runs", "safetensors", "sklearn")


def __getattr__(name: str) -> object:
    """What is not needed at once is imported when it is asked for, so that `import neurim` is fast."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    functional = import_module(".functional", __name__)
    if name in functional.__all__:
        return getattr(functional, name)
    raise AttributeError(f"module 'neurim' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})
