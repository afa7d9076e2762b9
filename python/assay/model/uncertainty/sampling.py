"""Values of a cone at many points of its uncertain inputs.

A point is one probability for each source of uncertainty. Tapes do the work: one for the
parameters of each stochastic relation, whose draws the next ones take as an input, and one for
the targets. Cones that no tape can hold are resolved point by point.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from assay._native import Tape
from assay.errors import AssayError, MissingInputsError
from assay.model.inputs import Inputs
from assay.model.language.distributions import KINDS
from assay.model.language.dynamics import Stochastic
from assay.model.language.expression import Expression
from assay.model.language.relations import Relation
from assay.model.resolving.resolver import Resolver
from assay.model.tapes.compile import Lowering
from assay.model.tapes.program import Value
from assay.model.uncertainty.sources import Question, Sources
from assay.model.uncertainty.truncation import Array, draw, draw_given
from assay.model.walk import Walk

if TYPE_CHECKING:
    from assay.model.declarations import Block

NEGLIGIBLE = 1e-6
"""A share of a distribution outside its bounds that no percentile can show."""


class Evaluator(ABC):
    """Computes targets at points.

    `outside` holds, for each variable whose distribution reaches beyond its bounds, the share
    that was left out; `failure` the reason why the first point without a value has none.
    """

    def __init__(self, question: Question, sources: Sources, nominal: Mapping[str, float]) -> None:
        """Prepare to answer a question; `nominal` holds the values at the medians."""
        self.question = question
        self.sources = sources
        self.nominal = nominal
        self.fixed = fixed_values(question, sources, nominal)
        self.outside: dict[str, float] = {}
        self.failure = ""

    def place(self, probabilities: Array) -> Array:
        """Put a value for the probability of each given input, one row for each source.

        The rows of stochastic relations stay: their parameters are known later.
        """
        placed = probabilities.copy()
        for row, name in enumerate(self.sources.inputs):
            variable = self.question.registry.variables[name]
            distribution = self.question.inputs.distributions[name]
            placed[row], outside = draw_given(
                distribution, probabilities[row], variable.lower, variable.upper
            )
            self._note_outside(name, outside)
        return placed

    @abstractmethod
    def __call__(self, placed: Array) -> Array:
        """Turn placed points (sources, points) into values (targets, points), NaN where none."""

    def _note_outside(self, name: str, share: float) -> None:
        if share > NEGLIGIBLE:
            self.outside[name] = max(self.outside.get(name, 0.0), share)


class TapeEvaluator(Evaluator):
    """Evaluates all points at once; building one fails where the cone does not compile."""

    def __init__(self, question: Question, sources: Sources, nominal: Mapping[str, float]) -> None:
        """Lower the cone."""
        super().__init__(question, sources, nominal)
        self._stages: list[tuple[int, Stochastic, Tape]] = []
        columns = list(sources.inputs)
        for row, relation in enumerate(sources.drawn, start=len(sources.inputs)):
            try:
                tape = self._lower(columns, (), parameter_parts(relation))
            except MissingInputsError:
                # A relation to switch to that lacks inputs: no point can come to use it.
                continue
            self._stages.append((row, relation, tape))
            columns.append(_column(relation))
        self._tape = self._lower(columns, question.targets, {})

    def __call__(self, placed: Array) -> Array:
        """Evaluate the targets at all points."""
        columns = list(placed[: len(self.sources.inputs)])
        for row, relation, tape in self._stages:
            parameters = tuple(self._run(tape, columns, placed.shape[1]))
            variable = self.question.registry.variables[relation.variable]
            values, outside = draw(
                relation.distribution, placed[row], parameters, variable.lower, variable.upper
            )
            known = outside[np.isfinite(outside)]
            self._note_outside(variable.name, float(known.mean()) if known.size else 0.0)
            columns.append(values)
        return self._run(self._tape, columns, placed.shape[1])

    def _lower(
        self, columns: Sequence[str], outputs: Sequence[str], parts: Mapping[str, Expression]
    ) -> Tape:
        question = self.question
        lowering = _StagedLowering(
            question.registry,
            [*columns, *self.fixed],
            question.variants,
            switch=question.switch,
        )
        lowering.nominal = self.nominal
        return lowering.tape(outputs, parts)

    def _run(self, tape: Tape, columns: Sequence[Array], count: int) -> Array:
        out = np.empty((tape.n_outputs, count))
        inputs = [np.ascontiguousarray(column).data for column in columns]
        tape.evaluate([*inputs, *self.fixed.values()], count, out.data)
        return out


class PointEvaluator(Evaluator):
    """Resolves the targets at one point after the other, whatever their relations."""

    def __call__(self, placed: Array) -> Array:
        """Evaluate the targets at all points."""
        targets = self.question.targets
        out = np.full((len(targets), placed.shape[1]), math.nan)
        outside: dict[str, list[float]] = {}
        for index, point in enumerate(placed.T):
            resolver = self._resolver([float(value) for value in point])
            for row, target in enumerate(targets):
                out[row, index] = self._value(resolver, target)
            for name, share in resolver.outside.items():
                outside.setdefault(name, []).append(share)
        for name, shares in outside.items():
            self._note_outside(name, sum(shares) / len(shares))
        return out

    def _resolver(self, point: list[float]) -> _DrawingResolver:
        question, sources = self.question, self.sources
        given = dict(zip(sources.inputs, point, strict=False))
        resolver = _DrawingResolver(
            question.registry,
            Inputs({**self.fixed, **given}),
            question.variants,
            switch=question.switch,
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
    """Takes draws of stochastic relations as inputs and starts blocks at the nominal values."""

    nominal: Mapping[str, float]

    def _relation(self, relation: Relation) -> Walk[Value]:
        drawn = self.inputs.get(_column(relation))
        return drawn if drawn is not None else (yield from super()._relation(relation))

    def _walk_block(self, name: str, block: Block) -> Walk[Value]:
        known = {member: self.nominal[member] for member in block.members if member in self.nominal}
        started = replace(block, starts={**block.starts, **known})
        return (yield from super()._walk_block(name, started))


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
        drawn, outside = draw_given(
            relation.parameters(needed),
            np.array([self.probability[relation.name]]),
            variable.lower,
            variable.upper,
        )
        self.outside[name] = outside
        return float(drawn[0])


def fixed_values(
    question: Question, sources: Sources, nominal: Mapping[str, float]
) -> dict[str, float]:
    """Values that are the same at every point, computed ones among them."""
    known = {**question.inputs.values, **nominal}
    return {name: value for name, value in known.items() if name not in sources.varying}


def nominal_values(question: Question) -> dict[str, float]:
    """Every value on the way to the targets, with each uncertain input at its median.

    Raises MissingInputsError when the given inputs do not suffice.
    """
    resolver = Resolver(
        question.registry, question.inputs, question.variants, switch=question.switch
    )
    for target in question.targets:
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
