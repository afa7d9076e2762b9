"""90 % intervals of many cases, by the sampling that `resolve` uses.

Every case is a point of the graph with its distributions: fitted constants with their covariance,
and the model error. `resolve` on the same inputs gives the same interval. Here fewer points are
drawn, and one tape evaluates the cases that give the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.catalog import accelerators
from assay.model.inputs import Inputs, read_inputs
from assay.model.uncertainty.sampling import Sampler
from assay.model.uncertainty.sources import UncertaintyQuery, UncertaintySources, find_sources
from assay.scenario.includes import Include, include_calibrated
from assay.stack import registry
from assay.validate.points import compile_known

Array = NDArray[np.float64]

COUNT = 256
"""Points a case: the ends of an interval are known to about 3 % of its width."""
_TAILS = (0.05, 0.95)


@cache
def accelerator_inputs(system: str) -> Inputs:
    """Values of an accelerator and fitted constants, as a scenario includes them.

    Published runs on accelerators whose constants scenarios may not borrow are predicted too.
    """
    entry = accelerators.find(system)
    return inputs_of(include_calibrated(entry, entry.path, registry()))


def inputs_of(found: Include) -> Inputs:
    """The values of an include that the graph knows."""
    variables = registry().variables
    given = {name: value.read(variables[name]) for name, value in found.values.items()}
    return read_inputs(registry(), given, found.correlations)


def with_distributions(values: Mapping[str, float], *parts: Inputs) -> Inputs:
    """Values of a case, uncertain where they are those of an include that is."""
    distributions = {
        name: distribution
        for part in parts
        for name, distribution in part.distributions.items()
        if values.get(name) == part.values[name]
    }
    correlations = {
        pair: value
        for part in parts
        for pair, value in part.correlations.items()
        if all(name in distributions for name in pair)
    }
    return Inputs(dict(values), distributions, correlations)


def samples(cases: Sequence[Inputs], outputs: Sequence[str], count: int = COUNT) -> Array:
    """Outputs at sampled points, of shape (outputs, cases, points).

    A case's certain inputs are single numbers, so that what follows from those alone is computed
    once a case.
    """
    found = np.full((len(outputs), len(cases), count), np.nan)
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, case in enumerate(cases):
        groups.setdefault(tuple(sorted(case.values)), []).append(position)
    for names, positions in groups.items():
        cone = compile_known(names, tuple(outputs))
        if cone.function is None:
            continue
        rows = [list(outputs).index(name) for name in cone.outputs]
        place_of = {name: place for place, name in enumerate(names)}
        drawn = {p: _drawn(cases[p], names, cone.outputs, count) for p in positions}
        # A tape keeps its plan for the inputs that varied last.
        for position in sorted(positions, key=lambda p: drawn[p][0]):
            columns: list[Any] = [cases[position].values[name] for name in names]
            for name, column in zip(*drawn[position], strict=True):
                columns[place_of[name]] = column
            values = np.empty((len(rows), count))
            cone.function.tape.evaluate(
                [*columns, *cone.function.fixed.values()], count, values.data
            )
            found[rows, position] = values
    return found


def _drawn(
    case: Inputs, names: Sequence[str], outputs: Sequence[str], count: int
) -> tuple[tuple[str, ...], Array]:
    """The uncertain inputs of a case, and their sampled points, one row each."""
    key = (
        tuple(outputs), tuple(names), tuple(case.distributions.items()),
        tuple(case.correlations.items()), count,
    )  # fmt: skip
    if key not in _DRAWN:
        query = UncertaintyQuery(registry(), tuple(outputs), case, {})
        same = tuple(outputs), tuple(names), tuple(case.distributions)
        if same not in _SOURCES:
            _SOURCES[same] = find_sources(query)
        sources = _SOURCES[same]
        _DRAWN[key] = sources.inputs, Sampler(query, sources).points(count, 0)
    return _DRAWN[key]


_DRAWN: dict[tuple[object, ...], tuple[tuple[str, ...], Array]] = {}
"""Points of the sources, which are the same for cases with the same distributions."""
_SOURCES: dict[tuple[object, ...], UncertaintySources] = {}
"""Sources, which are the same for cases whose given and uncertain inputs have the same names."""


def intervals(cases: Sequence[Inputs], outputs: Sequence[str], count: int = COUNT) -> Array:
    """The 5th and 95th percentile, of shape (outputs, cases, 2); NaN where there is no value."""
    found = samples(cases, outputs, count)
    ends = np.full((*found.shape[:2], 2), np.nan)
    known = np.isfinite(found).all(axis=2)
    ends[known] = np.quantile(found[known], _TAILS, axis=1).T
    return ends
