"""The graph against brute force on small random graphs, and against hand-worked registries."""

from collections.abc import Callable
from itertools import pairwise, permutations

import pytest
from call_counting import count_calls
from hypothesis import given, strategies as st

from assay import stack
from assay.errors import CycleError, InputError, UnknownNameError
from assay.model import Registry, Scope, Variable, by_definition, total
from assay.model.graphs.dependency_graph import DependencyGraph
from assay.model.graphs.digraph import cycles, simple_paths, strongly_connected_components

NAMES = "abcdef"


@st.composite
def digraphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    pairs = [(a, b) for a in names for b in names]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14))
    return {a: tuple(b for x, b in edges if x == a) for a in names}


def registry_of(
    successors: dict[str, tuple[str, ...]], blocks: tuple[tuple[str, ...], ...] = ()
) -> Registry:
    """A registry in which b is a sum over all a with an edge to b."""
    scope = Scope("s", "random")
    variables = {name: scope.variable(name, name, "1", f"node {name}") for name in successors}
    for name, variable in variables.items():
        inputs = [variables[a] for a in successors if name in successors[a]]
        if inputs:
            scope.equation(variable, total(*inputs) + 1)
    for index, members in enumerate(blocks):
        scope.simultaneous(f"block{index}", [variables[name] for name in members])
    return Registry.from_scopes([scope])


def all_paths(successors: dict[str, tuple[str, ...]], source: str, target: str) -> list[list[str]]:
    """Every arrangement of other nodes between the two, kept where all its edges exist."""
    others = [name for name in successors if name not in (source, target)]
    candidates = [
        [source, *middle, target]
        for size in range(len(others) + 1)
        for middle in permutations(others, size)
    ]
    return [path for path in candidates if joined(successors, path)]


def joined(successors: dict[str, tuple[str, ...]], path: list[str]) -> bool:
    return all(b in successors[a] for a, b in pairwise(path))


def closure(successors: dict[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """Nodes that one or more edges lead to, by repeated squaring (Warshall)."""
    reach = {a: set(b) for a, b in successors.items()}
    for middle in successors:
        for a in successors:
            if middle in reach[a]:
                reach[a] |= reach[middle]
    return reach


def rotated(cycle: list[str]) -> tuple[str, ...]:
    """The same cycle from its least name on."""
    start = cycle.index(min(cycle))
    return tuple(cycle[start:] + cycle[:start])


@given(digraphs())
def test_components_are_mutually_reachable(successors: dict[str, tuple[str, ...]]) -> None:
    reach = closure(successors)
    expected = {
        frozenset({a} | {b for b in successors if b in reach[a] and a in reach[b]})
        for a in successors
    }
    found = strongly_connected_components(successors)
    assert {frozenset(component) for component in found} == expected
    place = {name: index for index, component in enumerate(found) for name in component}
    assert all(place[b] <= place[a] for a in successors for b in successors[a])


@given(digraphs(), st.data())
def test_simple_paths_are_all_paths(
    successors: dict[str, tuple[str, ...]], data: st.DataObject
) -> None:
    source, target = (data.draw(st.sampled_from(list(successors))) for _ in "st")
    if source == target:
        expected = [p[:-1] for p in all_cycles_through(successors, source)]
    else:
        expected = all_paths(successors, source, target)
    assert sorted(simple_paths(source, target, successors)) == sorted(expected)


def all_cycles_through(successors: dict[str, tuple[str, ...]], name: str) -> list[list[str]]:
    others = [other for other in successors if other != name]
    candidates = [
        [name, *middle, name]
        for size in range(len(others) + 1)
        for middle in permutations(others, size)
    ]
    return [path for path in candidates if joined(successors, path)]


@given(digraphs())
def test_cycles_are_all_elementary_cycles_each_once(successors: dict[str, tuple[str, ...]]) -> None:
    expected = {
        rotated(path[:-1]) for name in successors for path in all_cycles_through(successors, name)
    }
    found = [rotated(cycle) for cycle in cycles(successors)]
    assert len(found) == len(set(found))
    assert set(found) == expected


@given(digraphs())
def test_ancestors_and_descendants_agree_with_the_closure(
    successors: dict[str, tuple[str, ...]],
) -> None:
    graph = registry_of(successors).graph
    reach = closure(successors)
    counts = graph.dependent_counts()
    for name in successors:
        below = {f"s.{other}" for other in reach[name]}
        assert graph.descendants(f"s.{name}") == below
        assert graph.ancestors(f"s.{name}") == {f"s.{o}" for o in successors if name in reach[o]}
        assert counts[f"s.{name}"] == len(below)
        assert graph.downstream_relations(f"s.{name}") == below


@given(digraphs())
def test_a_topological_order_exists_exactly_without_cycles(
    successors: dict[str, tuple[str, ...]],
) -> None:
    graph = registry_of(successors).graph
    if any(name in below for name, below in closure(successors).items()):
        with pytest.raises(CycleError, match="cyclic definition: s\\."):
            graph.topological_sort()
        return
    order = graph.topological_sort()
    assert sorted(order) == sorted(f"s.{name}" for name in successors)
    for a in successors:
        assert all(order.index(f"s.{a}") < order.index(f"s.{b}") for b in successors[a])


@given(digraphs())
def test_cycles_within_a_declared_block_are_no_cycles(
    successors: dict[str, tuple[str, ...]],
) -> None:
    defined = tuple(b for b in successors if any(b in below for below in successors.values()))
    graph = registry_of(successors, (defined,) if defined else ()).graph
    assert graph.find_cycles() == []
    order = graph.topological_sort()
    places = sorted(order.index(f"s.{name}") for name in defined)
    assert places == list(range(min(places, default=0), max(places, default=-1) + 1))


def test_a_cycle_through_a_block_and_out_of_it_is_found() -> None:
    # a and c are declared together, but a leads to c through b, which is left out.
    graph = registry_of({"a": ("b", "c"), "b": ("c",), "c": ("a",)}, (("a", "c"),)).graph
    assert graph.find_cycles() == [["s.c", "s.a", "s.b"]]
    with pytest.raises(CycleError, match=r"cyclic definition: s\.c <- s\.b <- s\.a <- s\.c"):
        graph.topological_sort()


def test_cycle_message_lists_defined_variable_first() -> None:
    # The same direction as the message of a resolution that runs into the cycle.
    registry = registry_of({"a": ("b",), "b": ("c",), "c": ("a",)})
    with pytest.raises(CycleError) as listed:
        registry.graph.topological_sort()
    assert listed.value.message == "cyclic definition: s.a <- s.c <- s.b <- s.a"
    with pytest.raises(CycleError) as resolved:
        registry.resolve("s.a")
    assert resolved.value.message == listed.value.message


def diamond() -> Registry:
    """x -> y -> z and x -> z; k is a constant; w is a leaf beside; both variants of z count."""
    scope = Scope("d", "diamond")
    k = scope.constant("k", "k", "2 1", "two", reference=by_definition("test"))
    x = scope.variable("x", "x", "1", "input", boundary="scenario", family="inputs")
    e = scope.variable("e", "e", "1", "efficiency", boundary="scenario", family="inputs")
    y = scope.variable("y", "y", "1", "middle", equals=k * x)
    z = scope.variable("z", "z", "1", "answer", target=True, equals=x + y)
    scope.approximation(z, 3 * x, name="z_rule", valid=e < 1)
    w = scope.variable("w", "w", "1", "beside", equals=y / 2)
    limit = scope.variable("limit", "l", "1", "limit", equals=5 * x)
    scope.inequality("z_limited", z <= limit, "the answer stays below its limit")
    scope.inequality("w_small", w <= 100 * w, "w by itself")
    return Registry.from_scopes([scope])


def test_subgraphs_by_direction_and_depth() -> None:
    graph = diamond().graph
    up = graph.subgraph("d.z")
    assert list(up.variables) == ["d.x", "d.y", "d.z"]
    assert list(up.constants) == ["d.k"]
    assert list(up.relations) == ["d.y", "d.z", "d.z_rule"]
    near = graph.subgraph("d.z", "up", depth=1)
    assert list(near.variables) == ["d.x", "d.y", "d.z"]
    assert list(near.relations) == ["d.z", "d.z_rule"]
    down = graph.subgraph("d.y", "down")
    assert set(down.variables) == {"d.y", "d.z", "d.w"}
    assert list(down.relations) == ["d.z", "d.w", "d.w_small"]
    # x is outside, so the edge x -> z of relation d.z is not among the edges.
    assert {(e.source, e.target) for e in down.edges} == {("d.y", "d.z"), ("d.y", "d.w")}
    both = graph.subgraph("d.y", "both", depth=1)
    assert set(both.variables) | set(both.constants) == {"d.k", "d.x", "d.y", "d.z", "d.w"}
    alone = graph.subgraph("d.y", "both", depth=0)
    assert (list(alone.variables), alone.relations, alone.edges) == (["d.y"], {}, [])
    whole = graph.subgraph("d.x", "down")
    assert "d.z_limited" in whole.relations


def test_roots_leaves_families() -> None:
    graph = diamond().graph
    assert graph.roots() == ("d.x", "d.e")
    assert graph.roots("d.w") == ("d.x",)
    assert graph.roots("d.x") == ("d.x",)
    assert graph.leaves() == ("d.e", "d.z", "d.w", "d.limit")
    assert graph.families() == {"inputs": ("d.x", "d.e"), "d": ("d.y", "d.z", "d.w", "d.limit")}


def test_paths_and_their_limit() -> None:
    graph = diamond().graph
    found = graph.paths("d.x", "d.z")
    assert sorted(found) == [["d.x", "d.y", "d.z"], ["d.x", "d.z"]]
    assert found.complete
    cut = graph.paths("d.x", "d.z", limit=1)
    assert len(cut) == 1
    assert not cut.complete
    assert graph.paths("d.z", "d.x") == []
    assert graph.paths("d.k", "d.w") == [["d.k", "d.y", "d.w"]]


def test_number_of_cycles_is_limited_and_marked_incomplete() -> None:
    names = [f"n{i}" for i in range(12)]
    everything = {name: tuple(other for other in names if other != name) for name in names}
    found = registry_of(everything).graph.find_cycles(limit=50)
    assert len(found) == 50
    assert not found.complete


def test_conditions_are_counted_on_request() -> None:
    graph = diamond().graph
    assert graph.downstream_relations("d.e") == set()
    assert graph.downstream_relations("d.e", conditions=True) == {"d.z_rule"}
    assert graph.downstream_relations("d.limit", conditions=True) == {"d.z_limited"}
    assert [r.name for r in graph.conditions_on(["d.z", "d.limit"])] == ["d.z_limited"]


def test_reachable_set_is_what_the_targets_depend_on() -> None:
    registry = diamond()
    reach = registry.graph.reachable()
    # limit is reached through the inequality on z; w and its inequality by nothing.
    assert reach.variables == {"d.k", "d.x", "d.e", "d.y", "d.z", "d.limit"}
    assert reach.relations == {"d.y", "d.z", "d.z_rule", "d.limit", "d.z_limited"}
    assert registry.graph.reachable(["d.w"]).relations == {"d.y", "d.w", "d.w_small"}
    judged = {verdict.name for verdict in registry.resolve("d.z", {"d.x": 1.0}).constraints}
    # Resolving judges every constraint that the inputs determine, reached or not.
    assert judged == {"d.z_limited", "d.w_small"}


def test_reachable_set_of_the_stack_lacks_only_the_library() -> None:
    registry = stack.registry()
    unreached = set(registry.relations) - registry.graph.reachable().relations
    assert unreached == {name for name, r in registry.relations.items() if r.library}


@pytest.mark.parametrize(
    "ask",
    [
        lambda g: g.subgraph("d.zz"),
        lambda g: g.ancestors("d.zz"),
        lambda g: g.descendants("d.zz"),
        lambda g: g.downstream_relations("d.zz"),
        lambda g: g.roots("d.zz"),
        lambda g: g.paths("d.x", "d.zz"),
        lambda g: g.paths("d.zz", "d.x"),
        lambda g: g.reachable(["d.zz"]),
    ],
)
def test_unknown_names_get_a_suggestion(ask: Callable[[DependencyGraph], object]) -> None:
    with pytest.raises(UnknownNameError) as error:
        ask(diamond().graph)
    assert error.value.message == 'unknown variable "d.zz"'
    assert "d.z" in (error.value.hint or "")


def test_wrong_directions_depths_and_limits_are_refused() -> None:
    graph = diamond().graph
    with pytest.raises(InputError, match='unknown direction "sideways"'):
        graph.subgraph("d.z", "sideways")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected 0 or more, got -1"):
        graph.subgraph("d.z", depth=-1)
    with pytest.raises(InputError, match="expected 0 or more, got -1"):
        graph.paths("d.x", "d.z", limit=-1)


def chain(length: int) -> Registry:
    scope = Scope("c", "a long chain")
    links: list[Variable] = [scope.variable("v0", "v", "1", "start", boundary="scenario")]
    for index in range(1, length):
        links.append(scope.variable(f"v{index}", "v", "1", "link", equals=links[-1] + 1))
    return Registry.from_scopes([scope])


def test_graph_thousands_of_relations_deep() -> None:
    length = 5000
    graph = chain(length).graph
    last = f"c.v{length - 1}"
    assert graph.topological_sort()[-1] == last
    assert graph.find_cycles() == []
    assert len(graph.paths("c.v0", last)[0]) == length
    assert len(graph.subgraph(last).relations) == length - 1
    assert graph.dependent_counts()["c.v0"] == length - 1


def test_work_of_graph_queries_is_linear_in_the_number_of_relations() -> None:
    def calls(length: int) -> int:
        registry = chain(length)

        def query() -> None:
            graph = DependencyGraph(registry)
            graph.topological_sort()
            graph.find_cycles()
            graph.reachable([f"c.v{length - 1}"])
            graph.dependent_counts()

        return count_calls(query)

    assert calls(1500) <= 2.2 * calls(750)
