"""Files of tensors by name, in the safetensors format: https://github.com/huggingface/safetensors#format."""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from . import _core
from ._core import DataError, Tensor, UsageError
from .tensors import tensor as tensor_of

_NAMES = {
    **{"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "i64": "I64", "i32": "I32", "i16": "I16", "i8": "I8"},
    **{"u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8", "bool": "BOOL"},
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_SIZES = {name: 1 if name == "BOOL" else int(name.lstrip("BFIU")) // 8 for name in _DTYPES}  # bytes of an element
_MAX_HEADER = 100_000_000  # bytes, as in other readers


def save(tensors: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes tensors, or arrays, by name. The file takes the place of an old one when it is complete.

    Raises DataError if it cannot be written, and UsageError for the name "__metadata__" and for values of a trace.
    """
    if "__metadata__" in tensors:
        raise UsageError("save: '__metadata__' is no name for a tensor; the format has another use for it")
    stored = {name: value if isinstance(value, Tensor) else tensor_of(value) for name, value in tensors.items()}
    # Widest elements first, and the header padded to 8 bytes: every tensor is aligned to its element.
    names = sorted(stored, key=lambda name: -_SIZES[_NAMES[stored[name].dtype]])
    header: dict[str, Any] = {}
    end = 0
    for name in names:
        dtype, shape = _NAMES[stored[name].dtype], stored[name].shape
        begin, end = end, end + _SIZES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    path = os.fspath(path)
    partial = f"{path}.{os.getpid()}.partial"
    try:
        try:
            with open(partial, "wb") as file:
                file.write(len(text).to_bytes(8, "little") + text)
                for name in names:
                    file.write(_bytes(stored[name]))
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            if os.path.exists(partial):
                os.remove(partial)
            raise
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from None


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Reads the tensors of a file by name. Raises DataError for what is missing, cut off or no such file."""
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return _read(file, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _read(file: BinaryIO, path: str) -> dict[str, Tensor]:
    total = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if total < 8 or length > min(total - 8, _MAX_HEADER):
        raise DataError(f"{path}: is no safetensors file, or is cut off: it has {total} bytes")
    try:
        header = json.loads(file.read(length).decode())
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise DataError(f"{path}: is no safetensors file, or is damaged: its header is no JSON object")
    header.pop("__metadata__", None)
    entries = sorted((_entry(item, f"{path}: '{name}'"), name) for name, item in header.items())
    tensors = {}
    end = 0
    for (begin, after, dtype, shape), name in entries:
        if begin != end:
            raise DataError(f"{path}: '{name}' begins at byte {begin} of the data, expected {end}; the file is damaged")
        end = after
        if end > total - 8 - length:
            raise DataError(f"{path}: '{name}' ends at byte {end} of {total - 8 - length}; the file is cut off")
        tensors[name] = _core.full(shape, 0, dtype)
        ctypes.memmove(tensors[name].data_ptr(), file.read(end - begin), end - begin)
    if end != total - 8 - length:
        raise DataError(f"{path}: {total - 8 - length - end} bytes belong to no tensor; the file is damaged")
    return {name: tensors[name] for name in header}


def _entry(item: Any, where: str) -> tuple[int, int, str, tuple[int, ...]]:
    """The begin and end in the data, the dtype and the shape of a tensor in the header."""
    try:
        name, shape, (begin, end) = item["dtype"], item["shape"], item["data_offsets"]
        if any(type(number) is not int or not 0 <= number < 1 << 63 for number in (begin, end, *shape)):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{where}: a tensor has a dtype, a shape and two data_offsets; the file is damaged") from None
    if name not in _DTYPES:
        raise DataError(f"{where}: dtype {name!r} is not supported; known are {', '.join(_DTYPES)}")
    if end - begin != _SIZES[name] * math.prod(shape):
        raise DataError(f"{where}: {name} {tuple(shape)} does not take {end - begin} bytes; the file is damaged")
    return begin, end, _DTYPES[name], tuple(shape)


def _bytes(tensor: Tensor) -> bytes:
    """The elements in the order of the axes."""
    if tensor.dtype != "bf16":
        return memoryview(tensor._exchange()).tobytes()
    wide = memoryview(tensor.to("f32")._exchange()).tobytes()  # buffers of Python have no bf16, the upper half of f32
    narrow = bytearray(len(wide) // 2)
    narrow[0::2], narrow[1::2] = wide[2::4], wide[3::4]
    return bytes(narrow)
