"""Uncertainty: what distributions of the inputs make of the targets.

Quasi-Monte Carlo: scrambled Sobol points, mapped through the quantiles of each source of
uncertainty. Sources are independent of each other but for inputs that are declared correlated.
Seeds are fixed, so that the same query has the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assay.errors import AssayError, EvaluationError, InputError
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.resolving.resolution import TRUNCATED
from assay.model.selection import check_variants
from assay.model.uncertainty.correlation import joined_labels
from assay.model.uncertainty.sampling import (
    Evaluator,
    PointEvaluator,
    TapeEvaluator,
    nominal_values,
)
from assay.model.uncertainty.sobol_indices import sobol_indices
from assay.model.uncertainty.sources import UncertaintyQuery, UncertaintySources, find_sources
from assay.model.uncertainty.truncation import Array

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

COUNT = 4096
POINTWISE_COUNT = 256
"""Points where each is resolved separately, which takes milliseconds."""
REPLICATES = 8
SHARES_COUNT = 1024
POINTWISE_SHARES_COUNT = 64


@dataclass(frozen=True)
class Sample:
    """Values of targets in base units, one row each; NaN where a point has no value.

    `replicates` holds independent repetitions of the whole sample, the first being `samples`;
    `degradations` has one line for each loss of accuracy, such as fewer points.
    """

    names: tuple[str, ...]
    replicates: Array = field(repr=False)
    degradations: tuple[str, ...] = ()

    @property
    def samples(self) -> Array:
        """Values of shape (targets, points)."""
        first: Array = self.replicates[0]
        return first

    @property
    def mean(self) -> Array:
        """Mean of each target."""
        return np.asarray(np.nanmean(self.samples, axis=1))

    @property
    def std(self) -> Array:
        """Standard deviation of each target."""
        return np.asarray(np.nanstd(self.samples, axis=1))

    def quantiles(self, probabilities: Sequence[float]) -> Array:
        """Quantiles of shape (targets, probabilities)."""
        return np.asarray(np.nanquantile(self.samples, probabilities, axis=1).T)

    def standard_errors(self, probabilities: Sequence[float]) -> Array | None:
        """Standard errors of `quantiles`, from its spread over repetitions; None without any."""
        if len(self.replicates) < 2:
            return None
        each = np.nanquantile(self.replicates, probabilities, axis=2)
        return np.asarray(each.std(axis=1, ddof=1).T)


def propagate(
    registry: Declarations,
    targets: str | Sequence[str],
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str] | None = None,
    *,
    count: int = COUNT,
    seed: int = 0,
    switch: bool = True,
    replicates: int = REPLICATES,
) -> Sample:
    """Sample the targets over the distributions among the given inputs.

    `count` is a power of two. Cones with relations that no tape can hold are resolved at
    fewer points, without repetitions, and the result says so.
    """
    check_count(count)
    query = make_query(
        registry, [targets] if isinstance(targets, str) else targets, given, variants, switch
    )
    nominal = nominal_values(query)
    sources = find_sources(query)
    if not sources.names:
        certain = np.array([nominal[name] for name in query.targets])
        return Sample(query.targets, np.tile(certain[:, None], (replicates, 1, count)))
    evaluator, reason = choose_evaluator(query, sources, nominal)
    notes = []
    if reason:
        requested, count, replicates = count, min(count, POINTWISE_COUNT), 1
        notes.append(f"{count} points instead of {requested}, resolved one by one: {reason}")
    values = np.stack(
        [evaluator(evaluator.points(count, seed, index)) for index in range(replicates)]
    )
    notes += outside_notes(evaluator)
    for row, name in enumerate(query.targets):
        notes += check_finite(name, values[:, row], evaluator)
    return Sample(query.targets, np.where(np.isfinite(values), values, np.nan), tuple(notes))


class PercentileInterval(NamedTuple):
    """The 5th and 95th percentile in base units, and `degradations` as in `Sample`."""

    lower: float
    upper: float
    degradations: tuple[str, ...]


def intervals(
    query: UncertaintyQuery, sources: UncertaintySources, nominal: Mapping[str, float]
) -> dict[str, PercentileInterval | EvaluationError]:
    """The range that holds the central 90 % of each target, from one sample for all of them.

    `nominal` holds the values on the way to the targets, with each uncertain input at its median.
    The interval of a target without a finite value at most points is an error.
    """
    evaluator, reason = choose_evaluator(query, sources, nominal)
    if reason and len(query.targets) > 1:
        # One target that no tape can hold does not slow down the others.
        alone = [replace(query, targets=(name,)) for name in query.targets]
        return {each.targets[0]: interval(each, nominal) for each in alone}
    count = POINTWISE_COUNT if reason else COUNT
    values = evaluator(evaluator.points(count, 0))
    notes = [f"{count} points instead of {COUNT}, resolved one by one: {reason}"] if reason else []
    return {
        name: _percentiles(name, row, evaluator, [*notes, *outside_notes(evaluator, name)])
        for name, row in zip(query.targets, values, strict=True)
    }


def interval(
    query: UncertaintyQuery, nominal: Mapping[str, float]
) -> PercentileInterval | EvaluationError:
    """The range that holds the central 90 % of the only target of a query."""
    (sampled,) = intervals(query, find_sources(query), nominal).values()
    return sampled


def _percentiles(
    name: str, values: Array, evaluator: Evaluator, notes: list[str]
) -> PercentileInterval | EvaluationError:
    try:
        notes += check_finite(name, values, evaluator)
    except EvaluationError as error:
        return error
    # As np.quantile, which imports NumPy's masked arrays on its first call.
    ordered = np.sort(values[np.isfinite(values)])
    lower, upper = np.interp(
        np.array((0.05, 0.95)) * (ordered.size - 1), np.arange(ordered.size), ordered
    )
    return PercentileInterval(float(lower), float(upper), tuple(notes))


class VarianceShare(NamedTuple):
    """First- and total-order Sobol indices of a source of uncertainty.

    `first_order` is the share of the variance that would vanish, on average, if the source were
    known. `total_order` adds its interactions with other sources. Either is within `half_width` of
    its true value with 95 % confidence.
    """

    name: str
    first_order: float
    total_order: float
    half_width: float


class VarianceShares(list[VarianceShare]):
    """Shares of a target's variance; `degradations` as in `Sample`.

    `members` has the sources behind each name: inputs that are correlated have one share together.
    """

    degradations: tuple[str, ...] = ()
    members: Mapping[str, tuple[str, ...]]


def variance_shares(
    registry: Declarations,
    target: str,
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str] | None = None,
    *,
    count: int = SHARES_COUNT,
    seed: int = 0,
    switch: bool = True,
    groups: Mapping[str, str] | None = None,
) -> VarianceShares:
    """Divide a target's variance among its sources of uncertainty by Sobol indices.

    `groups` maps names of uncertain variables to a label; those that share one are treated as
    a single source. The target is evaluated at `count` points for each source, plus two.
    """
    check_count(count)
    query = make_query(registry, [target], given, variants, switch)
    nominal = nominal_values(query)
    sources = find_sources(query)
    shares = VarianceShares()
    shares.members = {}
    if not sources.names:
        return shares
    evaluator, reason = choose_evaluator(query, sources, nominal)
    labels = joined_labels([(groups or {}).get(n, n) for n in sources.names], evaluator.blocks)
    names = tuple(dict.fromkeys(labels))
    shares.members = {
        name: tuple(n for n, label in zip(sources.names, labels, strict=True) if label == name)
        for name in names
    }
    notes = []
    if reason:
        requested, count = count, min(count, POINTWISE_SHARES_COUNT)
        notes.append(
            f"{count} points a source instead of {requested}, resolved one by one: {reason}"
        )
    outcomes = _crossed_outcomes(evaluator, labels, names, count, seed)
    notes += outside_notes(evaluator)
    notes += check_finite(target, outcomes, evaluator)
    # The estimators compare outcomes within a row, so a row is used whole or not at all.
    outcomes = outcomes[np.isfinite(outcomes).all(axis=1)]
    if len(outcomes) < 2:
        raise EvaluationError(
            f"{target} has too few finite values to tell shares of its variance",
            evaluator.failure or "narrow the distributions of its inputs",
        )
    if np.ptp(outcomes) <= 1e-14 * np.abs(outcomes).max():
        notes.append(f"{target} does not vary with its uncertain inputs")
        shares.extend(VarianceShare(name, 0.0, 0.0, 0.0) for name in names)
    elif len(names) == 1:
        shares.append(VarianceShare(names[0], 1.0, 1.0, 0.0))
    else:
        shares.extend(_indices(names, outcomes, seed))
    shares.degradations = tuple(notes)
    return shares


def _crossed_outcomes(
    evaluator: Evaluator, labels: Sequence[str], names: Sequence[str], count: int, seed: int
) -> Array:
    """Outcomes of Saltelli's design: A, A with one source taken from B each, and B.

    One row for each of `count` points. The points of one column are held at a time: those of all
    would grow with the square of the sources.
    """
    first, second = evaluator.point_pairs(count, seed)
    columns = [evaluator(first)[0]]
    for name in names:
        rows = [row for row, label in enumerate(labels) if label == name]
        crossed = first.copy()
        crossed[rows] = second[rows]
        columns.append(evaluator(crossed)[0])
    columns.append(evaluator(second)[0])
    return np.stack(columns, axis=1)


def _indices(names: Sequence[str], outcomes: Array, seed: int) -> tuple[VarianceShare, ...]:
    indices = sobol_indices(outcomes, seed + 1)
    return tuple(
        VarianceShare(name, first, total, max(first_width, total_width))
        for name, (first, total, first_width, total_width) in zip(names, indices, strict=True)
    )


def check_count(count: int) -> None:
    """Refuse a number of points that is not a power of two, as a Sobol sequence needs."""
    if count < 2 or count & (count - 1):
        raise InputError(
            f"number of points: expected a power of two, got {count}", "use 1024 or 4096"
        )


def make_query(
    registry: Declarations,
    targets: Sequence[str],
    given: Inputs | Mapping[str, Given],
    variants: Mapping[str, str] | None,
    switch: bool,
) -> UncertaintyQuery:
    """Check names and values of a query."""
    for name in targets:
        registry.variable(name)
    check_variants(registry, variants or {})
    inputs = given if isinstance(given, Inputs) else read_inputs(registry, given)
    return UncertaintyQuery(registry, tuple(targets), inputs, variants or {}, switch)


def choose_evaluator(
    query: UncertaintyQuery, sources: UncertaintySources, nominal: Mapping[str, float]
) -> tuple[Evaluator, str]:
    """A tape where the cone compiles; else point by point, with the reason."""
    try:
        return TapeEvaluator(query, sources, nominal), ""
    except AssayError as error:
        return PointEvaluator(query, sources, nominal), error.message


def outside_notes(evaluator: Evaluator, target: str | None = None) -> list[str]:
    """One line for each distribution, of those that reach a target, that extends beyond bounds."""
    return [
        f"{name} {TRUNCATED}: {share:.2g} of its distribution lies outside"
        for name, share in evaluator.outside.items()
        if target is None or target in evaluator.sources.reached_from(name)
    ]


def check_finite(name: str, values: Array, evaluator: Evaluator) -> list[str]:
    """A line on points without a finite value; an error where they are more than half."""
    failed = int(np.count_nonzero(~np.isfinite(values)))
    if not failed:
        return []
    text = f"{name} has no finite value at {failed} of {values.size} points"
    if 2 * failed > values.size:
        raise EvaluationError(text, evaluator.failure or "narrow the distributions of its inputs")
    return [f"{text}, which are left out" + (f": {evaluator.failure}" if evaluator.failure else "")]
