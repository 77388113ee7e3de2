"""Products of tensors, by the letters of their axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from .._core import Tensor, UsageError
from .common import _promoted
from .making import tensor
from .order import _diagonal


def outer(a: Any, b: Any) -> Tensor:
    """The product of each element of a vector (N) with each of another (M): (N,M)."""
    left, right = (one if isinstance(one, Tensor) else tensor(one) for one in (a, b))
    if left.ndim != 1 or right.ndim != 1:
        raise UsageError(f"outer: takes two vectors, got shapes {left.shape} and {right.shape}")
    return left.unsqueeze(1) * right


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products by Einstein's rule: "bij,bjk->bik" is a product of matrices, "ii" a trace.

    There are letters for the axes of each tensor, in order; those that the result does not name are summed over. Without
    an arrow the result has the letters that come once, in alphabetical order.

    >>> import neurim as nm
    >>> nm.einsum("ij,j->i", nm.tensor([[1.0, 2.0], [3.0, 4.0]]), nm.tensor([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    tensors = [one if isinstance(one, Tensor) else tensor(one) for one in operands]
    words, wanted = _words(equation, tensors)
    sizes: dict[str, int] = {}
    for word, one in zip(words, tensors, strict=True):
        for letter, size in zip(word, one.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise UsageError(f"einsum: '{equation}' names axes of {sizes[letter]} and of {size} elements '{letter}'; these are of one size")
    tensors = _promoted(*tensors)
    for at, one in enumerate(tensors):
        tensors[at], words[at] = _without_repeats(one, words[at])
    while len(tensors) > 1:
        kept = set(wanted).union(*words[2:])
        tensors[:2], words[:2] = _product(tensors[0], words[0], tensors[1], words[1], kept, sizes)
    out, word = _summed(tensors[0], words[0], set(wanted))
    return out.permute([word.index(letter) for letter in wanted]) if word else out


def _words(equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """The letters of each tensor and of the result."""
    left, arrow, wanted = equation.replace(" ", "").partition("->")
    words = left.split(",")
    if not all(letter.isalpha() for letter in "".join(words) + wanted):
        raise UsageError(f"einsum: '{equation}' has to be letters, commas and one '->'; name each axis by a letter")
    if len(words) != len(tensors):
        raise UsageError(f"einsum: '{equation}' has letters for {len(words)} tensors, and there are {len(tensors)}")
    for word, one in zip(words, tensors, strict=True):
        if len(word) != one.ndim:
            raise UsageError(f"einsum: '{word}' of '{equation}' names {len(word)} axes of a tensor of shape {one.shape}")
    if not arrow:
        wanted = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    if len(set(wanted)) < len(wanted) or not set(wanted) <= set(left):
        raise UsageError(f"einsum: the result '{wanted}' of '{equation}' has to name axes of the tensors, each once")
    return words, wanted


def _without_repeats(x: Tensor, word: str) -> tuple[Tensor, str]:
    """The elements whose indices are equal along axes of one letter; such an axis comes last."""
    while letter := next((one for one in word if word.count(one) > 1), ""):
        first = word.index(letter)
        second = word.index(letter, first + 1)
        x = _diagonal(x, 0, first, second)
        word = word[:first] + word[first + 1 : second] + word[second + 1 :] + letter
    return x, word


def _summed(x: Tensor, word: str, kept: set[str]) -> tuple[Tensor, str]:
    """The sum over axes whose letters are not kept."""
    gone = [axis for axis, letter in enumerate(word) if letter not in kept]
    return (x.sum(gone).to(x.dtype), "".join(letter for letter in word if letter in kept)) if gone else (x, word)


def _product(a: Tensor, of_a: str, b: Tensor, of_b: str, kept: set[str], sizes: dict[str, int]) -> tuple[list[Tensor], list[str]]:
    """The sums of products of two tensors over the letters that are not kept, and its letters."""
    a, of_a = _summed(a, of_a, kept | set(of_b))
    b, of_b = _summed(b, of_b, kept | set(of_a))
    batch = [one for one in of_a if one in of_b and one in kept]
    inner = [one for one in of_a if one in of_b and one not in kept]
    rows, columns = [one for one in of_a if one not in of_b], [one for one in of_b if one not in of_a]
    shape = [sizes[one] for one in (*batch, *rows, *columns)]
    left = a.permute([of_a.index(one) for one in (*batch, *rows, *inner)]) if of_a else a
    right = b.permute([of_b.index(one) for one in (*batch, *inner, *columns)]) if of_b else b
    if inner and _core.is_floating(a.dtype):
        groups, m, k, n = ([sizes[one] for one in letters] for letters in (batch, rows, inner, columns))
        out = left.reshape(*groups, math.prod(m), math.prod(k)) @ right.reshape(*groups, math.prod(k), math.prod(n))
        return [out.reshape(shape)], ["".join((*batch, *rows, *columns))]
    right = b.permute([of_b.index(one) for one in (*batch, *columns, *inner)]) if of_b else b
    left = left.reshape([sizes[one] for one in (*batch, *rows)] + [1] * len(columns) + [sizes[one] for one in inner])
    right = right.reshape([sizes[one] for one in batch] + [1] * len(rows) + [sizes[one] for one in (*columns, *inner)])
    out, word = left * right, "".join((*batch, *rows, *columns, *inner))
    found, word = _summed(out, word, kept)
    return [found], [word]
