"""Wafers, yield and packages against worked examples, counting and published figures."""

from __future__ import annotations

import math

import pytest

from assay import stack
from assay.model import Registry
from assay.scenario import Preset, built_in, include
from assay.stack import gpu, hbm, manufacturing

PLAIN_WAFER = {
    "manufacturing.wafer.diameter": "300 mm",
    "manufacturing.wafer.edge_exclusion": "0 mm",
    "manufacturing.wafer.scribe": "0 mm",
    "manufacturing.wafer.line_yield": 1,
    "manufacturing.die.critical_share": 1,
}
GROSS, YIELD = "manufacturing.wafer.gross_dies", "manufacturing.die.yield"
YIELD_MODELS = ("negative_binomial", "poisson", "murphy", "seeds")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([hbm.scope, gpu.scope, manufacturing.scope])


def yield_of(registry: Registry, faults: float, model: str, clustering: float = 2) -> float:
    given = {"manufacturing.die.faults": faults, "manufacturing.process.clustering": clustering}
    return registry.resolve(YIELD, given, {YIELD: model}).require_value()


# Hennessy and Patterson, 5th edition 2011, examples of sec. 1.6: dies of 1.5 and 1.0 cm on a side on
# a 300 mm wafer, 0.031 defects per cm2 and layer in 13.5 layers.
@pytest.mark.parametrize(
    ("side", "dies", "share", "good"), [("1.5 cm", 270, 0.40, 109), ("1 cm", 640, 0.66, 424)]
)
def test_textbook_dies_and_yield(
    registry: Registry, side: str, dies: int, share: float, good: int
) -> None:
    number = float(side.split()[0])
    given = {
        **PLAIN_WAFER,
        "manufacturing.die.area": f"{number**2} cm^2",
        "manufacturing.process.defect_density": f"{13.5 * 0.031} 1/cm^2",
        "manufacturing.process.clustering": 13.5,
    }
    textbook = {GROSS: "first_order"}
    assert registry.resolve(GROSS, given, textbook).require_value() == pytest.approx(dies, abs=0.5)
    assert registry.resolve(YIELD, given).require_value() == pytest.approx(share, abs=0.005)
    found = registry.resolve("manufacturing.wafer.good_dies", given, textbook).require_value()
    assert found == pytest.approx(good, abs=0.6)


# Flynn 1995, ch. 2: a wafer of 21 cm, one defect per cm2.
@pytest.mark.parametrize(
    ("area", "dies", "share"), [("2.3 cm^2", 130, 0.10), ("1 cm^2", 314, 0.37)]
)
def test_textbook_wafer_with_a_lost_border(
    registry: Registry, area: str, dies: int, share: float
) -> None:
    given = {
        **PLAIN_WAFER,
        "manufacturing.wafer.diameter": "21 cm",
        "manufacturing.die.area": area,
        "manufacturing.process.defect_density": "1 1/cm^2",
    }
    found = registry.resolve(GROSS, given, {GROSS: "lost_border"}).require_value()
    assert found == pytest.approx(dies, abs=0.5)
    found = registry.resolve(YIELD, given, {YIELD: "poisson"}).require_value()
    assert found == pytest.approx(share, abs=0.005)


def counted_dies(diameter: float, side: float) -> int:
    """The most squares of a grid within a circle, over shifts of the grid."""
    radius, most = diameter / 2, 0
    for shift in ((x / 4 * side, y / 4 * side) for x in range(4) for y in range(4)):
        reach = range(-int(radius / side) - 2, int(radius / side) + 2)
        inside = 0
        for i in reach:
            x = max(abs(i * side + shift[0]), abs((i + 1) * side + shift[0]))
            for j in reach:
                y = max(abs(j * side + shift[1]), abs((j + 1) * side + shift[1]))
                inside += math.hypot(x, y) <= radius
        most = max(most, inside)
    return most


@pytest.mark.parametrize("area", [100.0, 294.5, 608.5, 814.0])
def test_fitted_formula_is_near_a_count_of_squares_in_a_circle(
    registry: Registry, area: float
) -> None:
    given = {**PLAIN_WAFER, "manufacturing.die.area": f"{area} mm^2"}
    found = registry.resolve(GROSS, given).require_value()
    assert found == pytest.approx(counted_dies(300, math.sqrt(area)), rel=0.04)


@pytest.mark.parametrize(("side", "fits"), [(140, True), (212, True), (215, False)])
def test_a_die_as_large_as_a_wafer_has_one_site_or_violates(
    registry: Registry, side: float, fits: bool
) -> None:
    """The diagonal of a square of 212.1 mm is 300 mm; Cerebras' 46,225 mm2 are 215 mm square, corners cut."""
    assert max(counted_dies(300, side), 1) == 1
    given = {**PLAIN_WAFER, "manufacturing.die.area": f"{side**2} mm^2"}
    answer = registry.resolve(GROSS, given)
    assert answer.require_value() == 1
    verdicts = {verdict.name: verdict.status for verdict in answer.constraints}
    assert verdicts["manufacturing.die.fits_wafer"] == ("true" if fits else "false")


@pytest.mark.parametrize("model", YIELD_MODELS)
def test_yield_of_a_die_without_defects_is_one_and_falls_with_them(
    registry: Registry, model: str
) -> None:
    assert yield_of(registry, 0, model) == pytest.approx(1)
    shares = [yield_of(registry, faults, model) for faults in (0.1, 0.5, 1, 2, 5, 20)]
    assert shares == sorted(shares, reverse=True)
    # To first order every model loses one die a defect.
    assert yield_of(registry, 1e-4, model) == pytest.approx(1 - 1e-4, abs=2e-8)


def test_yield_models_are_ordered_by_how_much_defects_cluster(registry: Registry) -> None:
    for faults in (0.2, 1.0, 3.0):
        poisson, murphy, seeds = (
            yield_of(registry, faults, model) for model in ("poisson", "murphy", "seeds")
        )
        assert poisson < murphy < seeds
        assert yield_of(registry, faults, "negative_binomial", 1) == pytest.approx(seeds)
        independent = yield_of(registry, faults, "negative_binomial", 1e6)
        assert independent == pytest.approx(poisson, rel=1e-5)
    # Murphy 1964: one expected defect leaves (1 - 1/e)^2 = 0.3996 of the dies.
    assert yield_of(registry, 1.0, "murphy") == pytest.approx(0.39958, abs=1e-5)


def serving_on(accelerator: str) -> Preset:
    entry = include(f"accelerators/{accelerator}", stack.registry())
    return built_in.preset("llama3_8b_h200_serving").with_includes([entry])


def test_reticle_is_858_square_millimeters_and_a_larger_die_is_refused() -> None:
    preset = built_in.preset("llama3_8b_h200_serving")
    assert preset.resolve("manufacturing.reticle.area").value == pytest.approx(858e-6)
    registry = stack.registry()
    given = {**preset.inputs.values, "manufacturing.die.area": 859e-6}
    found = registry.resolve("manufacturing.die.cost", given)
    status = {constraint.name: constraint.status for constraint in found.constraints}
    assert status["manufacturing.die.within_reticle"] == "false"


def test_interposer_of_a_b200_is_that_of_3_3_reticles() -> None:
    """TrendForce states 2,739 mm2; a CoWoS-S interposer ends at 2,700 mm2, so it needs CoWoS-L."""
    found = serving_on("b200_sxm").resolve("manufacturing.interposer.area").require_value()
    assert found == pytest.approx(2739e-6, rel=0.06)
    given = {**serving_on("b200_sxm").inputs.values, "manufacturing.interposer.limit": 2700e-6}
    tight = stack.registry().resolve("manufacturing.gpu.cost", given)
    status = {constraint.name: constraint.status for constraint in tight.constraints}
    assert status["manufacturing.interposer.fits"] == "false"


def test_cost_of_a_gpu_is_dies_memory_and_package_over_their_yield(registry: Registry) -> None:
    given = {
        "hbm.stacks": "6 1/GPU",
        "gpu.memory.capacity": "141 GB/GPU",
        "manufacturing.package.dies": "1 1/GPU",
        "manufacturing.die.cost": "500 USD",
        "manufacturing.memory.price": "10 USD/GB",
        "manufacturing.package.price": "590 USD/GPU",
        "manufacturing.package.bond_yield": 0.99,
        "manufacturing.package.test_yield": 0.95,
    }
    found = registry.resolve("manufacturing.gpu.cost", given).require_value()
    assert found == pytest.approx((500 + 1410 + 590) / (0.99**7 * 0.95))


def test_scarcest_supply_sets_how_many_gpus_are_made(registry: Registry) -> None:
    given = {
        "hbm.stacks": "6 1/GPU",
        "manufacturing.package.dies": "2 1/GPU",
        "manufacturing.package.yield": 0.5,
        "manufacturing.wafer.good_dies": 40,
        "manufacturing.wafer.rate": "1000 1/year",
        "manufacturing.packaging.capacity": "2000 1/year",
        "manufacturing.packaging.share": 0.5,
        "manufacturing.packaging.interposers": 15,
        "manufacturing.memory.stack_rate": "1.2e5 1/year",
        "manufacturing.gpu.demand": "9000 GPU/year",
    }
    year = 31557600
    rates = {"wafer": 1000 * 40 / 2 * 0.5, "packaging": 1000 * 15 * 0.5, "memory": 2e4 * 0.5}
    for supply, rate in rates.items():
        found = registry.resolve(f"manufacturing.{supply}.gpu_rate", given).require_value()
        assert found * year == pytest.approx(rate)
    found = registry.resolve("manufacturing.gpu.rate", given)
    assert found.require_value() * year == pytest.approx(7500)
    status = {constraint.name: constraint.status for constraint in found.constraints}
    assert status["manufacturing.wafer.meets_demand"] == "true"
    assert status["manufacturing.packaging.meets_demand"] == "false"


def test_die_of_one_accelerator_is_never_kept_for_another() -> None:
    other = serving_on("mi300x").resolve("manufacturing.die.cost")
    assert other.value is None
    assert "manufacturing.die.area" in {gap.variable.name for gap in other.missing}
    assert serving_on("l4").resolve("manufacturing.die.cost").value is not None
