"""Plasma, metal, gates, regulators and stacks against textbook numbers, SciPy and sums done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import constants
from scipy.integrate import solve_ivp

from assay import stack
from assay.catalog import entries
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
EV = constants.e


def value(target: str, given: dict[str, float], variant: dict[str, str] | None = None) -> float:
    return stack.registry().resolve(target, given, variant).require_value()


def test_hydrogen_is_half_ionized_near_ten_thousand_kelvin() -> None:
    """Textbook Saha: 13.6 eV, weights 1 over 2; n_e = S where half is ionized."""
    temperature = 12000.0
    given = {
        "lithography.plasma.temperature": temperature, "lithography.plasma.ionization_energy": 13.6 * EV,
        "lithography.plasma.degeneracy": 0.5, "lithography.plasma.electrons": 1e20,
    }  # fmt: skip
    thermal = constants.h / math.sqrt(2 * math.pi * constants.m_e * constants.k * temperature)
    saha = thermal**-3 * math.exp(-13.6 * EV / (constants.k * temperature))
    assert value("lithography.plasma.saha", given) == pytest.approx(saha, rel=1e-6)
    assert value("lithography.plasma.ionized", given) == pytest.approx(
        saha / (saha + 1e20), rel=1e-6
    )


def test_plasma_lengths_and_densities() -> None:
    """Chen: 7,430 m sqrt(kT / n) in eV and 1/m3; 1e19 by cm3 for a carbon dioxide laser."""
    given = {
        "lithography.plasma.temperature": 30 * EV / constants.k,
        "lithography.plasma.electrons": 1e25,
    }
    assert value("lithography.plasma.debye_length", given) == pytest.approx(
        7430 * math.sqrt(30 / 1e25), rel=1e-3
    )
    density = value("lithography.laser.critical_density", {"lithography.laser.wavelength": 10.6e-6})
    assert density == pytest.approx(1.0e25, rel=0.02)


def test_spot_and_intensity_of_a_laser() -> None:
    """A perfect beam at F/2: 2 / pi 2 lambda; some 1e10 W/cm2 make tin glow at 13.5 nm."""
    given = {
        "lithography.laser.wavelength": 10.6e-6, "lithography.laser.angle": math.atan(0.25),
        "lithography.laser.quality": 4.0, "lithography.laser.pulse_energy": 0.4, "lithography.laser.duration": 2e-8,
    }  # fmt: skip
    spot = value("lithography.laser.spot", given)
    assert spot == pytest.approx(2 / math.pi * 2 * 10.6e-6 * 4)
    assert 1e13 < value("lithography.laser.intensity", given) < 1e16


def test_target_grows_at_a_steady_speed() -> None:
    given = {
        "lithography.droplet.diameter": 27e-6, "lithography.target.speed": 70.0, "lithography.laser.delay": 3e-6,
    }  # fmt: skip
    assert value("lithography.target.radius", given) == pytest.approx(13.5e-6 + 210e-6, rel=1e-6)


def test_mirrors_for_extreme_ultraviolet_light() -> None:
    """Molybdenum and silicon: pairs of 6.9 nm, 0.7 reflected, a band of two hundredths."""
    given = {"lithography.wavelength": 13.5e-9, "lithography.optics.incidence": math.radians(10)}
    assert value("lithography.optics.period", given) == pytest.approx(6.9e-9, rel=0.01)
    pairs = {"lithography.optics.pairs": 40.0, "lithography.optics.contrast": 0.035}
    assert value("lithography.optics.bandwidth", pairs) == pytest.approx(0.025)
    chosen = {"lithography.optics.reflectivity": "lithography.optics.reflectivity_of_pairs"}
    reflected = value("lithography.optics.reflectivity", pairs, chosen)
    assert reflected == pytest.approx(math.tanh(40 * 0.035) ** 2, rel=1e-9)


def test_doses_are_drawn_about_their_mean() -> None:
    given = {
        "lithography.dose": 300.0, "lithography.dose.pulse_spread": 0.1, "lithography.droplet.rate": 5e4,
        "lithography.dose.slit_time": 0.02,
    }  # fmt: skip
    drawn = stack.registry().resolve("lithography.dose.drawn", given)
    assert drawn.upper == pytest.approx(300 * (1 + 1.645 * 0.1 / math.sqrt(1000)), rel=1e-4)


def test_index_of_water_by_its_molecules() -> None:
    """Lorentz and Lorenz: polarizability of 1.47e-30 m3 and 3.34e28 molecules give n = 1.33."""
    volume = 1.47e-30
    light = 2 * math.pi * constants.c / 589e-9
    resonance = math.sqrt(
        constants.e**2 / (4 * math.pi * constants.epsilon_0 * constants.m_e * volume) + light**2
    )
    given = {
        "lithography.wavelength": 589e-9, "lithography.medium.resonance": resonance,
        "lithography.medium.molecules": 3.34e28,
    }  # fmt: skip
    index = value(
        "lithography.optics.index", given, {"lithography.optics.index": "lithography.medium.index"}
    )
    assert index == pytest.approx(1.333, rel=0.01)


def test_narrow_copper_resists_more() -> None:
    """Walls: 1 + 3/8 (39 / 20); grains: Mayadas and Shatzkes at 0.5 is 1 / (1 - 0.75 + 0.75 - 0.375 ln 3)."""
    given = {
        "wires.width": 20e-9, "wires.barrier": 0.0, "metal.grains.reflection": 0.5, "metal.grains.size": 78e-9,
    }  # fmt: skip
    assert value("metal.surface.factor", given) == pytest.approx(1 + 0.375 * 39 / 20)
    assert value("metal.grains.factor", given) == pytest.approx(
        1 / (1 - 0.375 * math.log(3)), rel=1e-9
    )


def test_skin_of_copper() -> None:
    """1.7e-8 ohm m at 1 GHz: 2.1 um; a wire of 1 um carries throughout."""
    given = {
        "wires.bulk_resistivity": 1.7e-8,
        "gpu.clock": 1e9,
        "wires.thickness": 1e-6,
        "wires.resistance": 5e4,
    }
    assert value("metal.skin.depth", given) == pytest.approx(2.08e-6, rel=5e-3)
    assert value("metal.skin.resistance", given) == 5e4
    assert value("metal.skin.resistance", {**given, "wires.thickness": 1e-5}) == pytest.approx(
        5e4 * 1e-5 / 4.15e-6, rel=5e-3
    )


@pytest.mark.parametrize("exponent", [0.6, 0.75])
def test_mean_length_of_wires_by_summing_the_hierarchy(exponent: float) -> None:
    """Donath: lengths 2/9 (7 2^k - 2^-k) at level k, in numbers by 4^(k (p - 1))."""
    levels = np.arange(12)
    weights = 4.0 ** (levels * (exponent - 1))
    lengths = 2 / 9 * (7 * 2.0**levels - 2.0**-levels)
    given = {"metal.rent.exponent": exponent, "metal.rent.gates": 4.0**12}
    expected = float((weights * lengths).sum() / weights.sum())
    assert value("metal.rent.length", given) == pytest.approx(expected, rel=1e-9)


def test_delay_of_an_inverter_by_its_current() -> None:
    """0.7 V at 40 uA: 13.1 kohm; five times 0.2 fF: 9.1 ps."""
    given = {
        "transistor.supply": 0.7, "transistor.drain_current": 4e-5, "transistor.gate_capacitance": 5e-17,
    }  # fmt: skip
    delay = value("switching.gate.fanout_delay", given)
    assert delay == pytest.approx(math.log(2) * 0.75 * 0.7 / 4e-5 * 2e-16 * 5, rel=1e-9)


def test_power_of_gates_by_hand() -> None:
    given = {
        "switching.activity": 0.1, "switching.gates": 2e10, "switching.gate.load": 1e-15, "transistor.supply": 0.8,
        "gpu.clock": 1.8e9, "switching.clock.registers": 1e9, "switching.clock.capacitance": 2e-16,
        "transistor.leakage_current": 1e-9, "switching.short.time": 1e-12, "switching.short.current": 1e-5,
    }  # fmt: skip
    assert value("switching.power.dynamic", given) == pytest.approx(
        0.1 * 2e10 * 1e-15 * 0.64 * 1.8e9
    )
    assert value("switching.power.clock", given) == pytest.approx(1e9 * 2e-16 * 0.64 * 1.8e9)
    assert value("switching.power.static", given) == pytest.approx(2e10 * 1e-9 * 0.8)
    assert value("switching.power.short", given) == pytest.approx(
        0.1 * 2e10 * 5e-6 * 0.8 * 1e-12 * 1.8e9
    )


def test_energy_of_gates_reaches_the_step() -> None:
    """The energy of a cycle where gates of 0.59 uJ are given instead of the board's, and a tenth more."""
    chosen = {"gpu.cycle_energy": "switching.cycle_energy"}
    steps = [
        read_question(
            TRAINING,
            {
                "switching.activity": "0.1", "switching.power.dynamic": f"{power} W", "switching.power.short": "20 W",
                "switching.power.clock": "150 W",
            },
            chosen,
        )
        .resolve("training.step_time", intervals=False)
        .require_value()
        for power in (900, 1000)
    ]  # fmt: skip
    assert steps[1] > steps[0] * 1.01


def test_carriers_by_scipy() -> None:
    rate, life, time = 1e31, 2e-9, 3e-9
    solved = solve_ivp(lambda _, n: rate - n / life, (0, time), [0.0], rtol=1e-10, atol=1e10)
    given = {
        "switching.carriers.generation": rate, "switching.carriers.lifetime": life, "switching.carriers.elapsed": time,
    }  # fmt: skip
    excess = value("switching.carriers.excess", given)
    assert excess == pytest.approx(float(solved.y[0][-1]), rel=1e-6)
    assert excess == pytest.approx(rate * life * (1 - math.exp(-1.5)), rel=1e-6)


@pytest.mark.parametrize(("load", "least"), [(0.1, 0.90), (0.2, 0.94), (0.5, 0.959), (1.0, 0.91)])
def test_supplies_meet_titanium(load: float, least: float) -> None:
    """80 PLUS Titanium: 90, 94, 96 and 91 % at a tenth, a fifth, half and full load."""
    assert value("regulation.supply.efficiency", {"regulation.supply.load": load}) >= least


def test_supplies_are_best_where_losses_agree() -> None:
    best = value("regulation.supply.best_load", {})
    efficiencies = [
        value("regulation.supply.efficiency", {"regulation.supply.load": best * k})
        for k in (0.9, 1, 1.1)
    ]
    assert efficiencies[1] > max(efficiencies[0], efficiencies[2])


def test_first_droop_by_integrating_the_circuit() -> None:
    """Inductance and resistance feed a capacitor from which a step of current is drawn."""
    inductance, capacitance, resistance, step = 2e-12, 4e-7, 2e-4, 200.0

    def rate(_: float, state: np.ndarray) -> list[float]:
        voltage, current = state
        return [(current - step) / capacitance, (-voltage - resistance * current) / inductance]

    period = 2 * math.pi * math.sqrt(inductance * capacitance)
    solved = solve_ivp(rate, (0, period), [0.0, 0.0], rtol=1e-9, atol=1e-9, max_step=period / 500)
    given = {
        "regulation.droop.inductance": inductance, "regulation.droop.capacitance": capacitance,
        "regulation.droop.resistance": resistance, "regulation.droop.step": step,
    }  # fmt: skip
    assert value("regulation.droop", given) == pytest.approx(-float(solved.y[0].min()), rel=0.01)


def test_wear_by_temperature_and_current() -> None:
    """0.9 eV from 378 to 358 K: 4.7 times slower; half the current lasts four times as long."""
    given = {
        "regulation.wear.energy": 0.9 * EV, "regulation.wear.known_temperature": 378.0, "transistor.temperature": 358.0,
        "regulation.wear.known_life": 10.0, "regulation.wear.known_density": 2e10, "regulation.wear.density": 1e10,
    }  # fmt: skip
    slower = math.exp(0.9 * EV / constants.k * (1 / 358 - 1 / 378))
    assert value("regulation.wear.life", given) == pytest.approx(10 * 4 * slower, rel=1e-6)


def test_constant_of_radiation() -> None:
    """CODATA: 5.670374e-8 W/(m2 K4), of k, h and c alone."""
    assert value("regulation.radiation.constant", {}) == pytest.approx(constants.sigma, rel=1e-9)


def test_a_worse_supply_raises_the_cost_of_a_token() -> None:
    chosen = {"cluster.node.supply_efficiency": "regulation.supply_efficiency"}
    costs = [
        read_question(TRAINING, {"regulation.supply.load": load}, chosen)
        .resolve("econ.cost.per_token", intervals=False)
        .require_value()
        for load in ("0.5", "0.05")
    ]
    assert costs[1] > costs[0]


def test_holes_through_silicon() -> None:
    """A cylinder of 5 um radius and 50 um: 10.7 mohm, and 2 pi eps h / ln(r_o / r_i)."""
    given = {
        "stacking.via.radius": 2.5e-6, "stacking.via.liner": 0.2e-6, "stacking.via.height": 50e-6,
        "stacking.via.resistivity": 1.7e-8,
    }  # fmt: skip
    assert value("stacking.via.resistance", given) == pytest.approx(
        1.7e-8 * 50e-6 / (math.pi * 6.25e-12)
    )
    expected = 2 * math.pi * 3.9 * constants.epsilon_0 * 50e-6 / math.log(2.7 / 2.5)
    assert value("stacking.via.capacitance", given) == pytest.approx(expected, rel=1e-6)


def test_escapes_of_tests() -> None:
    """Williams and Brown: a yield of 0.5 tested to 0.95 ships 3.4 % bad parts."""
    given = {"stacking.die.yield": 0.5, "stacking.test.coverage": 0.95}
    assert value("stacking.test.escapes", given) == pytest.approx(1 - 0.5**0.05)


def test_taller_stacks_yield_less_and_cost_more() -> None:
    given = {
        "stacking.test.escapes": 0.005, "stacking.bond.yield": 0.99, "stacking.memory.die_price": 12.0,
        "stacking.memory.bond_price": 3.0, "stacking.memory.base_price": 20.0,
    }  # fmt: skip
    for dies in (8, 12):
        each = {**given, "hbm.dies_per_stack": float(dies)}
        expected = (0.995 * 0.99) ** dies
        assert value("stacking.stack.yield", each) == pytest.approx(expected)
        assert value("stacking.memory.stack_price", each) == pytest.approx(
            (dies * 15 + 20) / expected
        )


@pytest.mark.parametrize(("area", "fields"), [(858e-6, 1), (1700e-6, 2), (2850e-6, 4)])
def test_fields_of_an_interposer(area: float, fields: int) -> None:
    given = {
        "manufacturing.interposer.area": area, "manufacturing.reticle.width": 26e-3,
        "manufacturing.reticle.height": 33e-3,
    }  # fmt: skip
    assert value("stacking.interposer.fields", given) == fields


def test_joints_crack_by_coffin_and_manson() -> None:
    given = {"stacking.fatigue.shear": 0.02}
    assert value("stacking.fatigue.cycles", given) == pytest.approx(
        0.5 * (0.02 / 0.65) ** (-1 / 0.442)
    )


# CACTI 7, parameter.cc: r = a rho / ((t - b)(w - 2 b)), c = eps_0 (2 M k_h t / s + 2 k_v w / h) + fringe, t = AR w.
CACTI_WIRES = {
    22: (88, 3, 2.104, 150, 1.05), 32: (128, 3, 2.214, 210, 1.0), 45: (180, 4, 2.46, 315, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("node", CACTI_WIRES)
def test_wires_of_the_catalog_by_the_formulas_of_cacti(node: int) -> None:
    pitch, barrier, side, height, scatter = CACTI_WIRES[node]
    given = entries.read("wires", f"cacti_{node}nm").given
    width = pitch / 2 * 1e-9
    thick = 2 * width
    expected = scatter * 2.2e-8 / ((thick - barrier * 1e-9) * (width - 2 * barrier * 1e-9))
    assert value("wires.resistance", given) == pytest.approx(expected, rel=1e-6)
    plates = (
        constants.epsilon_0 * (2 * 1.5 * side * 2 + 2 * 3.9 * width / (height * 1e-9)) + 1.15e-10
    )
    assert value("wires.capacitance", given) == pytest.approx(plates, rel=1e-6)


def test_devices_of_the_catalog_by_the_table_of_cacti() -> None:
    """22 nm: 3.63e-14 F/um2; 146 squares of the node for a cell of static memory."""
    given = entries.read("cells", "cacti_22nm").given
    assert value("transistor.oxide.capacitance", given) == pytest.approx(0.0363, rel=1e-4)
    assert given["floorplan.cache.bit_cell"] == pytest.approx(146 * 22e-9**2, rel=1e-4)
    assert value("sram.read.disturbance", given) < value("sram.trip", given)


def test_holes_of_the_catalog_fit_a_stack() -> None:
    """HBM3: 1,024 data pins and as many for power in holes 40 um apart: 3 of 110 mm2."""
    given = {
        **entries.read("vias", "cacti_coarse").given, "hbm.channels_per_stack": 16.0, "hbm.pins_per_channel": 64.0,
        "hbm.stack_area": 110e-6,
    }  # fmt: skip
    assert value("stacking.via.area", given) * 1e6 == pytest.approx(2048 * 0.0016)
    assert value("stacking.via.share", given) == pytest.approx(2048 * 0.0016 / 110)
