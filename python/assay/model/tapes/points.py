"""Evaluation at many points: by a tape where the cone compiles, else point by point."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from assay.array_types import Floats
from assay.errors import ConvergenceError, EvaluationError, UnsupportedError
from assay.model.inputs import Inputs
from assay.model.language.expression import Expression, evaluate, variables_of
from assay.model.resolving.resolver import Resolver
from assay.model.tapes.compile import Compiled, compile_cone
from assay.model.tapes.cones import Cones

if TYPE_CHECKING:
    from assay.model.declarations import Declarations


Item = TypeVar("Item")

_DIFFERENCE_STEP = 1e-6


class PointFunction:
    """Some outputs as a function of some inputs, in base units.

    A row per output: variables first, then definitions, then conditions. A point without a
    value is NaN, never an error. `exact` says whether derivatives are; `note` says why not.
    """

    def __init__(
        self,
        registry: Declarations,
        inputs: Sequence[str],
        given: Mapping[str, float],
        variants: Mapping[str, str],
        *,
        switch: bool = True,
        outputs: Sequence[str] = (),
        definitions: Sequence[str] = (),
        conditions: Mapping[str, Expression] | None = None,
    ) -> None:
        """Lower the cone, or resolve point by point where a relation cannot be lowered.

        A name in `definitions` is known, as input or given, and yet its own right-hand side
        is an output.
        """
        self.registry = registry
        self.inputs = tuple(inputs)
        self.given = {name: value for name, value in given.items() if name not in inputs}
        self.variants = variants
        self.switch = switch
        self.outputs = tuple(outputs)
        self.definitions = tuple(definitions)
        self.conditions = dict(conditions or {})
        self.rows = len(self.outputs) + len(self.definitions) + len(self.conditions)
        self.note: str | None = None
        self._compiled: Compiled | None = None
        try:
            self._compiled = self._compile()
        except UnsupportedError as error:
            self.note = f"{error.message}: resolved point by point instead"

    @property
    def exact(self) -> bool:
        """Whether a tape computes the values and exact derivatives."""
        return self._compiled is not None

    def __call__(self, columns: Floats) -> Floats:
        """Values of shape (rows, points) for inputs of shape (inputs, points)."""
        columns = np.ascontiguousarray(columns, dtype=np.float64)
        if self._compiled is not None and self.inputs:
            return self._compiled(*columns)
        if self._compiled is not None:
            # Without inputs all points are one.
            return np.repeat(self._compiled()[:, None], columns.shape[1], axis=1)
        table = np.empty((self.rows, columns.shape[1]))
        for point in range(columns.shape[1]):
            table[:, point] = self._resolve(columns[:, point])
        return table

    def jacobian(self, point: Floats, count: int | None = None) -> Floats:
        """Derivatives of all rows by the first `count` inputs (all by default) at one point."""
        inputs = self.inputs if count is None else self.inputs[:count]
        if self._compiled is not None:
            return self._compiled.jacobian(*map(float, point), wrt=inputs)
        steps = _DIFFERENCE_STEP * np.maximum(np.abs(point[: len(inputs)]), 1e-300)
        ahead = np.tile(point[:, None], len(inputs))
        behind = ahead.copy()
        diagonal = np.arange(len(inputs))
        ahead[diagonal, diagonal] += steps
        behind[diagonal, diagonal] -= steps
        result: Floats = (self(ahead) - self(behind)) / (2 * steps)
        return result

    def _compile(self) -> Compiled:
        cones = Cones(self.registry, [*self.inputs, *self.given], self.variants, switch=self.switch)
        expressions: dict[str, Expression] = {}
        for name in self.definitions:
            side = cones.definition_expression(name)
            if side is None:
                relation = cones.relations(name)[0]
                raise UnsupportedError(
                    f"{relation.kind} relation {relation.name} cannot be compiled to a tape"
                )
            expressions[f"definition of {name}"] = side
        expressions.update(self.conditions)
        return compile_cone(
            self.registry, self.inputs, self.outputs, Inputs(self.given), self.variants,
            switch=self.switch, conditions=expressions,
        )  # fmt: skip

    def _resolve(self, point: Floats) -> list[float]:
        known = {**self.given, **dict(zip(self.inputs, map(float, point), strict=True))}
        here = self._resolver(known)
        values = [_or_nan(here.value, name) for name in self.outputs]
        for name in self.definitions:
            others = {key: value for key, value in known.items() if key != name}
            values.append(_or_nan(self._resolver(others).value, name))
        for condition in self.conditions.values():
            values.append(_or_nan(partial(_evaluate, here), condition))
        return values

    def _resolver(self, known: dict[str, float]) -> Resolver:
        return Resolver(self.registry, Inputs(known), self.variants, switch=self.switch)


def _or_nan(compute: Callable[[Item], float | None], item: Item) -> float:
    with warnings.catch_warnings():
        # An integrator may warn before it fails; the caller reports the failure once.
        warnings.simplefilter("ignore")
        try:
            value = compute(item)
        except (EvaluationError, ConvergenceError):
            return np.nan
    return np.nan if value is None else value


def _evaluate(resolver: Resolver, expression: Expression) -> float | None:
    values = {name: resolver.value(name) for name in variables_of(expression)}
    known = {name: value for name, value in values.items() if value is not None}
    return evaluate(expression, known) if len(known) == len(values) else None
