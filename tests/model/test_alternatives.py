"""Alternatives: relations of a datum, used only where one is chosen."""

from __future__ import annotations

import pytest

from assay.errors import DeclarationError
from assay.model import Registry, Scope, by_definition
from assay.model.comparing.sensitivity import sensitivities
from assay.model.inputs import read_inputs
from assay.model.tapes.whole import whole_tape

REFERENCE = by_definition("a test")


def scope_with_alternatives() -> tuple[Scope, Scope]:
    shop = Scope("shop", "A price that is stated or computed")
    cost = shop.declare("cost, c: what it costs", boundary="primitive", reference=REFERENCE)
    price = shop.declare("price, p: what it sells for", boundary="scenario", reference=REFERENCE)
    shop.equation(price, 2 * cost, name="doubled", reference=REFERENCE)
    shop.equation(price, cost + 1, name="marked_up", reference=REFERENCE)
    shop.declare("bill, b: of three", equals=3 * price, reference=REFERENCE, target=True)
    return shop, Scope("other", "Empty")


REGISTRY = Registry.from_scopes(list(scope_with_alternatives()))


def test_a_datum_is_given_unless_a_relation_is_chosen() -> None:
    assert REGISTRY.resolve("shop.bill", {"shop.price": 5.0, "shop.cost": 1.0}).value == 15
    assert REGISTRY.resolve("shop.bill", {"shop.price": 5.0, "shop.cost": 1.0}).conflicts == []
    assert REGISTRY.resolve("shop.bill", {"shop.cost": 4.0}, {"shop.price": "doubled"}).value == 24
    assert (
        REGISTRY.resolve("shop.bill", {"shop.cost": 4.0}, {"shop.price": "marked_up"}).value == 15
    )


def test_without_value_and_choice_the_datum_itself_is_missing() -> None:
    found = REGISTRY.resolve("shop.bill", {"shop.cost": 4.0})
    assert [gap.variable.name for gap in found.missing] == ["shop.price"]
    assert REGISTRY.variables["shop.price"].is_root
    assert set(REGISTRY.roots) == {"shop.cost", "shop.price"}


def test_tapes_and_derivatives_follow_the_choice() -> None:
    chosen = {"shop.price": "doubled"}
    bill = REGISTRY.compile(inputs=["shop.cost"], outputs=["shop.bill"], variants=chosen)
    assert bill(4.0)[0] == 24
    stated = REGISTRY.compile(inputs=["shop.price"], outputs=["shop.bill"])
    assert stated(5.0)[0] == 15
    given = read_inputs(REGISTRY, {"shop.cost": 4.0})
    (only,) = sensitivities(REGISTRY, "shop.bill", given, chosen).inputs
    assert only.elasticity == pytest.approx(1)
    assert "shop.price" not in whole_tape(REGISTRY).inputs["variant"]


def test_a_cone_reaches_what_an_alternative_needs() -> None:
    assert "shop.cost" in REGISTRY.graph.ancestors("shop.bill")


def test_a_relation_under_the_name_of_a_datum_is_refused() -> None:
    scope = Scope("t", "A datum that is defined")
    x = scope.declare("x, x: a datum", boundary="primitive", reference=REFERENCE)
    scope.equation(x, 2, reference=REFERENCE)
    with pytest.raises(DeclarationError, match="although a relation defines it"):
        Registry.from_scopes([scope])
