"""Nuclei against the atomic mass evaluation of 2020, and soft errors by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from assay import stack


def value(
    target: str, variants: Mapping[str, str] = MappingProxyType({}), /, **given: float
) -> float:
    named = {name.replace("__", "."): number for name, number in given.items()}
    return stack.registry().resolve(target, named, variants).require_value()


def quarks(protons: int, nucleons: int) -> dict[str, float]:
    neutrons = nucleons - protons
    return {
        "nuclear__quarks__up": 2.0 * protons + neutrons,
        "nuclear__quarks__down": protons + 2.0 * neutrons,
    }


# AME2020: binding energy by nucleon in keV; the error of a liquid drop in per cent, by hand.
NUCLEI = [
    (50, 120, 8504.49, -0.26),
    (26, 56, 8790.36, 0.53),
    (14, 28, 8447.74, 0.93),
    (29, 63, 8752.14, 0.56),
]


@pytest.mark.parametrize(("protons", "nucleons", "kiloelectronvolts", "percent"), NUCLEI)
def test_binding_energies(
    protons: int, nucleons: int, kiloelectronvolts: float, percent: float
) -> None:
    found = value("nuclear.binding_by_nucleon", **quarks(protons, nucleons)) / 1.602176634e-16
    assert 100 * (found / kiloelectronvolts - 1) == pytest.approx(percent, abs=0.05)
    assert value("nuclear.protons", **quarks(protons, nucleons)) == protons


def test_mass_of_an_atom_of_tin() -> None:
    """AME2020: 119.902202 u; the mass defect is 0.9 % of it."""
    found = value("nuclear.atom_mass", **quarks(50, 120)) / 1.66053906660e-27
    assert found == pytest.approx(119.902202, rel=5e-5)
    chosen = {"lithography.tin.molar_mass": "nuclear.molar_mass"}
    molar = value("lithography.tin.molar_mass", chosen, **quarks(50, 120))
    assert molar == pytest.approx(0.1199, rel=1e-4)


def test_quarks_that_make_no_nucleus_violate_a_constraint() -> None:
    given = {"nuclear.quarks.up": 4.0, "nuclear.quarks.down": 4.0}
    found = stack.registry().resolve("nuclear.protons", given)
    assert {v.name: v.status for v in found.constraints}["nuclear.quarks.whole"] == "false"


def test_neutrons_at_sea_level_and_above() -> None:
    """JESD89A: 13 by cm2 and hour at New York; less air above the site means more of them."""
    sea = value("nuclear.neutrons.flux", nuclear__neutrons__depth=10332.0)
    assert sea * 3600 / 1e4 == pytest.approx(13, rel=1e-6)
    high = value("nuclear.neutrons.flux", nuclear__neutrons__depth=8500.0)
    assert high / sea == pytest.approx(math.exp(1832 / 1313), rel=1e-9)


def test_upsets_interrupt_runs() -> None:
    given = {
        "nuclear__neutrons__depth": 10332.0, "nuclear__upsets__cross_section": 1e-19, "nuclear__upsets__bits": 1e9,
        "nuclear__upsets__harm": 0.1, "nuclear__upsets__other_rate": 1e-9,
    }  # fmt: skip
    chosen = {"cluster.failures.gpu_rate": "nuclear.failure_rate"}
    found = value("cluster.failures.gpu_rate", chosen, **given)
    assert found == pytest.approx(1e-9 + 0.1 * 36.1111111111 * 1e-10, rel=1e-9)
