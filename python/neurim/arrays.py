"""Arrays, columns and tables of other libraries as tensors and as numpy arrays.

Columns and tables are read by Arrow's PyCapsule interface (`__arrow_c_array__`, `__arrow_c_stream__`), which needs no
pyarrow. Those of pandas are taken as the numpy arrays that they hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import _core
from ._core import Tensor, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HINTS = {
    "nulls": "fill or drop these rows first",
    "texts": "give numbers, such as codes of the categories",
    "categories": "give numbers, such as their codes",
    "decimals": "cast them to float64 first",
    "times": "give numbers, such as seconds or days",
    "lists": "give lists of one size, as fixed_size_list",
    "structs": "give a column for each of their fields",
}


def is_arrow(x: Any) -> bool:
    """Whether x exports a column or a table by Arrow's PyCapsule interface, and is no tensor.

    Of pandas only series of Arrow's dtypes: others export a copy, in which NaN are nulls. What has `__array_interface__`
    is an array: images of Pillow export Arrow too, but without their shape.
    """
    if isinstance(x, (Tensor, type)) or not (hasattr(x, "__arrow_c_array__") or hasattr(x, "__arrow_c_stream__")):
        return False
    if hasattr(type(x), "__array_interface__"):
        return False
    return not _is_pandas(x) or hasattr(getattr(x, "dtype", None), "pyarrow_dtype")


def is_table(x: Any) -> bool:
    """Whether x has columns that `tensor_of` reads: it exports Arrow data, or is a frame of pandas."""
    return is_arrow(x) or (_is_pandas(x) and hasattr(x, "columns"))


def is_dictionary(x: Any) -> bool:
    """Whether x gives columns by their names. A sparse matrix of scipy's may be a dictionary, too, but has a shape."""
    return isinstance(x, Mapping) and not hasattr(x, "shape")


def _is_pandas(x: Any) -> bool:
    return hasattr(x, "iloc") and hasattr(x, "to_numpy")


def columns_of(x: Any, names: Sequence[str] | None = None) -> tuple[bool, list[tuple[str, Any, str]]]:
    """Returns whether x is a table, and the name, values and fault of each column.

    Values are a tensor, an array of numpy (of pandas), or None where the fault says what the column holds instead of
    numbers: "nulls", "texts", … Columns of a table that are not in `names` are None without a fault.
    """
    if is_dictionary(x):
        return True, [(str(title), values, "") for title, values in x.items()]
    if is_arrow(x):
        table, columns = _core.arrow_columns(x, None if names is None else list(names))
        return table, columns if table or columns[0][0] else [(str(getattr(x, "name", None) or ""), *columns[0][1:])]
    if hasattr(x, "columns"):
        columns = [
            (str(title), *(columns_of(column)[1][0][1:] if names is None or str(title) in names else (None, "")))
            for title, column in x.items()
        ]
        return True, columns
    values = x.to_numpy()
    # Nulls of pandas' own dtypes become NaN, which is a number where the dtype is numpy's.
    nulls = values.dtype.kind == "f" and not hasattr(x.dtype, "isnative") and x.isna().any()
    return False, [("" if x.name is None else str(x.name), values, "nulls" if nulls else "")]


def tensor_of(x: Any) -> Tensor:
    """Returns a column as a tensor, and a table as a tensor (rows, columns) in the dtype that numpy promotes to.

    A column of numbers in one chunk is not copied, columns with several chunks and tables are copied once. Lists of a
    fixed size are further axes; in a table they are as many columns. Throws UsageError, with the name of the column,
    for nulls and for what is not numbers.
    """
    table, columns = columns_of(x)
    if not table:
        title, values, fault = columns[0]
        if fault:
            raise UsageError(f"tensor: {_message(fault, _place(title))}")
        if isinstance(values, Tensor):
            return values
    if not columns:
        raise UsageError("tensor: the table has no columns")
    arrays = [column_array(values, fault, _place(title), "tensor") for title, values, fault in columns]
    if len(arrays) == 1 and isinstance(columns[0][1], Tensor):
        return _core.tensor_from(_side_by_side(arrays), True, True)
    return _core.tensor_from(_side_by_side(arrays), len(arrays) > 1)


def column_array(values: Any, fault: str, place: str, called: str) -> NDArray[Any]:
    """Returns the values of a column as a numpy array; throws UsageError, from the function `called`, for a fault."""
    try:
        return _numeric(_checked(values, fault, place), place)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{called}: {error}") from None


def _place(title: str, name: str | None = None) -> str:
    of = "" if name is None else f" of {name}"
    return f"column '{title}'{of}" if title else name or "the column"


def _side_by_side(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Returns columns as (rows, columns): a single one in its own memory."""
    import numpy as np

    wide = [one[:, None] if one.ndim == 1 else one.reshape(len(one), math.prod(one.shape[1:])) for one in columns]
    if len(wide) == 1:
        return wide[0]
    out = np.empty((len(wide[0]), sum(one.shape[1] for one in wide)), np.result_type(*wide))
    return np.concatenate(wide, axis=1, out=out)


def _array(x: Any, name: str = "X") -> NDArray[Any]:
    """Returns numbers as a numpy array of booleans, integers or floating numbers.

    Takes numpy arrays, lists, tensors, whatever has `__array__` or `__dlpack__`, series and frames of pandas, columns
    and tables that export Arrow data (polars, pyarrow and others), and dictionaries of columns by name. A table becomes
    (rows, columns), a series (rows). Nothing is copied where the source has its numbers in one block: an array, a
    pandas frame of one dtype, a single column without nulls.

    `name` is what error messages call x. Raises TypeError for texts and other objects, and ValueError for nulls, NaN
    and infinities, with the name of the column, or its number where columns have no names.
    """
    import numpy as np

    if not (is_dictionary(x) or is_arrow(x) or _is_pandas(x)):
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            x = np.from_dlpack(x)
        return _numbers(np.asarray(x), name)
    table, columns = columns_of(x)
    if not columns:
        raise ValueError(f"{name} has no columns")
    if table and _is_pandas(x):  # a frame of one dtype gives its own memory
        values = x.to_numpy()
        if values.dtype.kind in "biuf" and _finite(values):
            return np.asarray(values)
    numbers = []
    for title, values, fault in columns:
        place = f"column '{title}' of {name}" if table else _place(title, name)
        values = _checked(values, fault, place)
        numbers.append(_numbers(values, place) if isinstance(values, np.ndarray) else _array(values, place))
    if len({len(one) for one in numbers}) > 1:
        raise ValueError(f"{name} has columns of {min(map(len, numbers))} to {max(map(len, numbers))} rows")
    return _side_by_side(numbers) if table else numbers[0]


def _readable(x: Any, name: str) -> Any:
    """Returns x itself where numpy takes it, texts too, else what `_array` makes of it."""
    return _array(x, name) if is_dictionary(x) or (is_arrow(x) and not hasattr(x, "__array__")) else x


def _checked(values: Any, fault: str, place: str) -> Any:
    """Returns values, tensors as numpy arrays. Raises ValueError or TypeError for a fault."""
    if fault:
        raise (ValueError if fault == "nulls" else TypeError)(_message(fault, place))
    return values.numpy() if isinstance(values, Tensor) else values


def _message(fault: str, place: str) -> str:
    return f"{place} holds {fault}; {_HINTS.get(fault, 'give numbers')}"


def _numbers(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Returns `values` itself where they are finite numbers, and objects that are numbers as f64."""
    import numpy as np

    values = _numeric(values, what)
    if not _finite(values):
        bad = ~np.isfinite(values)
        where = f"column {bad.any(axis=0).argmax()} of {what}" if values.ndim == 2 else what
        raise ValueError(f"{where} holds nulls, NaN or infinity; fill or drop these rows first")
    return values


def _numeric(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Returns `values` itself where they are numbers, and objects that are numbers as f64."""
    import numpy as np

    if values.dtype.kind == "O":
        for place, value in np.ndenumerate(values):
            if not isinstance(value, (int, float, np.number, np.bool_)):
                _refuse(value, f"column {place[1]} of {what}" if values.ndim == 2 else what)
        return values.astype(np.float64)
    if values.dtype.kind in "US":
        _refuse("", what)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{what} holds {values.dtype}; give numbers")
    return values


def _finite(values: NDArray[Any]) -> bool:
    import numpy as np

    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):  # a finite sum needs no second array
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _refuse(value: object, where: str) -> NoReturn:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(_message("nulls", where))
    if isinstance(value, str):
        raise TypeError(_message("texts", where))
    raise TypeError(f"{where} holds objects of type {type(value).__name__}; give numbers")
