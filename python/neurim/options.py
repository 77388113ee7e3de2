"""Options by name, as the command takes them."""

from __future__ import annotations

import operator
import os
from difflib import get_close_matches
from typing import Any

from . import _core
from ._core import UsageError

_OF_DATA = ("val_split", "test_split", "split_seed", "folds", "fold", "group_by", "multi_label", "target", "classes")


def _word(value: Any, of_size: bool = False) -> str:
    """An option's value as the command takes it; `of_size`: of an image."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ("x" if of_size else ",").join(str(one) for one in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _words(options: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, _word(value, name in ("imgsz", "train_imgsz"))) for name, value in options.items() if value is not None]


def of_data(options: dict[str, Any]) -> dict[str, Any]:
    """Those that say how data are opened."""
    return {name: value for name, value in canonical(options).items() if name in _OF_DATA}


def canonical(options: dict[str, Any]) -> dict[str, Any]:
    """Options of training by their names instead of their aliases. Throws UsageError where one is given by two names."""
    names = {alias: one[0] for one in _core.train_options() for alias in one[1]}
    given: dict[str, str] = {}
    for name in (name for name, value in options.items() if value is not None):
        other = given.setdefault(names.get(name, name), name)
        if other != name:
            raise UsageError(f"{other} and {name} are the same option; give one of them")
    return {names.get(name, name): value for name, value in options.items() if given.get(names.get(name, name), name) == name}


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options by their names. Throws UsageError on a name that is no option of training, with the nearest one."""
    known = {name for one in _core.train_options() for name in (one[0], *one[1])}
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise UsageError(f"there is no option '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    return canonical(options)


def size_of(imgsz: Any, called: str) -> tuple[int, int] | None:
    """Height and width that an option imgsz asks for: a number, two of them, or a text such as "192x320"; None for "auto"."""
    if isinstance(imgsz, str):
        if imgsz == "auto":
            return None
        sides: Any = imgsz.split("x")
    else:
        sides = imgsz if isinstance(imgsz, (tuple, list)) else [imgsz]
    try:
        numbers = [int(one) if isinstance(one, str) else operator.index(one) for one in sides]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (1, 2) or min(numbers) < 1:
        raise UsageError(f"{called}: imgsz is a number of pixels, (height, width) or a text such as '192x320', not {imgsz!r}")
    return numbers[0], numbers[-1]
