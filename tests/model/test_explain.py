"""Provenance: each variable once, in reading order, complete down to the depth."""

import pytest

from assay.errors import InputError
from assay.model import Registry, Scope, by_definition, cited
from assay.model.resolving.provenance import READABLE_ENTRIES, Provenance, explain
from assay.model.resolving.provenance_text import print_sources, print_tree


def diamond() -> Registry:
    """A target whose two parts share a third."""
    scope = Scope("d", "a diamond")
    base = scope.variable("base", "b", "s", "what both sides share", boundary="scenario")
    shared = scope.variable(
        "shared", "s", "s", "twice the base", equals=2 * base, reference=by_definition("doubling")
    )
    left = scope.variable("left", "l", "s", "left side", equals=shared + base)
    right = scope.variable("right", "r", "s", "right side", equals=3 * shared)
    scope.variable(
        "top", "t", "s", "all of it", equals=left + right, reference=cited("A Book", "ch. 1")
    )
    return Registry.from_scopes([scope])


def chain(length: int) -> Registry:
    """A value computed through many relations, one after the other."""
    scope = Scope("c", "a chain")
    value = scope.variable("v0", "v", "s", "start", boundary="scenario")
    for index in range(1, length + 1):
        value = scope.variable(f"v{index}", "v", "s", "next", equals=value + value)
    return Registry.from_scopes([scope])


def provenance_of(
    registry: Registry, target: str, given: dict[str, str], depth: int | None
) -> Provenance:
    return explain(registry, registry.resolve(target, given), depth=depth)


def test_inputs_of_a_shared_variable_are_listed_once() -> None:
    provenance = provenance_of(diamond(), "d.top", {"d.base": "1 s"}, None)
    seen = [(entry.variable.name, entry.depth, entry.parts) for entry in provenance.entries]
    assert seen == [
        ("d.top", 0, "listed"),
        ("d.left", 1, "listed"),
        ("d.shared", 2, "listed"),
        ("d.base", 3, "none"),
        ("d.base", 2, "none"),
        ("d.right", 1, "listed"),
        ("d.shared", 2, "above"),
    ]
    assert [entry.value for entry in provenance.entries] == [9, 3, 2, 1, 1, 6, 2]


def test_variable_cut_at_one_depth_is_listed_at_a_lower_one() -> None:
    scope = Scope("d", "a part at two depths")
    base = scope.variable("base", "b", "s", "base", boundary="scenario")
    shared = scope.variable("shared", "s", "s", "shared", equals=2 * base)
    middle = scope.variable("middle", "m", "s", "middle", equals=3 * shared)
    scope.variable("top", "t", "s", "top", equals=middle + shared)
    provenance = provenance_of(Registry.from_scopes([scope]), "d.top", {"d.base": "1 s"}, 2)
    parts = {(e.variable.name, e.depth): e.parts for e in provenance.entries}
    assert parts["d.shared", 2] == "cut"
    assert parts["d.shared", 1] == "listed"


@pytest.mark.parametrize(("depth", "names"), [(0, 1), (1, 3), (2, 6), (3, 7), (10**9, 7)])
def test_depth_cuts(depth: int, names: int) -> None:
    provenance = provenance_of(diamond(), "d.top", {"d.base": "1 s"}, depth)
    assert len(provenance.entries) == names
    assert provenance.is_cut is (depth < 3)
    assert provenance.depth == depth


def test_negative_depth_is_refused() -> None:
    with pytest.raises(InputError, match="depth: expected a whole number >= 0, got -1"):
        provenance_of(diamond(), "d.top", {"d.base": "1 s"}, -1)


def test_missing_inputs_mark_their_dependents_incomplete() -> None:
    provenance = provenance_of(diamond(), "d.top", {}, None)
    status = {entry.variable.name: entry.status for entry in provenance.entries}
    assert status == {
        "d.top": "incomplete",
        "d.left": "incomplete",
        "d.right": "incomplete",
        "d.shared": "incomplete",
        "d.base": "missing",
    }


def test_provenance_of_a_given_value_is_one_entry() -> None:
    registry = diamond()
    provenance = explain(
        registry, registry.resolve("d.base", {"d.base": "1 s"}), sources={"d.base": "me"}
    )
    assert [(e.status, e.source) for e in provenance.entries] == [("given", "me")]


def test_members_of_a_simultaneous_block_refer_to_each_other() -> None:
    scope = Scope("b", "a block")
    x = scope.variable("x", "x", "1", "one")
    y = scope.variable("y", "y", "1", "other")
    scope.equation(x, 1 + y / 2)
    scope.equation(y, x / 2)
    scope.simultaneous("pair", [x, y])
    provenance = provenance_of(Registry.from_scopes([scope]), "b.x", {}, None)
    assert [(e.variable.name, e.parts, e.block) for e in provenance.entries] == [
        ("b.x", "listed", "b.pair"),
        ("b.y", "listed", "b.pair"),
        ("b.x", "above", "b.pair"),
    ]
    assert provenance.entries[0].value == pytest.approx(4 / 3)


def test_deep_graph_is_cut_by_default_and_complete_at_unlimited_depth() -> None:
    registry = chain(2000)
    resolution = registry.resolve("c.v2000", {"c.v0": "0 s"})
    assert len(explain(registry, resolution).entries) <= READABLE_ENTRIES
    full = explain(registry, resolution, depth=10**9)
    assert len(full.entries) == 2001
    assert max(len("".join(text for text, _ in line)) for line in print_tree(full)) < 200


def test_text_of_the_tree_matches_exactly() -> None:
    registry = diamond()
    provenance = explain(
        registry,
        registry.resolve("d.top", {"d.base": "1 s"}),
        sources={"d.base": "measured"},
        depth=3,
    )
    lines = [*print_tree(provenance, 60), (), *print_sources(provenance, 60)]
    assert "\n".join("".join(text for text, _ in line).rstrip() for line in lines) == (
        "d.top ........................................... 9 s  [1]\n"
        "|  = d.left + d.right\n"
        "|- d.left ....................................... 3 s  [2]\n"
        "|  |  = d.shared + d.base\n"
        "|  |- d.shared .................................. 2 s  [3]\n"
        "|  |  |  = 2 * d.base\n"
        "|  |  `- d.base ................................. 1 s  [4]\n"
        "|  `- d.base .................................... 1 s  [4]\n"
        "`- d.right ...................................... 6 s  [2]\n"
        "   |  = 3 * d.shared\n"
        "   `- d.shared .................................. 2 s  above\n"
        "\n"
        "[1]   A Book, ch. 1\n"
        "[2]   unsourced\n"
        "[3]   by definition: doubling\n"
        "[4]   measured"
    )


def test_data_has_the_entries_of_the_text() -> None:
    data = provenance_of(diamond(), "d.top", {"d.base": "1 s"}, 1).to_data()
    assert data["target"] == "d.top"
    assert data["cut"] is True
    assert [row["name"] for row in data["provenance"]] == ["d.top", "d.left", "d.right"]
    assert data["provenance"][0] == {
        "name": "d.top",
        "depth": 0,
        "symbol": "t",
        "meaning": "all of it",
        "value": 9.0,
        "unit": "s",
        "status": "computed",
        "relation": "d.top",
        "text": "d.top = d.left + d.right",
        "source": "A Book, ch. 1",
        "block": None,
        "parts": "listed",
    }
