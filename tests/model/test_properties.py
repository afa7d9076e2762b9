"""Properties that hold on any graph: three ways to compute agree, derivatives are exact."""

from __future__ import annotations

import json

import numpy as np
import pytest
from graphs import DIFFERENT, SMOOTH, RandomGraph, build_graph, random_graphs
from hypothesis import assume, given, settings, strategies as st

from assay.bench.suites.generated_graphs import generate, spread_point
from assay.model import Registry
from assay.model.language.encoding import decode, encode

CLOSE = 1e-10


@settings(max_examples=150, deadline=None)
@given(random_graphs())
def test_resolve_compile_and_python_agree(graph: RandomGraph) -> None:
    # Exponentials, logarithms and powers of two libraries differ by an ulp.
    assume(graph.is_stable())
    direct = graph.direct(graph.point)
    compiled = graph.registry.compile(list(graph.point), graph.targets)
    bulk = compiled(graph.point)
    for target, by_tape in zip(graph.targets, bulk, strict=True):
        resolution = graph.registry.resolve(target, graph.point)
        assert resolution.value == pytest.approx(direct[target], rel=CLOSE)
        assert by_tape == pytest.approx(direct[target], rel=CLOSE)
        assert not resolution.missing
        assert not resolution.conflicts


def test_rounding_decides_whether_values_that_agree_by_accident_are_equal() -> None:
    """Such a graph has no one answer, so it is not among those on which all three must agree."""
    logarithms, square = SMOOTH[8], SMOOTH[3]
    roots = [1.503900970764406, 2.3231383901658362, 1.0039009707644055]
    # v1 = (r0 / r0)^2 + v0 - 1 is v0 but for the rounding of the sum: Python's is an ulp below it,
    # the tape's, whose logarithms are another library's, is v0 itself.
    rows = [(logarithms, (0, 1, 2)), (square, (0, 0, 3)), (DIFFERENT, (3, 4, 0))]
    assert not build_graph(roots, rows).is_stable()
    for exact in ((3, 3, 0), (0, 0, 3), (0, 1, 0), (0, 3, 1)):
        assert build_graph(roots, [rows[0], (DIFFERENT, exact)]).is_stable()


@settings(max_examples=50, deadline=None)
@given(random_graphs(), st.integers(1, 40))
def test_bulk_evaluation_equals_point_by_point(graph: RandomGraph, points: int) -> None:
    source = np.random.default_rng(points)
    columns = {
        name: value * source.uniform(0.8, 1.25, points) for name, value in graph.point.items()
    }
    compiled = graph.registry.compile(list(graph.point), graph.targets)
    bulk = compiled(columns)
    for point in range(points):
        single = compiled({name: float(column[point]) for name, column in columns.items()})
        np.testing.assert_array_equal(bulk[:, point], single)


@settings(max_examples=100, deadline=None)
@given(random_graphs(formulas=SMOOTH))
def test_derivatives_agree_with_finite_differences(graph: RandomGraph) -> None:
    names = list(graph.point)
    compiled = graph.registry.compile(names, graph.targets)
    exact = compiled.jacobian(graph.point)
    for column, name in enumerate(names):
        step = 1e-5 * graph.point[name]
        differences = []
        for size in (step, step / 2):
            above = compiled({**graph.point, name: graph.point[name] + size})
            below = compiled({**graph.point, name: graph.point[name] - size})
            differences.append((above - below) / (2 * size))
        # Richardson extrapolation removes the leading error of central differences.
        estimate = (4 * differences[1] - differences[0]) / 3
        scale = np.maximum(1.0, np.abs(exact[:, column]))
        assume(np.all(np.abs(differences[1] - differences[0]) < 1e-2 * scale))
        np.testing.assert_allclose(exact[:, column] / scale, estimate / scale, atol=2e-5)


@settings(max_examples=50, deadline=None)
@given(random_graphs())
def test_registry_survives_its_data_format(graph: RandomGraph) -> None:
    data = json.loads(json.dumps(graph.registry.to_data()))
    copy = Registry(data)
    copy.check()
    for relation in graph.registry.relations.values():
        assert copy.relations[relation.name].text == relation.text
        assert encode(decode(relation.parts["expression"])) == relation.parts["expression"]
    for target in graph.targets:
        assert (
            copy.resolve(target, graph.point).value
            == graph.registry.resolve(target, graph.point).value
        )


@settings(max_examples=25, deadline=None)
@given(random_graphs(max_relations=8))
def test_sympy_agrees(graph: RandomGraph) -> None:
    import sympy

    direct = graph.direct(graph.point)
    values = {sympy.Symbol(name, real=True): value for name, value in direct.items()}
    for target in graph.targets:
        right = graph.registry.equations[target].as_sympy().rhs
        assert float(right.subs({s: values[s] for s in right.free_symbols})) == pytest.approx(
            direct[target], rel=1e-9
        )


@settings(max_examples=50, deadline=None)
@given(random_graphs(max_relations=12), st.data())
def test_pinning_any_variable_cuts_its_cone(graph: RandomGraph, data: st.DataObject) -> None:
    """A pinned intermediate is used as it is, and reported if its equation says otherwise."""
    pinned = data.draw(st.sampled_from(graph.targets))
    value = graph.direct(graph.point)[pinned]
    same = graph.registry.resolve(graph.targets[-1], {**graph.point, pinned: value})
    assert not same.conflicts
    other = graph.registry.resolve(pinned, {**graph.point, pinned: abs(value) + 1.0})
    assert other.value == abs(value) + 1.0
    assert [conflict.variable.name for conflict in other.conflicts] == [pinned]
    assert other.conflicts[0].computed == pytest.approx(value, rel=CLOSE)


def test_generated_graph_is_one_cone_and_loads() -> None:
    graph = generate(1500, 700, scopes=15)
    assert len(graph.registry.relations) == 1500
    Registry(graph.registry.to_data()).check()
    compiled = graph.registry.compile(graph.roots, graph.targets)
    point = spread_point(graph, 1)
    used: set[str] = set()
    for target, value in zip(graph.targets, compiled(point), strict=True):
        resolution = graph.registry.resolve(target, point)
        assert resolution.value == pytest.approx(value, rel=1e-12)
        used |= {step.relation.name for step in resolution.trace if step.relation}
    assert len(used) == 1500


def test_depth_is_not_limited_by_python() -> None:
    from assay.model import Scope

    scope = Scope("deep", "a chain")
    variable = scope.variable("v0", "v", "1", "start", boundary="scenario")
    for index in range(1, 5001):
        variable = scope.variable(f"v{index}", "v", "1", "link", equals=variable + 1)
    registry = Registry.from_scopes([scope])
    assert registry.resolve("deep.v5000", {"deep.v0": 0.0}).value == 5000.0
    compiled = registry.compile(["deep.v0"], ["deep.v5000"])
    assert compiled(0.0)[0] == 5000.0


def test_wide_sums_are_not_limited_by_python() -> None:
    from assay.model import Scope, total

    scope = Scope("wide", "a long sum")
    terms = [scope.variable(f"t{i}", "t", "1", "term", boundary="scenario") for i in range(3000)]
    scope.variable("sum", "s", "1", "sum", equals=total(*terms))
    registry = Registry.from_scopes([scope])
    point = {f"wide.t{i}": float(i) for i in range(3000)}
    assert registry.resolve("wide.sum", point).value == 3000 * 2999 / 2
    assert registry.compile(list(point), ["wide.sum"])(point)[0] == 3000 * 2999 / 2
