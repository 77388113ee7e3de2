"""What tensors can do: operators, indexing, reductions and shapes, as methods of Tensor and as functions.

A tensor is a handle to stored data, or to a value inside a traced function. It does not change, but for `assign`. Names and
meanings are PyTorch's where it has them; dtypes are called f64, f32, f16, bf16, i64, …, u8 and bool, and PyTorch's and
NumPy's names are known too.
"""

from . import methods as _methods  # gives Tensor its operators
from .arithmetic import maximum, minimum, where
from .common import Axes, Number, call, check_tensors
from .indexing import sum_of
from .making import arange, cat, concat, from_dlpack, full, ones, ones_like, rand, randn, seed, stack, tensor, zeros, zeros_like

__all__ = [
    "Axes",
    "Number",
    "arange",
    "call",
    "cat",
    "check_tensors",
    "concat",
    "from_dlpack",
    "full",
    "maximum",
    "minimum",
    "ones",
    "ones_like",
    "rand",
    "randn",
    "seed",
    "stack",
    "sum_of",
    "tensor",
    "where",
    "zeros",
    "zeros_like",
]
