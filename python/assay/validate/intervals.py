"""90 % intervals of many cases, by the sampling that `resolve` uses.

Every case is a point of the graph with its distributions: fitted constants with their covariance,
and the model error. `resolve` on the same inputs gives the same interval. Here fewer points are
drawn, and one tape evaluates all cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from assay.catalog import accelerators
from assay.model.inputs import Inputs, read_inputs
from assay.model.tapes.compile import Compiled
from assay.model.uncertainty.sampling import Sampler
from assay.model.uncertainty.sources import UncertaintyQuery, find_sources
from assay.scenario.includes import Include, include_calibrated
from assay.stack import registry
from assay.validate.points import compile_known

Array = NDArray[np.float64]

COUNT = 256
"""Points a case: the ends of an interval are known to about 3 % of its width."""
_CASES_AT_ONCE = 64
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
    """Outputs at sampled points, of shape (outputs, cases, points)."""
    found = np.full((len(outputs), len(cases), count), np.nan)
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, case in enumerate(cases):
        groups.setdefault(tuple(sorted(case.values)), []).append(position)
    for names, positions in groups.items():
        cone = compile_known(names, tuple(outputs))
        if cone.function is None:
            continue
        rows = [list(outputs).index(name) for name in cone.outputs]
        for start in range(0, len(positions), _CASES_AT_ONCE):
            part = positions[start : start + _CASES_AT_ONCE]
            drawn = np.stack([_points(cases[p], names, cone.outputs, count) for p in part], axis=1)
            values = _evaluate(cone.function, drawn)
            for row, value in zip(rows, values, strict=True):
                found[row, part] = value
    return found


def _evaluate(function: Compiled, points: Array) -> Array:
    """Outputs at points of shape (inputs, cases, points)."""
    values = function(*points.reshape(len(points), -1))
    return values.reshape(len(values), *points.shape[1:])


def _points(case: Inputs, names: Sequence[str], outputs: Sequence[str], count: int) -> Array:
    """All inputs of a case at sampled points, in order of the names."""
    values = np.array([case.values[name] for name in names])
    points = np.repeat(values[:, None], count, axis=1)
    row_of = {name: row for row, name in enumerate(names)}
    key = (
        tuple(outputs), tuple(names), tuple(case.distributions.items()),
        tuple(case.correlations.items()), count,
    )  # fmt: skip
    if key not in _DRAWN:
        query = UncertaintyQuery(registry(), tuple(outputs), case, {})
        sources = find_sources(query)
        _DRAWN[key] = sources.inputs, Sampler(query, sources).points(count, 0)
    for name, column in zip(*_DRAWN[key], strict=True):
        points[row_of[name]] = column
    return points


_DRAWN: dict[tuple[object, ...], tuple[tuple[str, ...], Array]] = {}
"""Points of the sources, which are the same for cases with the same distributions."""


def intervals(cases: Sequence[Inputs], outputs: Sequence[str], count: int = COUNT) -> Array:
    """The 5th and 95th percentile, of shape (outputs, cases, 2); NaN where there is no value."""
    found = samples(cases, outputs, count)
    ends = np.full((*found.shape[:2], 2), np.nan)
    known = np.isfinite(found).all(axis=2)
    ends[known] = np.quantile(found[known], _TAILS, axis=1).T
    return ends
