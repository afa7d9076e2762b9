"""Evaluation of targets at many points of their uncertain inputs.

A point is one probability for each source of uncertainty. One tape computes the parameters of each
stochastic relation, whose draws are inputs of the next, and one computes the targets. Cones that
cannot be compiled are resolved point by point.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from assay._native import Tape
from assay.errors import AssayError, MissingInputsError
from assay.model import store
from assay.model.dependency_walk import Walk
from assay.model.inputs import Inputs
from assay.model.language.distributions import KINDS
from assay.model.language.dynamics import Stochastic
from assay.model.language.encoding import encode
from assay.model.language.expression import Expression
from assay.model.language.normal import normal_quantile, normal_share
from assay.model.language.relations import Relation
from assay.model.resolving.resolver import Resolver
from assay.model.tapes.compile import Lowering
from assay.model.tapes.program import TapeValue
from assay.model.uncertainty.correlation import correlated_blocks
from assay.model.uncertainty.sobol import sobol_points
from assay.model.uncertainty.sources import UncertaintyQuery, UncertaintySources
from assay.model.uncertainty.truncation import Array, truncated_quantile, truncated_quantile_of

if TYPE_CHECKING:
    from assay.model.declarations import SimultaneousBlock

_ROWS = 8
"""Distributions that are sampled together: few calls, and arrays that stay in the L2 cache."""
NEGLIGIBLE = 1e-6
"""Shares of a distribution outside its bounds below this are not reported."""


class Sampler:
    """Draws points of the sources of uncertainty.

    `outside` holds the truncated share of each distribution that extends beyond its variable's
    bounds.
    """

    def __init__(self, query: UncertaintyQuery, sources: UncertaintySources) -> None:
        """Prepare to draw; correlations that contradict each other are refused."""
        self.query = query
        self.sources = sources
        self.blocks = correlated_blocks(sources.inputs, query.inputs.correlations)
        self.outside: dict[str, float] = {}

    def inverse_cdf(self, probabilities: Array) -> Array:
        """Map probabilities to values of the given inputs, one row for each source.

        Rows of stochastic relations stay probabilities: their parameters are computed later.
        """
        points = self._correlated(probabilities)
        given = self.query.inputs.distributions
        by_kind: dict[str, list[int]] = {}
        for row, name in enumerate(self.sources.inputs):
            by_kind.setdefault(given[name].kind, []).append(row)
        for kind, rows in by_kind.items():
            step = 1 if kind == "empirical" else _ROWS
            for start in range(0, len(rows), step):
                self._quantiles(kind, rows[start : start + step], points)
        return points

    def _quantiles(self, kind: str, rows: list[int], points: Array) -> None:
        """Replace probabilities by quantiles in rows whose distributions are of one kind."""
        names = [self.sources.inputs[row] for row in rows]
        variables = [self.query.registry.variables[name] for name in names]
        given = [self.query.inputs.distributions[name] for name in names]
        if kind == "empirical":
            (row,), (variable,) = rows, variables
            points[row], outside = truncated_quantile_of(
                given[0], points[row], variable.lower, variable.upper
            )
            shares = [outside]
        else:
            parameters = np.array([distribution.parameters for distribution in given]).T[..., None]
            lower, upper = np.array([(v.lower, v.upper) for v in variables]).T[..., None]
            points[rows], outsides = truncated_quantile(
                kind, points[rows], tuple(parameters), lower, upper
            )
            shares = outsides[:, 0].tolist()
        for row, variable in zip(rows, variables, strict=True):
            if variable.is_count:
                lowest = math.ceil(max(variable.lower, -1e300))
                points[row] = np.clip(np.rint(points[row]), lowest, variable.upper)
        for name, share in zip(names, shares, strict=True):
            self._note_outside(name, share)

    def _correlated(self, probabilities: Array) -> Array:
        """Probabilities that are uniform each and correlated by a Gaussian copula."""
        points = probabilities.copy()
        for block in self.blocks:
            rows = list(block.positions)
            # Not by `@`: the threads of BLAS take longer to start than the sums.
            scores = np.einsum(
                "ij,jk->ik", np.array(block.factor), normal_quantile(probabilities[rows])
            )
            points[rows] = normal_share(scores)
        return points

    def points(self, count: int, seed: int, replicate: int = 0) -> Array:
        """Points of the sources, of which `count` is a power of two."""
        sources = self.sources
        return self.inverse_cdf(
            sobol_points(sources.dimensions, count, seed, replicate, of=sources.of)
        )

    def point_pairs(self, count: int, seed: int) -> tuple[Array, Array]:
        """Two independent sets of points, for estimators that exchange rows between them."""
        sources = len(self.sources.names)
        cells = sobol_points(2 * sources, count, seed)
        return self.inverse_cdf(cells[:sources]), self.inverse_cdf(cells[sources:])

    def _note_outside(self, name: str, share: float) -> None:
        if share > NEGLIGIBLE:
            self.outside[name] = max(self.outside.get(name, 0.0), share)


class Evaluator(Sampler, ABC):
    """Computes targets at points; `failure` is the error at the first point without a value."""

    def __init__(
        self, query: UncertaintyQuery, sources: UncertaintySources, nominal: Mapping[str, float]
    ) -> None:
        """Prepare to answer a query; `nominal` holds the values at the medians."""
        super().__init__(query, sources)
        self.nominal = nominal
        self.fixed = fixed_values(query, sources, nominal)
        self.failure = ""

    @abstractmethod
    def __call__(self, points: Array) -> Array:
        """Values (targets, points) at points (sources, points); NaN where a target has none."""


class TapeEvaluator(Evaluator):
    """Evaluates all points at once by tapes; raises where the cone does not compile."""

    def __init__(
        self, query: UncertaintyQuery, sources: UncertaintySources, nominal: Mapping[str, float]
    ) -> None:
        """Lower the cone."""
        super().__init__(query, sources, nominal)
        self._starts = {
            member: nominal[member]
            for block in query.registry.blocks.values()
            for member in block.members
            if member in sources.varying and member in nominal
        }
        self._stages: list[tuple[int, Stochastic, Tape]] = []
        columns = list(sources.inputs)
        for row, relation in enumerate(sources.drawn, start=len(sources.inputs)):
            try:
                tape = self._lower(columns, (), parameter_parts(relation))
            except MissingInputsError:
                # A relation to switch to that lacks inputs: no point uses it.
                continue
            self._stages.append((row, relation, tape))
            columns.append(_column(relation))
        try:
            self._tape = self._lower(columns, query.targets, {})
        except MissingInputsError as error:
            # The targets have values at the medians, so that no branch taken there needs these.
            self.fixed.update(dict.fromkeys(error.names, math.nan))
            self._tape = self._lower(columns, query.targets, {})

    def __call__(self, points: Array) -> Array:
        """Evaluate the targets at all points."""
        columns = list(points[: len(self.sources.inputs)])
        for row, relation, tape in self._stages:
            parameters = tuple(self._run(tape, columns, points.shape[1]))
            variable = self.query.registry.variables[relation.variable]
            values, outside = truncated_quantile(
                relation.distribution, points[row], parameters, variable.lower, variable.upper
            )
            known = outside[np.isfinite(outside)]
            self._note_outside(variable.name, float(known.mean()) if known.size else 0.0)
            columns.append(values)
        return self._run(self._tape, columns, points.shape[1])

    def _lower(
        self, columns: Sequence[str], outputs: Sequence[str], parts: Mapping[str, Expression]
    ) -> Tape:
        query = self.query
        names = [*columns, *self.fixed, *map(_start, self._starts)]

        def lower() -> Tape:
            lowering = _StagedLowering(query.registry, names, query.variants, switch=query.switch)
            return lowering.tape(outputs, parts)

        key = store.fingerprint(
            "sampling",
            query.registry.key,
            names,
            list(outputs),
            [encode(part) for part in parts.values()],
            sorted(query.variants.items()),
            query.switch,
        )
        return store.cached_tape(key, lower)

    def _run(self, tape: Tape, columns: Sequence[Array], count: int) -> Array:
        out = np.empty((tape.n_outputs, count))
        rows = [np.ascontiguousarray(column) for column in columns]
        fixed = [*self.fixed.values(), *self._starts.values()]

        def evaluate(points: slice) -> None:
            inputs = [row[points].data for row in rows]
            tape.evaluate([*inputs, *fixed], len(out[0, points]), [o[points].data for o in out])

        # The tape runs without the interpreter's lock: half of the points in a second thread. Points
        # that it did not reach are NaN.
        half = count // 2
        out[:, :half] = math.nan
        other = threading.Thread(target=evaluate, args=(slice(half),))
        other.start()
        evaluate(slice(half, count))
        other.join()
        return out


class PointEvaluator(Evaluator):
    """Resolves the targets point by point."""

    def __call__(self, points: Array) -> Array:
        """Evaluate the targets at all points."""
        targets = self.query.targets
        out = np.full((len(targets), points.shape[1]), math.nan)
        outside: dict[str, list[float]] = {}
        for index, point in enumerate(points.T):
            resolver = self._resolver([float(value) for value in point])
            for row, target in enumerate(targets):
                out[row, index] = self._value(resolver, target)
            for name, share in resolver.outside.items():
                outside.setdefault(name, []).append(share)
        for name, shares in outside.items():
            self._note_outside(name, sum(shares) / len(shares))
        return out

    def _resolver(self, point: list[float]) -> _DrawingResolver:
        query, sources = self.query, self.sources
        given = dict(zip(sources.inputs, point, strict=False))
        resolver = _DrawingResolver(
            query.registry, Inputs({**self.fixed, **given}), query.variants, switch=query.switch
        )
        drawn = zip(sources.drawn, point[len(given) :], strict=True)
        resolver.probability = {relation.name: share for relation, share in drawn}
        resolver.outside = {}
        return resolver

    def _value(self, resolver: Resolver, target: str) -> float:
        try:
            value = resolver.value(target)
        except AssayError as error:
            self.failure = self.failure or error.message
            return math.nan
        if value is None:
            self.failure = self.failure or f"{target} needs an input that was not given"
            return math.nan
        return value


class _StagedLowering(Lowering):
    """Reads draws of stochastic relations and the starts of blocks as inputs."""

    def _relation(self, relation: Relation) -> Walk[TapeValue]:
        drawn = self.inputs.get(_column(relation))
        return drawn if drawn is not None else (yield from super()._relation(relation))

    def _starts(self, block: SimultaneousBlock, tears: Sequence[str]) -> list[TapeValue]:
        usual = super()._starts(block, tears)
        return [
            self.inputs.get(_start(tear), value) for tear, value in zip(tears, usual, strict=True)
        ]


class _DrawingResolver(Resolver):
    """Draws from stochastic relations instead of taking their median."""

    probability: Mapping[str, float]
    outside: dict[str, float]

    def _walk(self, name: str) -> Walk[float | None]:
        value = yield from super()._walk(name)
        relation = self.chosen.get(name)
        if value is None or not isinstance(relation, Stochastic):
            return value
        needed = {key: v for key in relation.inputs if (v := self.values[key]) is not None}
        variable = self.registry.variables[name]
        drawn, outside = truncated_quantile_of(
            relation.parameters(needed),
            np.array([self.probability[relation.name]]),
            variable.lower,
            variable.upper,
        )
        self.outside[name] = outside
        return float(drawn[0])


def fixed_values(
    query: UncertaintyQuery, sources: UncertaintySources, nominal: Mapping[str, float]
) -> dict[str, float]:
    """Values that are the same at every point, computed ones among them."""
    known = {**query.inputs.values, **nominal}
    return {name: known[name] for name in sorted(sources.cone - sources.varying) if name in known}


def nominal_values(query: UncertaintyQuery) -> dict[str, float]:
    """Every value on the way to the targets, with each uncertain input at its median.

    Raises MissingInputsError when the given inputs do not suffice.
    """
    resolver = Resolver(query.registry, query.inputs, query.variants, switch=query.switch)
    for target in query.targets:
        if resolver.value(target) is None:
            names = [gap.variable.name for gap in resolver.missing(target)]
            raise MissingInputsError(
                f"{target} needs {len(names)} more inputs: {', '.join(names)}",
                names,
                "give each a value or a distribution",
            )
    return {name: value for name, value in resolver.values.items() if value is not None}


def parameter_parts(relation: Stochastic) -> dict[str, Expression]:
    """The expressions of a stochastic relation's parameters, in order."""
    count = len(KINDS[relation.distribution][0])
    return {f"parameter{i}": relation.part(f"parameter{i}") for i in range(count)}


def _column(relation: Relation) -> str:
    # No variable has a space in its name.
    return f"draw of {relation.name}"


def _start(name: str) -> str:
    return f"start of {name}"
