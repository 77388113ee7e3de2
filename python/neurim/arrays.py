"""Arrays and tables of other libraries as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _array(x: Any, name: str = "X") -> NDArray[Any]:
    """Returns numbers as a numpy array of booleans, integers or floating numbers.

    Takes numpy arrays, lists, tensors (`__array__`, `__dlpack__`), data frames and series of pandas, polars and
    pyarrow, and whatever else exports an Arrow stream (`__arrow_c_stream__`; pyarrow reads it). A table becomes
    (rows, columns), a series (rows). Nothing is copied where the source has its numbers in one block: an array, a
    pandas frame of one dtype, a single column of pyarrow or polars without nulls.

    `name` is what error messages call x. Raises TypeError for texts and other objects, and ValueError for nulls, NaN
    and infinities, with the name of the column, or its number where columns have no names.
    """
    import numpy as np

    if hasattr(x, "__arrow_c_stream__") or (hasattr(x, "columns") and hasattr(x, "to_numpy")):
        return _table(x, name)
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        x = np.from_dlpack(x)
    return _numbers(np.asarray(x), name)


def _table(x: Any, name: str) -> NDArray[Any]:
    import numpy as np

    columns = _columns(x)
    if columns is None:
        return _numbers(_values(x), name if getattr(x, "name", None) is None else f"column '{x.name}' of {name}")
    if not columns:
        raise ValueError(f"{name} has no columns")
    if hasattr(x, "to_numpy"):  # a frame of one dtype gives its own memory
        values = x.to_numpy()
        if values.dtype.kind in "biuf" and _finite(values):
            return np.asarray(values)
    numbers = [_numbers(_values(column), f"column '{title}' of {name}") for title, column in columns]
    if len(numbers) == 1:
        return numbers[0][:, None]
    return np.stack(numbers, axis=1)


def _columns(x: Any) -> list[tuple[str, Any]] | None:
    """Returns the names and series of a table's columns, None for a single series."""
    if hasattr(x, "column_names"):  # pyarrow
        return list(zip(x.column_names, x.columns, strict=True))
    if hasattr(x, "iter_columns"):  # polars
        return list(zip(x.columns, x.iter_columns(), strict=True))
    if hasattr(x, "columns"):  # pandas
        return [(str(title), column) for title, column in x.items()]
    if hasattr(x, "to_numpy"):
        return None
    import pyarrow  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return _columns(pyarrow.table(x))


def _values(series: Any) -> NDArray[Any]:
    import numpy as np

    if getattr(series, "num_chunks", None) == 1:  # of pyarrow, which copies where there are chunks
        series = series.chunk(0)
        return np.asarray(series.to_numpy(zero_copy_only=False))
    return np.asarray(series.to_numpy())


def _numbers(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Returns `values` itself where they are finite numbers, and objects that are numbers as f64."""
    import numpy as np

    if values.dtype.kind == "O":
        for place, value in np.ndenumerate(values):
            if not isinstance(value, (int, float, np.number, np.bool_)):
                _refuse(value, f"column {place[1]} of {what}" if values.ndim == 2 else what)
        values = values.astype(np.float64)
    elif values.dtype.kind in "US":
        _refuse("", what)
    elif values.dtype.kind not in "biuf":
        raise TypeError(f"{what} holds {values.dtype}; give numbers")
    if not _finite(values):
        bad = ~np.isfinite(values)
        where = f"column {bad.any(axis=0).argmax()} of {what}" if values.ndim == 2 else what
        raise ValueError(f"{where} holds nulls, NaN or infinity; fill or drop these rows first")
    return values


def _finite(values: NDArray[Any]) -> bool:
    import numpy as np

    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):  # a finite sum needs no second array
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _refuse(value: object, where: str) -> NoReturn:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        raise ValueError(f"{where} holds nulls; fill or drop these rows first")
    if isinstance(value, str):
        raise TypeError(f"{where} holds texts; give numbers, such as codes of the categories")
    raise TypeError(f"{where} holds objects of type {type(value).__name__}; give numbers")
