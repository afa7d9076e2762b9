"""Every query reports given values that contradict their own equations."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import InputError, UnknownNameError
from assay.model import Registry, Scope
from assay.model.auditing.debt import root_debt
from assay.model.optimizing.sweep import sweep
from assay.scenario import Preset

CONFLICT = "s.energy is given as 7 J, but s.power * s.time gives 6 J"


@pytest.fixture(scope="module")
def registry() -> Registry:
    scope = Scope("s", "energy and its price")
    power = scope.variable("power", "P", "W", "power", boundary="scenario")
    time = scope.variable("time", "t", "s", "time", boundary="scenario")
    price = scope.variable("price", "c", "USD/J", "price", boundary="scenario")
    energy = scope.variable("energy", "E", "J", "energy", equals=power * time)
    scope.variable("cost", "C", "USD", "cost", equals=energy * price)
    return Registry.from_scopes([scope])


GIVEN = {"s.power": "2 W", "s.time": "3 s", "s.energy": "7 J"}


def test_resolve_solve_sweep_and_minimize_report_conflicts(registry: Registry) -> None:
    priced = {**GIVEN, "s.price": "1 USD/J"}
    resolution = registry.resolve("s.cost", priced)
    assert [conflict.text for conflict in resolution.conflicts] == [CONFLICT]
    assert CONFLICT in registry.solve(["s.price"], GIVEN, {"s.cost": "14 USD"}).notes
    assert CONFLICT in registry.minimize("s.cost", {"s.price": [1, 2]}, GIVEN).notes
    swept = sweep(registry, "s.cost", {"s.price": [1, 2]}, GIVEN, {})
    assert swept.notes == (f"at the first point, {CONFLICT}",)


def test_axis_over_a_computed_variable_is_no_conflict(registry: Registry) -> None:
    given = {"s.power": "2 W", "s.time": "3 s", "s.price": "1 USD/J"}
    assert sweep(registry, "s.cost", {"s.energy": [1, 2]}, given, {}).notes == ()


@pytest.mark.parametrize("item", [None, [1.0], {}, object(), "", 10**400])
def test_given_item_that_is_no_value_is_refused(registry: Registry, item: object) -> None:
    with pytest.raises(InputError):
        registry.resolve("s.energy", {"s.power": item, "s.time": 1})  # type: ignore[dict-item]


def test_a_compiled_cone_takes_numbers_only(registry: Registry) -> None:
    compiled = registry.compile(["s.power"], ["s.energy"], {"s.time": 3})
    with pytest.raises(InputError, match=r"s\.power: expected numbers in base units"):
        compiled("2 W")


def test_root_debt_checks_given_values_in_every_ranking(registry: Registry) -> None:
    with pytest.raises(UnknownNameError):
        root_debt(registry, given={"s.pwer": "1 W"})
    with pytest.raises(UnknownNameError):
        root_debt(registry, variants={"s.energy": "other"})


def test_a_scenario_with_a_misspelled_section_is_refused(
    registry: Registry, tmp_path: Path
) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[valuess]\n"s.power" = "1 W"\n')
    with pytest.raises(InputError, match='unknown entry "valuess"'):
        Preset.from_file(path, registry)
