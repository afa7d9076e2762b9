"""The tape of a whole model against the resolver, at points with given, missing and failing values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
from graphs import RandomGraph, random_graphs
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from assay.errors import AssayError
from assay.model import Registry, Scope, where
from assay.model.resolving.constraint_verdicts import judge_constraints
from assay.model.resolving.resolve import make_resolver
from assay.model.selection import find_variant
from assay.model.tapes.whole import whole_tape


class Reading(NamedTuple):
    """Outputs and cones of the tape at one point, by section and name."""

    outputs: dict[tuple[str, str], float]
    cones: dict[str, set[str]]


def read(
    registry: Registry, values: Mapping[str, float], variants: Mapping[str, str] | None = None
) -> Reading:
    whole = whole_tape(registry)
    inputs = [(section, name) for section, names in whole.inputs.items() for name in names]
    outputs = [(section, name) for section, names in whole.outputs.items() for name in names]
    places = {pair: place for place, pair in enumerate(inputs)}
    point = np.zeros(len(inputs))
    for name, value in values.items():
        point[places["value", name]], point[places["given", name]] = value, 1.0
    for name, text in (variants or {}).items():
        variable = registry.variables[name]
        relations = variable.defining_equations
        if ("variant", name) in places:
            number = relations.index(find_variant(variable, text)) + 1
            point[places["variant", name]] = number
    out = np.empty((len(outputs), 1))
    whole.tape.evaluate(point.tolist(), 1, out.data)
    found = dict(zip(outputs, out[:, 0].tolist(), strict=True))
    return Reading(
        found,
        {
            name: {
                other
                for other in whole.inputs["probe"]
                if _gradient(whole.tape, point, outputs.index(("gap", name)))[
                    places["probe", other]
                ]
            }
            for name in registry.variables
        },
    )


def _gradient(tape: object, point: NDArray[np.float64], output: int) -> NDArray[np.float64]:
    weights = np.zeros(tape.n_outputs)  # type: ignore[attr-defined]
    weights[output] = 1.0
    gradient = np.empty((len(point), 1))
    tape.vjp(point.tolist(), 1, weights.tolist(), gradient.data)  # type: ignore[attr-defined]
    return gradient[:, 0]


def check(
    registry: Registry, values: Mapping[str, float], variants: Mapping[str, str] | None = None
) -> Reading:
    """Compare every variable, and what it is computed from, with the resolver."""
    reading = read(registry, values, variants)
    resolver = make_resolver(registry, values, variants or {})
    for name in registry.variables:
        gap = reading.outputs["gap", name]
        try:
            value = resolver.value(name)
        except AssayError:
            assert math.isnan(gap), name
            continue
        if value is None:
            assert gap > 0, name
            missing = {entry.variable.name for entry in resolver.missing(name)}
            roots = {n for n in reading.cones[name] if registry.variables[n].is_root}
            assert {n for n in roots if n not in values} == missing, name
        else:
            assert gap == 0, name
            shown = reading.outputs["value", name]
            assert math.isclose(shown, value, rel_tol=1e-12, abs_tol=1e-12), name
            assert reading.cones[name] == resolver.cone(name) & registry.variables.keys(), name
        if ("relation", name) in reading.outputs and name in resolver.chosen and value is not None:
            relations = registry.variables[name].defining_equations
            used = relations[int(reading.outputs["relation", name])]
            assert used.name == resolver.chosen[name].name
    statuses = {"true": 1.0, "false": 0.0, "unknown": 0.5}
    for verdict in judge_constraints(resolver).verdicts:
        assert reading.outputs["constraint", verdict.name] == statuses[verdict.status]
    conflicts = {conflict.variable.name for conflict in resolver.conflicts()}
    flagged = {
        name for (section, name), flag in reading.outputs.items() if section == "conflict" and flag
    }
    assert flagged == conflicts
    return reading


def block() -> Registry:
    """x = y/2 below y = 1, y/4 below 10, else y/2; y = x + c, as a block; and what follows from it."""
    scope = Scope("s", "a block of approximations")
    c = scope.variable("c", "c", "1", "offset", boundary="scenario")
    unknown = scope.variable("unknown", "u", "1", "nobody gives it", boundary="scenario")
    x = scope.variable("x", "x", "1", "a share of y")
    y = scope.variable("y", "y", "1", "x and an offset", equals=x + c)
    scope.approximation(x, y / 2, name="small", valid=y < 1)
    scope.approximation(x, y / 3, name="out_of_reach", valid=unknown > 0)
    scope.approximation(x, y / 4, name="large", valid=y < 10)
    scope.approximation(x, y * 0.5, name="huge")
    scope.simultaneous("loop", [x, y])
    scope.variable("z", "z", "1", "after the block", equals=x + y)
    return Registry.from_scopes([scope])


@pytest.mark.parametrize("variants", [{}, {"s.x": "small"}, {"s.x": "large"}, {"s.x": "huge"}])
@pytest.mark.parametrize(
    "values",
    [
        {"s.c": 0.2},
        {"s.c": 3.0},
        {"s.c": 30.0},
        {"s.c": 3.0, "s.x": 1.0},
        {"s.c": 3.0, "s.x": 2.0, "s.y": 1.0},
        {"s.y": 5.0},
        {},
    ],
)
def test_relations_of_a_block_are_chosen_at_its_solution(
    values: dict[str, float], variants: dict[str, str]
) -> None:
    check(block(), values, variants)


def choices() -> Registry:
    """A choice of relations by validity, branches that lack inputs, and a value that is not finite."""
    scope = Scope("s", "choices")
    x = scope.variable("x", "x", "1", "input", boundary="scenario")
    u = scope.variable("u", "u", "1", "input", boundary="scenario")
    v = scope.variable("v", "v", "1", "input", boundary="scenario")
    y = scope.variable("y", "y", "1", "approximated")
    scope.approximation(y, x, name="first", valid=x < 1)
    scope.approximation(y, 2 * x + v, name="unsure", valid=u > 0)
    scope.approximation(y, 4 * x, name="sure", valid=x < 10)
    inverse = scope.variable("inverse", "i", "1", "not finite at 3", equals=1 / (x - 3))
    scope.variable("branch", "b", "1", "a branch", equals=where(x < 2, x * 3, u + v))
    scope.variable("nested", "n", "1", "nested", equals=where(u > 1, where(x > 0, v, x), x * 2))
    scope.variable("after", "a", "1", "of both", equals=where(x > 5, inverse, 1 + y))
    scope.inequality("small", y < 20, "y is small")
    return Registry.from_scopes([scope])


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["s.x", "s.u", "s.v", "s.y", "s.branch", "s.inverse"]),
        st.sampled_from([0.0, 0.5, 1.5, 2.0, 3.0, 6.0, 20.0]),
    ),
    st.sampled_from(["first", "unsure", "sure"]),
)
def test_choices_gaps_and_failures_are_those_of_the_resolver(
    values: dict[str, float], variant: str
) -> None:
    check(choices(), values, {"s.y": variant})


@settings(deadline=None, max_examples=25)
@given(random_graphs(), st.data())
def test_random_graphs_with_forgotten_and_replaced_values(
    graph: RandomGraph, data: st.DataObject
) -> None:
    forgotten = data.draw(st.sets(st.sampled_from(sorted(graph.point)), max_size=2))
    replaced = data.draw(st.sets(st.sampled_from(sorted(graph.targets)), max_size=2))
    values = {name: value for name, value in graph.point.items() if name not in forgotten}
    check(graph.registry, values | dict.fromkeys(replaced, 1.25))
