"""The figures that are missed by most, with terms, assumptions, and what would have to be true."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.answers import plain_data
from assay.model.inputs import Inputs
from assay.validate.cases import KINDS, Case
from assay.validate.run import FOLDERS
from assay.validate.score import Row
from assay.validate.single_changes import SingleChange, single_changes

CHANGES = 4
"""Changes of one input listed for a figure."""


@dataclass(frozen=True)
class FigureInputs:
    """Inputs that predict a figure without its source, and the observed output in base units."""

    inputs: Inputs
    output: str
    observed: float


@dataclass(frozen=True)
class TermChange:
    """A term of a figure, and what it would have to be, the others as they are."""

    name: str
    before: float
    after: float


@dataclass(frozen=True)
class Miss:
    """One figure with what would have to be true for it."""

    row: Row
    terms: tuple[TermChange, ...]
    changes: tuple[SingleChange, ...]

    def to_data(self) -> dict[str, Any]:
        """The miss as plain data."""
        changes = plain_data(self.changes)
        return {**self.row.to_data(), "term_changes": plain_data(self.terms), "changes": changes}


def worst(rows: Sequence[Row], cases: Sequence[Case], count: int) -> list[Miss]:
    """The figures of all groups that constants without their source miss by most."""
    scored = [row for row in rows if row.group and row.held_out_error is not None]
    chosen = sorted(scored, key=_size, reverse=True)[:count]
    inputs = _figure_inputs(cases, {row.case for row in chosen})
    misses = []
    for row in chosen:
        known = inputs.get((row.case, row.quantity))
        changes = single_changes(known.inputs, known.output, known.observed) if known else []
        misses.append(Miss(row, _terms(row), tuple(changes[:CHANGES])))
    return misses


def _size(row: Row) -> float:
    """The size of a miss as a factor: half as much is as far off as twice as much."""
    return abs(math.log1p(row.held_out_error or 0.0))


def _figure_inputs(
    cases: Sequence[Case], wanted: set[str]
) -> Mapping[tuple[str, str], FigureInputs]:
    by_figure: dict[tuple[str, str], FigureInputs] = {}
    for name, kind in KINDS.items():
        own = [case for case in cases if case.kind == kind]
        if any(case.id in wanted for case in own):
            module = importlib.import_module(f"assay.validate.{FOLDERS[name]}.figure_inputs")
            for key, parts in module.figure_inputs(own, wanted).items():
                by_figure[key] = FigureInputs(*parts)
    return by_figure


def _terms(row: Row) -> tuple[TermChange, ...]:
    """Each term as large as it would have to be alone, the smallest change first.

    A term that would have to be negative is listed as gone, after the others. Terms of a rate are
    times of a step: the rate is observed if the step takes as much longer.
    """
    predicted = row.held_out if row.held_out is not None else row.predicted
    if not row.predicted or not predicted:
        return ()
    is_rate = "/s" in row.unit
    scale = row.predicted / predicted if is_rate else predicted / row.predicted
    terms = {name: value * scale for name, value in row.terms.items() if value > 0}
    whole = sum(terms.values())
    missing = whole * (predicted / row.observed - 1) if is_rate else row.observed - predicted
    changes = [TermChange(name, value, max(value + missing, 0.0)) for name, value in terms.items()]
    return tuple(sorted(changes, key=_term_size))


def _term_size(term: TermChange) -> tuple[float, float]:
    if term.after == 0:
        return math.inf, -term.before
    return abs(math.log(term.after / term.before)), 0.0
