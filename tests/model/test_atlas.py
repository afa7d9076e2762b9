"""The atlas against a small graph counted by hand, and against other counts of the stack."""

from __future__ import annotations

import pytest

from assay import stack
from assay.errors import UnknownNameError
from assay.model import Registry, Scope, cited
from assay.model.auditing.atlas import crossings, layers, pressure

BOOK = cited("A Book", "p. 1")


def two_layers() -> Registry:
    low = Scope("low", "below")
    a = low.variable("a", "a", "1", "input", boundary="primitive", reference=BOOK)
    b = low.variable("b", "b", "1", "double", equals=2 * a, reference=BOOK)
    high = Scope("high", "above")
    c = high.variable("c", "c", "1", "choice", boundary="scenario")
    d = high.variable("d", "d", "1", "sum", equals=a + b + c)
    high.variable("e", "e", "1", "target", equals=d * c, target=True)
    return Registry.from_scopes([low, high])


def test_layers_go_from_the_top_down() -> None:
    top, bottom = layers(two_layers())
    assert (top.name, top.variables, top.computed, top.roots) == ("high", 3, 2, {"scenario": 1})
    assert (top.targets, top.references) == (("high.e",), {"unsourced": 2})
    assert (bottom.name, bottom.relations, bottom.references) == ("low", 1, {"cited": 1})


def test_crossings_are_the_edges_between_layers() -> None:
    [border] = crossings(two_layers())
    assert border == ("low", "high", 2, ("low.a", "low.b"))


def test_pressure_counts_variables_by_distance() -> None:
    found = pressure(two_layers(), "high.e", {"low.a"})
    assert [(part.name, part.by_distance) for part in found.layers] == [
        ("high", (1, 2, 0)), ("low", (0, 0, 2)),
    ]  # fmt: skip
    assert [(part.roots, part.given, part.missing) for part in found.layers] == [
        (1, 0, 1), (1, 1, 0),
    ]  # fmt: skip
    with pytest.raises(UnknownNameError):
        pressure(two_layers(), "high.z")


def test_atlas_of_the_stack_adds_up() -> None:
    registry = stack.registry()
    found = layers(registry)
    assert sum(layer.variables for layer in found) == len(registry.variables)
    assert sum(layer.relations for layer in found) == len(registry.relations)
    assert sum(sum(layer.roots.values()) for layer in found) == len(registry.roots)
    cone = registry.graph.ancestors("econ.cost.per_token")
    pressed = pressure(registry, "econ.cost.per_token")
    assert sum(part.variables for part in pressed.layers) == len(cone) + 1
