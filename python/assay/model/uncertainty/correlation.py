"""Correlated inputs: a Gaussian copula over their distributions.

A correlation is that of the normal scores of two inputs, which is the correlation of their
logarithms where both are lognormal. Inputs that are correlated with each other, directly or through
others, form a block with one correlation matrix; blocks are independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import InputError, unknown_name

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

Correlations = Mapping[tuple[str, str], float]
"""Correlation by pair of names, each pair once."""

_MOST_NAMES = 6


class CorrelatedBlock(NamedTuple):
    """Inputs that move together: positions among all, and the Cholesky factor, row by row."""

    positions: tuple[int, ...]
    factor: tuple[tuple[float, ...], ...]


def pair_of(first: str, second: str) -> tuple[str, str]:
    """The key of a pair of names, in either order."""
    return (first, second) if first < second else (second, first)


def read_correlation(text: str, option: str = "--correlate") -> tuple[tuple[str, str], float]:
    """Read `a,b=0.8`.

    >>> read_correlation("econ.interest,econ.gpu.price=0.5")
    (('econ.gpu.price', 'econ.interest'), 0.5)
    """
    names, separator, stated = text.partition("=")
    parts = [part.strip() for part in names.split(",")]
    try:
        value = float(stated)
    except ValueError:
        value = math.nan
    if not separator or len(parts) != 2 or not all(parts) or math.isnan(value):
        raise InputError(
            f'malformed {option} "{text}": expected two variables and a number',
            f"write {option} name,other=0.8",
        )
    first, second = parts
    if first == second:
        raise InputError(f"{first} cannot be correlated with itself", "name two variables")
    if not -1 < value < 1:
        raise InputError(
            f"correlation of {first} and {second}: expected a number between -1 and 1, got {value:g}",
            "inputs that move as one are one input and a relation",
        )
    return pair_of(first, second), value


def check_correlations(
    registry: Declarations, correlations: Correlations, uncertain: Iterable[str]
) -> None:
    """Refuse unknown names, inputs without a distribution, and impossible combinations."""
    known = set(uncertain)
    for first, second in correlations:
        for name in (first, second):
            if name not in registry.variables:
                raise unknown_name("variable", name, registry.variables)
            if name not in known:
                raise InputError(
                    f"correlation of {first} and {second}: {name} is not given as a distribution",
                    f'give it one, such as {name}="90..110 UNIT", or leave the correlation out',
                )
    correlated_blocks(sorted({name for pair in correlations for name in pair}), correlations)


def correlated_blocks(names: Sequence[str], correlations: Correlations) -> list[CorrelatedBlock]:
    """The blocks of correlated inputs among `names`; pairs with other names are left out."""
    position = {name: index for index, name in enumerate(names)}
    neighbors: dict[int, set[int]] = {}
    for first, second in correlations:
        if first in position and second in position:
            neighbors.setdefault(position[first], set()).add(position[second])
            neighbors.setdefault(position[second], set()).add(position[first])
    blocks = []
    seen: set[int] = set()
    for start in sorted(neighbors):
        if start in seen:
            continue
        members, frontier = {start}, [start]
        while frontier:
            further = neighbors[frontier.pop()] - members
            members |= further
            frontier += further
        seen |= members
        ordered = sorted(members)
        matrix = [
            [1.0 if i == j else correlations.get(pair_of(names[i], names[j]), 0.0) for j in ordered]
            for i in ordered
        ]
        factor = cholesky(matrix)
        if factor is None:
            shown = ", ".join(names[i] for i in ordered[:_MOST_NAMES])
            more = len(ordered) - _MOST_NAMES
            raise InputError(
                f"correlations of {shown}{f' and {more} more' if more > 0 else ''} contradict each "
                "other: their matrix is not positive definite",
                "state every pair among them, or values closer to zero",
            )
        blocks.append(CorrelatedBlock(tuple(ordered), factor))
    return blocks


def cholesky(matrix: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...] | None:
    """The lower factor of a symmetric matrix; None where it is not positive definite."""
    rows: list[list[float]] = []
    for i, line in enumerate(matrix):
        row = [0.0] * len(matrix)
        for j in range(i + 1):
            rest = line[j] - sum(
                a * b for a, b in zip(row[:j], (rows[j] if j < i else row), strict=False)
            )
            if j < i:
                row[j] = rest / rows[j][j]
            elif rest <= 1e-12:
                return None
            else:
                row[i] = math.sqrt(rest)
        rows.append(row)
    return tuple(map(tuple, rows))


def joined_labels(labels: Sequence[str], blocks: Iterable[CorrelatedBlock]) -> list[str]:
    """Labels of sources, where those of one block become one: only together have they a share."""
    joined = list(labels)
    for block in blocks:
        members = list(dict.fromkeys(joined[position] for position in block.positions))
        if len(members) == 1:
            continue
        text = (
            " + ".join(members)
            if len(members) < 4
            else f"{members[0]} and {len(members) - 1} correlated"
        )
        joined = [text if label in members else label for label in joined]
    return joined
