"""Sums of products as matrix products, so that the device's kernels compute them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from assay.runtime.array import Array
from assay.xp.contractions import matmul
from assay.xp.manipulation import permute_dims, reshape
from assay.xp.statistics import sum as sum_of

_PLAIN = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*->[A-Za-z]*")


def by_matrix_products(subscripts: str, arrays: Sequence[Array]) -> Array | None:
    """The sum of products; None where it has repeated letters, an ellipsis or no result, or is not valid."""
    text = subscripts.replace(" ", "")
    if not _PLAIN.fullmatch(text):
        return None
    given, result = text.split("->")
    terms = given.split(",")
    letters = set("".join(terms))
    repeated = any(len(set(term)) != len(term) for term in (*terms, result))
    if repeated or len(terms) != len(arrays) or not set(result) <= letters:
        return None
    extents: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        if len(term) != array.ndim:
            return None
        for letter, extent in zip(term, array.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                return None
    if 0 in extents.values():
        return None
    left = list(zip(terms, arrays, strict=True))
    for places in _order(text, arrays):
        taken = [left.pop(place) for place in sorted(places, reverse=True)]
        needed = set(result).union(*(term for term, _ in left))
        joined = taken.pop()
        while taken:
            joined = _product(joined, taken.pop(), needed.union(*(term for term, _ in taken)))
        left.append(joined)
    term, array = _summed(*left[0], set(result))
    return permute_dims(array, tuple(term.index(letter) for letter in result))


def _order(text: str, arrays: Sequence[Array]) -> list[tuple[int, ...]]:
    """Which arrays are multiplied next, as places in the list; results are appended to it."""
    if len(arrays) == 1:
        return []
    path: Any = np.einsum_path
    shapes = [np.broadcast_to(np.float32(0), array.shape) for array in arrays]
    return [tuple(places) for places in path(text, *shapes, optimize="greedy")[0][1:]]


def _summed(term: str, array: Array, needed: set[str]) -> tuple[str, Array]:
    """Without the axes that nothing else needs."""
    axes = tuple(axis for axis, letter in enumerate(term) if letter not in needed)
    if not axes:
        return term, array
    kept = "".join(letter for letter in term if letter in needed)
    return kept, sum_of(array, axis=axes, dtype=array.dtype)


def _product(
    first: tuple[str, Array], second: tuple[str, Array], needed: set[str]
) -> tuple[str, Array]:
    """Both as (shared and kept, own, shared and summed) axes, multiplied as matrices."""
    (a_term, a), (b_term, b) = (
        _summed(*one, needed | set(other[0])) for one, other in ((first, second), (second, first))
    )
    extents = dict(zip(a_term + b_term, a.shape + b.shape, strict=True))
    shared = [letter for letter in a_term if letter in b_term]
    batch = "".join(letter for letter in shared if letter in needed)
    inner = "".join(letter for letter in shared if letter not in needed)
    rows = "".join(letter for letter in a_term if letter not in b_term)
    columns = "".join(letter for letter in b_term if letter not in a_term)

    def matrix(term: str, array: Array, *parts: str) -> Array:
        axes = tuple(term.index(letter) for letter in "".join(parts))
        sizes = tuple(math.prod(extents[letter] for letter in part) for part in parts)
        return reshape(permute_dims(array, axes), sizes)

    product = matmul(
        matrix(a_term, a, batch, rows, inner), matrix(b_term, b, batch, inner, columns)
    )
    out = batch + rows + columns
    return out, reshape(product, tuple(extents[letter] for letter in out))
