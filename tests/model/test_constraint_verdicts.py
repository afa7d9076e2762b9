"""Constraints follow the given values: which variable is asked for plays no part."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from assay.model.inputs import Inputs
from assay.model.language.conditions import verdict
from assay.model.language.scope import Scope
from assay.model.optimizing.sweep import sweep
from assay.model.registry import Registry
from assay.model.resolving.constraint_verdicts import judge_constraints
from assay.model.resolving.resolver import Resolver

INPUTS = tuple("abcdef")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Registry, dict[str, float], list[str]]:
    """A registry of random sums and products with constraints, and values for some inputs."""
    scope = Scope("g", "a random graph")
    known = [scope.variable(name, name, "1", "an input") for name in INPUTS]
    names = [f"g.{name}" for name in INPUTS]
    for position in range(draw(st.integers(1, 8))):
        left, right = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        side = left + right if draw(st.booleans()) else left * right
        known.append(scope.variable(f"v{position}", "v", "1", "a node", equals=side))
        names.append(f"g.v{position}")
    for position in range(draw(st.integers(1, 6))):
        left, right = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        scope.inequality(f"c{position}", left <= right, "a constraint")
    number = st.integers(1, 9).map(float)
    values = draw(st.dictionaries(st.sampled_from([f"g.{n}" for n in INPUTS]), number, min_size=1))
    return Registry.from_scopes([scope]), values, names


def expected(registry: Registry, values: dict[str, float]) -> dict[str, str]:
    """The status of every constraint by plain evaluation in order of declaration."""
    known = dict(values)
    for name, variable in registry.variables.items():
        for relation in variable.defining_equations:
            if all(needed in known for needed in relation.inputs):
                known[name] = relation.evaluate_rhs(known)
    found = {}
    for constraint in registry.constraints.values():
        if all(needed in known for needed in constraint.inputs):
            found[constraint.name] = str(
                bool(verdict(constraint.part("expression"), known))
            ).lower()
        else:
            found[constraint.name] = "unknown"
    return found


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_a_violated_constraint_is_named_whatever_the_target(
    case: tuple[Registry, dict[str, float], list[str]],
) -> None:
    registry, values, names = case
    status = expected(registry, values)
    violated = {name for name, found in status.items() if found == "false"}
    for target in names:
        resolution = registry.resolve(target, values)
        assert {verdict.name for verdict in resolution.violated} == violated
        everything = {v.name: v.status for v in (*resolution.constraints, *resolution.unjudged)}
        assert everything == status


@given(graphs(), st.data())
@settings(max_examples=60, deadline=None)
def test_sweeps_name_the_points_that_violate_a_constraint(
    case: tuple[Registry, dict[str, float], list[str]], data: st.DataObject
) -> None:
    registry, values, names = case
    axis = data.draw(st.sampled_from(sorted(values)))
    targets = [name for name in names if registry.resolve(name, values).value is not None]
    points = [1.0, 4.0, 9.0]
    table = sweep(registry, data.draw(st.sampled_from(targets)), {axis: points}, values, {})
    for row, point in enumerate(points):
        status = expected(registry, {**values, axis: point})
        assert set(table.violated(row)) == {n for n, found in status.items() if found == "false"}
        named = {name for name, rows in table.violations.items() if row in rows}
        assert named == set(table.violated(row))


def test_judging_leaves_the_missing_inputs_of_targets_complete() -> None:
    scope = Scope("s", "a test")
    a, b, c = (scope.variable(name, name, "1", "an input") for name in "abc")
    total = scope.variable("total", "t", "1", "all of them", equals=a + b + c)
    scope.inequality("cap", total <= 10, "a cap")
    registry = Registry.from_scopes([scope])
    resolver = Resolver(registry, Inputs({"s.b": 1.0}), {})
    (found,) = judge_constraints(resolver).verdicts
    assert (found.status, found.missing) == ("unknown", ("s.a",))
    resolver.value("s.total")
    assert [gap.variable.name for gap in resolver.missing("s.total")] == ["s.a", "s.c"]


def test_a_verdict_has_the_values_that_decide_it() -> None:
    scope = Scope("s", "a test")
    need, room = (scope.variable(name, name, "GiB", "memory") for name in ("need", "room"))
    scope.inequality("fits", need <= room, "it fits")
    other = scope.variable("other", "o", "1", "elsewhere")
    resolution = Registry.from_scopes([scope]).resolve(
        other.name, {"s.need": "3 GiB", "s.room": "2 GiB", "s.other": 1}
    )
    (found,) = resolution.violated
    assert found.at == "s.need is 3 GiB, s.room is 2 GiB"
    assert found.to_data()["values"][0] == {"name": "s.need", "value": 3.0, "unit": "GiB"}
