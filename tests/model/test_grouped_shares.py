"""Shares of variance by group, against the closed form of Ishigami's function."""

from __future__ import annotations

import math

import pytest

from assay.model import ANY_SIGN, Registry, Scope, sin
from assay.model.uncertainty.grouped_shares import shares_by_group

# Integrals over the cube: what y does, what x and z do together, and what x does by itself.
_Y = 7**2 / 8
_XZ = 8 * 0.1**2 * math.pi**8 / 225
_X = (1 + 0.1 * math.pi**4 / 5) ** 2 / 2
ALONE, MIXED = _Y / (_X + _Y + _XZ), _XZ / (_X + _Y + _XZ)
UNIFORM = f"uniform({-math.pi}, {math.pi})"


@pytest.fixture(scope="module")
def registry() -> Registry:
    scope = Scope("i", "Ishigami's function, and a sum")
    x, y, z = (
        scope.variable(name, name, "1", f"input {name}", bounds=ANY_SIGN, boundary="scenario")
        for name in "xyz"
    )
    scope.variable(
        "f", "f", "1", "the function", bounds=ANY_SIGN,
        equals=sin(x) + 7 * sin(y) ** 2 + 0.1 * z**4 * sin(x),
    )  # fmt: skip
    scope.variable("s", "s", "1", "a sum that leaves z out", bounds=ANY_SIGN, equals=3 * x + 4 * y)
    return Registry.from_scopes([scope])


def test_total_shares_of_several_targets_at_once(registry: Registry) -> None:
    given = {f"i.{name}": UNIFORM for name in "xyz"}
    found = shares_by_group(registry, ["i.f", "i.s"], given, {}, {}, count=8192)
    assert found["i.f"] == pytest.approx({"i.x": 1 - ALONE, "i.y": ALONE, "i.z": MIXED}, abs=0.02)
    assert list(found["i.f"]) == ["i.x", "i.y", "i.z"]
    assert found["i.s"] == pytest.approx({"i.y": 16 / 25, "i.x": 9 / 25}, abs=0.01)


def test_groups_are_resampled_together(registry: Registry) -> None:
    given = {f"i.{name}": UNIFORM for name in "xyz"}
    groups = {"i.x": "assumed", "i.z": "assumed"}
    found = shares_by_group(registry, ["i.f"], given, {}, groups, count=8192)
    assert found["i.f"]["assumed"] == pytest.approx(1 - ALONE, abs=0.02)
