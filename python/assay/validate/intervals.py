"""90 % intervals of many cases, by the sampling that `resolve` uses.

Every case is a point of the graph with its distributions: fitted constants with their covariance,
and the model error. `resolve` on the same inputs gives the same interval. Here fewer points are
drawn, and one tape evaluates the cases that give the same inputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np

from assay.array_types import Floats
from assay.catalog import accelerators, stand_ins
from assay.model.inputs import Inputs, read_inputs
from assay.model.tapes.compile import Compiled
from assay.model.uncertainty.sampling import Sampler
from assay.model.uncertainty.sources import UncertainCone, UncertaintyQuery, find_cone, find_sources
from assay.scenario.includes import Include, include_calibrated
from assay.stack import registry
from assay.validate.points import Variants, compile_known

COUNT = 256
"""Points a case: the ends of an interval are known to about 3 % of its width."""
_TAILS = (0.05, 0.95)
_MOST_THREADS = 8


@cache
def accelerator_inputs(system: str) -> Inputs:
    """Values of an accelerator and fitted constants, as a scenario includes them.

    Published runs on accelerators whose constants scenarios may not borrow are predicted too.
    """
    entry = stand_ins.modeled(accelerators.find(system))
    return inputs_of(include_calibrated(entry, entry.path, registry()))


def inputs_of(include: Include) -> Inputs:
    """The values of an include that the graph knows."""
    variables = registry().variables
    given = {name: value.read(variables[name]) for name, value in include.values.items()}
    return read_inputs(registry(), given, include.correlations)


def with_distributions(values: Mapping[str, float], *parts: Inputs) -> Inputs:
    """Values of a case, uncertain where they are those of an include that is."""
    distributions = {
        name: distribution
        for part in parts
        for name, distribution in part.distributions.items()
        if values.get(name) == part.values[name]
    }
    correlations: dict[tuple[str, str], float] = {}
    for part in parts:
        correlations |= _between(part.correlations, distributions)
    return Inputs(dict(values), distributions, correlations)


def _between(
    correlations: Mapping[tuple[str, str], float], names: Mapping[str, object]
) -> Mapping[tuple[str, str], float]:
    """The correlations between some names: mostly all of them."""
    if {name for pair in correlations for name in pair} <= names.keys():
        return correlations
    return {pair: value for pair, value in correlations.items() if names.keys() >= set(pair)}


def samples(
    cases: Sequence[Inputs], outputs: Sequence[str], count: int = COUNT, variants: Variants = ()
) -> Floats:
    """Outputs at sampled points, of shape (outputs, cases, points).

    A case's certain inputs are single numbers, so that what follows from those alone is computed
    once a case.
    """
    drawn = np.full((len(outputs), len(cases), count), np.nan)
    groups: dict[tuple[str, ...], list[int]] = {}
    for position, case in enumerate(cases):
        groups.setdefault(tuple(sorted(case.values)), []).append(position)
    for names, positions in groups.items():
        cone = compile_known(names, tuple(outputs), variants)
        if cone.function is None:
            continue
        rows = [list(outputs).index(name) for name in cone.outputs]
        for position, values in _sampled(cone.function, cases, positions, count, variants):
            drawn[rows, position] = values
    return drawn


def _sampled(
    function: Compiled,
    cases: Sequence[Inputs],
    positions: Sequence[int],
    count: int,
    variants: Variants,
) -> Iterator[tuple[int, Floats]]:
    """Outputs of the cases at some positions, which give the inputs of a function."""
    names, outputs = function.inputs, function.outputs
    place_of = {name: place for place, name in enumerate(names)}
    drawn = {place: _drawn(cases[place], names, outputs, count, variants) for place in positions}

    def evaluate(position: int) -> tuple[int, Floats]:
        columns: list[Any] = [cases[position].values[name] for name in names]
        for name, column in zip(*drawn[position], strict=True):
            columns[place_of[name]] = column
        values = np.empty((len(outputs), count))
        function.tape.evaluate([*columns, *function.fixed.values()], count, values.data)
        return position, values

    # A tape keeps its plan for the inputs that varied last, and runs without the interpreter's lock.
    ordered = sorted(positions, key=lambda place: drawn[place][0])
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as threads:
        yield from threads.map(evaluate, ordered)


def _drawn(
    case: Inputs, names: Sequence[str], outputs: Sequence[str], count: int, variants: Variants
) -> tuple[tuple[str, ...], Floats]:
    """The uncertain inputs of a case, and their sampled points, one row each."""
    key = (
        tuple(outputs), tuple(names), tuple(case.distributions.items()),
        tuple(case.correlations.items()), count, variants,
    )  # fmt: skip
    if key not in _DRAWN:
        query = UncertaintyQuery(registry(), tuple(outputs), case, dict(variants))
        same = tuple(outputs), tuple(names), variants
        if same not in _CONES:
            _CONES[same] = find_cone(query)
        sources = find_sources(query, _CONES[same])
        _DRAWN[key] = sources.inputs, Sampler(query, sources).points(count, 0)
    return _DRAWN[key]


_DRAWN: dict[tuple[object, ...], tuple[tuple[str, ...], Floats]] = {}
"""Points of the sources, which are the same for cases with the same distributions."""
_CONES: dict[tuple[object, ...], UncertainCone] = {}
"""What outputs are computed from, which is the same for cases that give the same inputs."""


def intervals(
    cases: Sequence[Inputs],
    outputs: Sequence[str],
    count: int = COUNT,
    first: int | None = None,
    variants: Variants = (),
) -> Floats:
    """The 5th and 95th percentile, of shape (outputs, cases, 2); NaN where there is no value.

    `first` leaves all outputs but so many out, of a tape that has more.
    """
    drawn = samples(cases, outputs, count, variants)[:first]
    ends = np.full((*drawn.shape[:2], 2), np.nan)
    known = np.isfinite(drawn).all(axis=2)
    ends[known] = np.quantile(drawn[known], _TAILS, axis=1).T
    return ends
