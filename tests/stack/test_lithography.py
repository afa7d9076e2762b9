"""Lithography by published tools: droplets, resolution, throughput, photons and their noise."""

from __future__ import annotations

import math

import pytest

from assay import stack
from assay.scenario.question import read_question

PRESET = "llama3_8b_8_h100_training"


def value(
    target: str, tool: str = "nxe_3600d", variant: dict[str, str] | None = None, **given: str
) -> float:
    assign = {name.replace("__", "."): text for name, text in given.items()}
    includes = ("processes/n5", f"scanners/{tool}")
    question = read_question(PRESET, assign, variant, includes)
    return question.resolve(target, intervals=False).require_value()


def test_photons_of_13_5_nm() -> None:
    """h c / 13.5 nm = 91.84 eV."""
    assert value("lithography.photon_energy") / 1.602176634e-19 == pytest.approx(91.84, rel=1e-4)


@pytest.mark.parametrize(("micrometers", "nanograms"), [(27, 72), (30, 99)])
def test_mass_of_a_droplet(micrometers: float, nanograms: float) -> None:
    found = value("lithography.droplet.mass", lithography__droplet__diameter=f"{micrometers} um")
    assert found * 1e12 == pytest.approx(nanograms, rel=5e-3)
    atoms = value("lithography.droplet.atoms", lithography__droplet__diameter=f"{micrometers} um")
    assert atoms == pytest.approx(found / 0.11871 * 6.02214076e23, rel=1e-9)


@pytest.mark.parametrize(
    ("aperture", "factor", "nanometers"), [(0.33, 0.318, 13), (0.55, 0.326, 8)]
)
def test_resolution_of_two_generations_of_tools(
    aperture: float, factor: float, nanometers: float
) -> None:
    found = value(
        "lithography.optics.resolution",
        lithography__optics__angle=str(math.asin(aperture)),
        lithography__optics__process_factor=str(factor),
    )
    assert found * 1e9 == pytest.approx(nanometers, rel=2e-3)


def test_mirrors_pass_little() -> None:
    """11 mirrors at 0.68 to 0.69 pass 1.4 to 1.7 %."""
    assert 0.014 < value("lithography.optics.transmission") < 0.017
    assert value("lithography.optics.focus_depth") == pytest.approx(13.5e-9 / 0.33**2, rel=1e-4)


@pytest.mark.parametrize(("tool", "wafers_per_hour"), [("nxe_3600d", 160), ("nxe_3800e", 220)])
def test_throughput_and_light_of_a_wafer(tool: str, wafers_per_hour: float) -> None:
    assert value("lithography.wafer.energy", tool) == pytest.approx(21.2, rel=1e-3)
    assert 3600 / value("lithography.wafer.time", tool) == pytest.approx(wafers_per_hour, rel=1e-3)


def test_a_higher_dose_slows_the_tool_and_a_stronger_source_speeds_it_up() -> None:
    time = value("lithography.wafer.time")
    assert value("lithography.wafer.time", lithography__dose="60 mJ/cm^2") > time
    assert value("lithography.wafer.time", lithography__power="1000 W") < time


def test_a_tool_serves_45000_wafers_a_month_of_one_layer() -> None:
    assert value("lithography.tool.rate") * 2629800 == pytest.approx(45000, rel=5e-3)


def test_tin_of_a_gpu_and_of_a_token() -> None:
    """By hand: 50 kHz x 22.5 s x 14 layers over 38.05 x 0.941 GPUs; 5 years at 85 % of 9,541 tokens/s."""
    assert value("lithography.wafer.droplets") == pytest.approx(1.1e6, rel=0.05)
    assert value("lithography.gpu.droplets") == pytest.approx(4.4e5, rel=0.05)
    assert value("lithography.gpu.tin") * 1e6 == pytest.approx(32, rel=0.05)
    assert value("lithography.token.droplets") == pytest.approx(3.4e-7, rel=0.5)


def test_light_is_noisy() -> None:
    """30 mJ/cm2 / 91.84 eV = 20.4 photons/nm2; 3,446 on 13 nm by 13 nm: 1.7 %, 3.8 % of a fifth."""

    def of_13_nm(target: str) -> float:
        return value(f"lithography.resist.{target}", lithography__resist__feature="13 nm")

    assert value("lithography.resist.photons_by_area") / 1e18 == pytest.approx(20.4, rel=2e-3)
    assert of_13_nm("photons") == pytest.approx(3446, rel=2e-3)
    assert of_13_nm("noise") == pytest.approx(0.017, rel=0.01)
    assert of_13_nm("absorbed_noise") == pytest.approx(0.038, rel=0.01)


def test_photons_on_a_feature_are_poisson_distributed() -> None:
    """The 5 and 95 % quantiles of a Poisson distribution of mean 3,446 are 3,350 and 3,543 (SciPy)."""
    from scipy.stats import poisson

    found = stack.registry().resolve(
        "lithography.resist.arrived", {"lithography.resist.photons": 3446.0}
    )
    low, high = (float(poisson.ppf(share, 3446)) for share in (0.05, 0.95))
    assert found.lower == pytest.approx(low, rel=3e-3)
    assert found.upper == pytest.approx(high, rel=3e-3)


def test_contacts_that_fail_are_the_tail_of_a_normal_distribution() -> None:
    from scipy.stats import norm

    given = {"lithography.resist.absorbed_noise": 0.05, "lithography.resist.margin": 0.2}
    found = stack.registry().resolve("lithography.resist.failure", given).require_value()
    assert found == pytest.approx(norm.sf(4), rel=1e-9)


def test_a_larger_dose_leaves_fewer_defects() -> None:
    chosen = {"manufacturing.process.defect_density": "lithography.defect_density"}
    given = {
        "lithography__resist__margin": "0.21", "lithography__resist__contacts": "1e4 1/um^2",
        "lithography__resist__other_defects": "0.08 1/cm^2",
    }  # fmt: skip
    yields = [
        value(
            "manufacturing.die.yield", variant=chosen, **given, lithography__dose=f"{dose} mJ/cm^2"
        )
        for dose in (25, 30, 60)
    ]
    assert yields == sorted(yields)
    assert yields[0] < 0.9 * yields[2]


def test_wafer_price_and_cost_follow_the_scanner() -> None:
    """Fourteen exposures at 150 million USD over 60 months of 45,000 wafers: 778 of 16,988 USD."""
    chosen = {
        "manufacturing.wafer.price": "lithography.wafer_price",
        "econ.gpu.price": "gpu.price_by_margin",
    }
    assert value("lithography.pass.price") == pytest.approx(55.6, rel=0.01)
    price = value("manufacturing.wafer.price", variant=chosen)
    assert price == pytest.approx(16988, rel=1e-3)
    costs = [
        value("econ.cost.per_token", variant=chosen, lithography__tool__price=f"{p}e6 USD")
        for p in (148.5, 151.5)
    ]
    assert 1e-3 < math.log(costs[1] / costs[0]) / math.log(151.5 / 148.5) < 1e-2
