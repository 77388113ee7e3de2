"""Labels of data sets of Python, of any kind that they come in, and the names of their classes."""

from __future__ import annotations

from typing import Any

from ._core import UsageError
from .arrays import _readable


def _changes_no_labels(part: Any) -> bool:
    """Whether the transforms that torchvision's data sets have leave labels as they are."""
    together = getattr(part, "transforms", None)
    standard = together is None or type(together).__name__ == "StandardTransform"
    return standard and getattr(part, "target_transform", None) is None and getattr(together, "target_transform", None) is None


def _classes_of(part: Any) -> list[str] | None:
    """The names of classes that a data set knows."""
    known = getattr(part, "classes", None)
    if not isinstance(known, (list, tuple)) or not known or not all(isinstance(one, str) for one in known):
        return None
    return list(known) if _changes_no_labels(part) and len(set(known)) == len(known) else None


def _label(part: Any, i: int, split: str) -> Any:
    """The label of a sample: of torchvision's own data sets without decoding the image."""
    item = getattr(type(part), "__getitem__", None)
    if str(getattr(item, "__module__", "")).startswith("torchvision.") and _changes_no_labels(part):
        targets = getattr(part, "targets", None)
        label: Any = targets[i] if targets is not None and len(targets) == len(part) else None
        label = label.item() if hasattr(label, "item") and getattr(label, "ndim", 0) == 0 else label
        if isinstance(label, int):
            return label
    sample = part[i]
    if not isinstance(sample, (tuple, list)) or len(sample) < 2:
        has = f"has {len(sample)} elements" if isinstance(sample, (tuple, list)) else f"is a {type(sample).__name__}"
        raise UsageError(f"samples: sample {i} of {split} {has}; give a pair (image, label)")
    return sample[1]


_KINDS = {int: "whole numbers", str: "names", float: "floating numbers"}


def _read_label(label: Any, place: str) -> Any:
    """A label as an int, a text, a float, or an array of several floats. Throws UsageError for all else, with the place."""
    import numpy as np

    if isinstance(label, np.generic):
        label = float(label) if isinstance(label, np.floating) else label.item()
    if isinstance(label, (str, int, float)):
        return next(kind(label) for kind in (str, int, float) if isinstance(label, kind))
    if isinstance(label, bytes):
        try:
            return label.decode()
        except UnicodeDecodeError:
            raise UsageError(f"{place} is {label!r}, which is no text in UTF-8; decode it first") from None
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        raise _missing(place, label)
    several = isinstance(label, (list, tuple))
    if several or hasattr(label, "__array__") or hasattr(label, "__dlpack__"):
        try:
            values = np.asarray([_read_label(one, place) for one in label] if several else _array_of(label))
        except (RuntimeError, TypeError, ValueError) as error:  # of numpy or the library that the label is of
            raise error if isinstance(error, UsageError) else UsageError(f"{place}: {str(error).splitlines()[0]}") from None
        kind = values.dtype.kind
        if kind in "biufSU" and (values.ndim == 0 or (values.shape == (1,) and kind != "f")):
            return _read_label(values.reshape(())[()], place)
        if kind == "f" and values.ndim == 1 and values.size:
            return values
        raise UsageError(f"{place} has the shape {np.shape(values)}; labels are one number or name for each image: labels.argmax(1) of one-hot ones")
    raise UsageError(f"{place} is a {type(label).__name__}; labels are whole numbers, names, or floating numbers")


def _array_of(x: Any) -> Any:
    """An array of numpy of whatever holds numbers or texts."""
    import numpy as np

    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def _missing(place: str, value: Any) -> UsageError:
    return UsageError(f"{place} is missing ({value}); give it, or leave the image out")


def _labels_of(given: Any, split: str, called: str) -> Any:
    """The labels of a split: an array of floats (N) or (N,targets), or a list of what _read_label gives."""
    if not isinstance(given, (list, tuple)):
        try:
            values = _array_of(_readable(given, "labels"))
        except (RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"{called}: labels of {split}: {str(error).splitlines()[0]}") from None
        if values.ndim == 0:
            raise UsageError(f"{called}: the labels of {split} are a {type(given).__name__}; give a list or an array, a label for each image")
        if values.dtype.kind == "f":
            return values
        if values.ndim > 1 and values.size != len(values):
            raise UsageError(f"{called}: labels are one number or name for each image, not {values.shape}: labels.argmax(1) of one-hot ones")
        given = values.reshape(-1).tolist()
        if values.dtype.kind in "iu":
            return given
    return [one if type(one) in (int, str) else _read_label(one, f"{called}: label {i} of {split}") for i, one in enumerate(given)]


def _numbers_of(labels: Any, called: str) -> Any:
    import numpy as np

    try:
        return np.asarray(labels)
    except ValueError:
        raise UsageError(f"{called}: labels are more numbers for one image than for another; give as many for each") from None


def _checked_names(names: Any, called: str) -> list[str]:
    """Names of classes or numbers; throws UsageError for what is no list of different texts."""
    if isinstance(names, (str, bytes, dict)) or not hasattr(names, "__iter__"):
        raise UsageError(f"{called} is a list of texts in the order of the labels, not a {type(names).__name__}")
    listed: list[str] = []
    known = set()
    for one in names:
        if not isinstance(one, str):
            raise UsageError(f"{called} are texts, not {one!r}; give '{one}'")
        if one in known:
            raise UsageError(f"{called} has '{one}' more than once; give each a name of its own")
        known.add(one)
        listed.append(str(one))
    return listed


def _names_of(words: list[Any], called: str) -> list[str]:
    """Names of the classes of labels that come without."""
    if not words or not isinstance(words[0], int):
        return sorted(set(words))
    many, sparse = 1000, 10
    count, distinct = max(words) + 1, len(set(words))
    if count > many and count > sparse * distinct:
        raise UsageError(f"{called}: labels go up to {count - 1}, but only {distinct} different ones occur; number the classes from 0 on, or give them as names")
    return [str(number) for number in range(count)]
