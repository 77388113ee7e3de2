"""Files of tensors by name, in the safetensors format: https://github.com/huggingface/safetensors#format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _core
from ._core import Tensor
from .tensors import tensor as tensor_of


def save(tensors: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes tensors, or arrays, by name. The file takes the place of an old one when it is complete.

    Raises ResourceError if it cannot be written, and UsageError for the name "__metadata__" and for values of a trace.
    """
    stored = [(name, value if isinstance(value, Tensor) else tensor_of(value)) for name, value in tensors.items()]
    _core.save_safetensors(os.fspath(path), stored)


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Reads the tensors of a file by name, in the order of the names. Raises DataError for what is missing, cut off or no such file."""
    return dict(_core.load_safetensors(os.fspath(path)))
