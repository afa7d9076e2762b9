"""The highest clock: what supply, threshold, temperature, wires and the supply's own losses make of 1,980 MHz."""

from __future__ import annotations

import pytest

from assay.model.resolving.resolution import Resolution
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
FLOOR = ("packs/h100_floor",)
COST, STEP = "econ.cost.per_token", "training.step_time"


def resolved(target: str, includes: tuple[str, ...] = FLOOR, **values: str) -> Resolution:
    given = {name.replace("__", "."): text for name, text in values.items()}
    return read_question(TRAINING, given, None, includes).resolve(target, intervals=False)


def value(target: str, includes: tuple[str, ...] = FLOOR, **values: str) -> float:
    return resolved(target, includes, **values).require_value()


def violated(target: str, includes: tuple[str, ...] = FLOOR, **values: str) -> set[str]:
    return {verdict.name for verdict in resolved(target, includes, **values).violated}


def test_the_pack_has_the_clocks_of_the_board() -> None:
    """Data sheet and nvidia-smi: boost 1,830 MHz, at most 1,980 MHz; the same step as where they are stated."""
    assert value("gpu.top_clock") == pytest.approx(1.98e9, rel=1e-4)
    assert value("gpu.clock_ceiling") == pytest.approx(1980 / 1830, rel=1e-9)
    assert value("transistor.speed") == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("includes", [(), FLOOR])
@pytest.mark.parametrize(("clock", "ceiling"), [("2.2 GHz", 0.9), ("3 GHz", 0.66)])
def test_a_boost_clock_beyond_the_slowest_paths_is_not_run(
    includes: tuple[str, ...], clock: str, ceiling: float
) -> None:
    """1.98 GHz is 0.9 of 2.2 GHz; a higher name for it makes no step shorter."""
    assert value("gpu.clock_ceiling", includes, gpu__clock=clock) == pytest.approx(
        ceiling, rel=1e-4
    )
    faster = resolved(STEP, includes, gpu__clock=clock)
    assert faster.require_value() == pytest.approx(value(STEP, includes), rel=1e-9)
    assert "gpu.clock_meets_paths" in {verdict.name for verdict in faster.violated}
    assert violated(STEP, includes) == set()


def test_a_higher_voltage_lets_a_higher_boost_clock_through() -> None:
    assert violated(STEP, gpu__clock="2.2 GHz", transistor__supply="0.9 V") == set()


def test_a_lower_boost_clock_is_kept() -> None:
    """A board that is said to boost to 1 GHz runs no faster than the 8 % above boost of the real one."""
    clock = value("gpu.throttle", (), gpu__clock="1 GHz")
    assert clock == pytest.approx(1980 / 1830, rel=1e-6)
    assert value(STEP, (), gpu__clock="1 GHz") > 1.2 * value(STEP, ())


def alpha_power(volts: float, threshold: float) -> float:
    """Sakurai and Newton 1990: current over charge, of 0.75 V; Kim et al. 2003: an exponent of about 1.3."""
    return float(((volts - threshold) / (0.75 - threshold)) ** 1.3 * 0.75 / volts)


@pytest.mark.parametrize("volts", [0.5, 0.55, 0.65, 0.9])
def test_speed_follows_the_alpha_power_law(volts: float) -> None:
    threshold = value("transistor.threshold")
    speed = value("transistor.speed", transistor__supply=f"{volts} V") / value("transistor.speed")
    assert speed == pytest.approx(alpha_power(volts, threshold), rel=1e-4)


@pytest.mark.parametrize(("volts", "clock"), [(0.729, 0.559), (0.8, 0.674), (0.9, 0.837)])
def test_the_clock_follows_the_voltage_of_a_measured_board(volts: float, clock: float) -> None:
    """Fitted on an H200 at locked clocks (docs/design/gpu-power.md): 1 - v = 0.614 (1 - f), down to 0.729."""
    top = value("gpu.top_clock", transistor__supply=f"{0.75 * volts} V")
    assert top / 1.98e9 == pytest.approx(clock, rel=0.03)


def test_a_lower_supply_slows_the_clock_and_has_a_best_point() -> None:
    """Below the best supply the clock is lost; above it the power limit decides, and the board lowers its voltage."""
    ceiling = value("gpu.top_clock", transistor__supply="0.55 V") / 1.98e9
    assert 0.53 < ceiling < 0.65
    volts = (0.45, 0.55, 0.65, 0.7, 0.75, 0.9)
    costs = [value(COST, transistor__supply=f"{v} V") for v in volts]
    best = costs.index(min(costs))
    assert volts[best] in (0.65, 0.7)
    assert costs[:best] == sorted(costs[:best], reverse=True)
    assert costs[best:] == sorted(costs[best:])
    assert costs[1] > 1.1 * costs[4]
    assert costs[-1] < 1.01 * costs[4]


def test_a_supply_that_is_not_needed_changes_no_clock() -> None:
    """At 1.63 GHz gates need the same volts, whether regulators could give 0.75 or 0.9 V."""
    for supply in ("0.8 V", "0.9 V"):
        given = {"transistor__supply": supply}
        volts = value("gpu.voltage", **given) * float(supply.split()[0])
        assert volts == pytest.approx(0.75 * value("gpu.voltage"), rel=0.015)


@pytest.mark.parametrize("volts", ["0.2 V", "0.38 V"])
def test_below_the_threshold_nothing_switches(volts: str) -> None:
    assert "transistor.conducts" in violated(COST, transistor__supply=volts)
    assert "transistor.conducts" not in violated(COST, transistor__supply="0.5 V")


def test_thick_wires_trade_resistance_for_capacitance() -> None:
    """Elmore: the time of a wire falls with its resistance and rises with its capacitance; the best lies between."""
    top = {aspect: value("gpu.top_clock", wires__aspect=str(aspect)) for aspect in (1.0, 2.0, 3.0)}
    assert top[2.0] > top[1.0]
    assert top[2.0] > top[3.0]
    thin, thick = (value("wires.resistance", wires__aspect=a) for a in ("1.5", "3"))
    assert thick < 0.6 * thin


def test_a_die_has_one_temperature() -> None:
    """300.15 K and 0.037 K/W of 700 W: 326 K, for leakage, threshold and timing alike; and it follows the coolant."""
    for coolant in ("300.15 K", "330 K"):
        die = value("gpu.temperature", gpu__coolant_temperature=coolant)
        assert value("transistor.temperature", gpu__coolant_temperature=coolant) == pytest.approx(
            die, rel=1e-6
        )
    warm, hot = (
        value("transistor.threshold", gpu__coolant_temperature=t) for t in ("300 K", "330 K")
    )
    assert warm - hot == pytest.approx(0.030, rel=1e-6)
    clocks = [value("gpu.top_clock", gpu__coolant_temperature=t) for t in ("300 K", "330 K")]
    assert 0.96 < clocks[1] / clocks[0] < 0.99


def test_losses_of_the_supply_reach_the_clock() -> None:
    """700 W at the regulators' voltage are one current, and 80 uohm take its drop: V_r - R P / V_r."""
    regulated = 0.78563974
    left = regulated - 80e-6 * 700 / regulated
    assert value("transistor.supply", delivery__grid_resistance="80 uohm") == pytest.approx(
        left, rel=1e-6
    )
    assert value("gpu.top_clock", delivery__grid_resistance="80 uohm") < 0.95 * value(
        "gpu.top_clock"
    )
