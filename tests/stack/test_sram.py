"""Pitches by published densities, cells by their currents, repair by SciPy's distributions, a die by its parts."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import binom, poisson

from assay import stack
from assay.catalog import entries
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"
CELL = {
    "sram.supply": 0.75, "sram.threshold": 0.25, "sram.saturation": 0.3, "sram.cell.pull_down": 2.0,
    "sram.cell.access": 1.0, "sram.cell.pull_up": 1.0, "sram.cell.hole_share": 0.5, "sram.cell.width": 1e-7,
    "sram.matching": 1.2e-9, "transistor.length": 1.6e-8,
}  # fmt: skip


def value(target: str, given: dict[str, float]) -> float:
    return stack.registry().resolve(target, given).require_value()


@pytest.mark.parametrize(
    ("pitch", "height", "breaks", "published"),
    [
        (54e-9, 272e-9, 0, 100.8),  # Intel 10 nm, Bohr 2017
        (51e-9, 210e-9, 0, 137.6),  # TSMC N5, Angstronomics 2022
        (57e-9, 240e-9, 1, 91.2),  # TSMC N7, WikiChip
    ],
)
def test_density_of_cells_by_their_pitches(
    pitch: float, height: float, breaks: int, published: float
) -> None:
    given = {
        "geometry.gate.pitch": pitch, "geometry.metal.pitch": height / 6, "geometry.cell.tracks": 6.0,
        "geometry.cell.breaks": float(breaks),
    }  # fmt: skip
    assert value("geometry.density", given) / 1e12 == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(("entry", "published"), [("n5", 171.3), ("n7", 91.2)])
def test_pitches_of_the_catalog_reach_the_die(entry: str, published: float) -> None:
    question = read_question(
        TRAINING, None, {"manufacturing.process.density": "geometry.density_of_cells"}, (f"processes/{entry}",)
    )  # fmt: skip
    density = question.resolve("manufacturing.process.density", intervals=False).require_value()
    assert density / 1e12 == pytest.approx(published, rel=0.01)


def test_a_gate_pitch_is_the_sum_of_its_parts() -> None:
    given = {
        "geometry.gate.printed": 18e-9, "geometry.contact.printed": 17e-9, "geometry.overlay": 3e-9,
        "geometry.enclosure": 5e-9,
    }  # fmt: skip
    chosen = {"geometry.gate.pitch": "geometry.gate.pitch_of_parts"}
    pitch = stack.registry().resolve("geometry.gate.pitch", given, chosen).require_value()
    assert pitch == pytest.approx(51e-9)


@pytest.mark.parametrize(("pitch", "exposures"), [(80e-9, 1), (40e-9, 2), (28e-9, 3)])
def test_exposures_of_a_metal_layer(pitch: float, exposures: int) -> None:
    """Immersion resolves half pitches of 38 nm: 80 nm at once, 40 nm in two exposures."""
    given = {"geometry.half_pitch": 38e-9, "geometry.metal.pitch": pitch}
    assert value("geometry.metal.exposures", given) == exposures


def test_area_of_a_published_cell() -> None:
    """TSMC N7: 0.027 um2 (IEDM 2016), at gate and fin pitches of 57 and 30 nm."""
    pitches = entries.read("processes", "n7").given
    assert value("sram.cell.area", pitches) * 1e12 == pytest.approx(0.027, rel=0.02)


def test_voltages_of_a_cell_are_those_at_which_currents_agree() -> None:
    """Access transistor saturated by velocity, pull-down in its triode region; and as a write has it."""
    drive, saturation = 0.5, 0.3
    current = saturation * drive - saturation**2 / 2

    def read(x: float) -> float:
        return (drive - x) * saturation - saturation**2 / 2 - 2 * (drive * x - x**2 / 2)

    assert value("sram.read.disturbance", CELL) == pytest.approx(brentq(read, 0, 0.4), rel=1e-9)

    def write(x: float) -> float:
        return (drive * x - x**2 / 2) - 0.5 * current

    assert value("sram.write.level", CELL) == pytest.approx(brentq(write, 0, 0.5), rel=1e-9)


def test_a_stronger_pull_down_reads_more_safely() -> None:
    margins = [
        value("sram.read.margin", {**CELL, "sram.cell.pull_down": n}) for n in (1.0, 2.0, 3.0)
    ]
    assert margins[0] < margins[1]


def test_least_supply_of_an_inverter() -> None:
    """Meindl and Davis: 36 mV at room temperature."""
    given = {"transistor.temperature": 300.0, "transistor.ideality": 1.0}
    assert value("sram.hold.least_supply", given) == pytest.approx(0.0358, rel=2e-3)


def test_margins_are_drawn_about_their_mean() -> None:
    mean, spread = value("sram.read.margin", CELL), value("sram.margin.spread", CELL)
    assert value("sram.threshold.spread", CELL) == pytest.approx(1.2e-9 / math.sqrt(1.6e-15))
    drawn = stack.registry().resolve("sram.margin", CELL)
    assert drawn.upper is not None
    assert drawn.upper - mean == pytest.approx(1.645 * spread, rel=5e-3)
    failure = value("sram.read.failure", CELL)
    assert failure == pytest.approx(math.erfc(mean / spread / math.sqrt(2)) / 2, rel=1e-6)


@pytest.mark.parametrize(("bits", "check"), [(8, 5), (16, 6), (32, 7), (64, 8), (128, 9)])
def test_check_bits_of_words(bits: int, check: int) -> None:
    """Hsiao's codes: (13, 8), (22, 16), (39, 32), (72, 64), (137, 128)."""
    assert value("sram.word.code_bits", {"sram.word.bits": float(bits)}) == check


@pytest.mark.parametrize("spares", [0, 1, 2, 4])
def test_repaired_arrays_are_poisson(spares: int) -> None:
    given = {"sram.array.bad_cells": 0.7, "sram.array.spares": float(spares)}
    assert value("sram.array.repaired", given) == pytest.approx(poisson.cdf(spares, 0.7), rel=1e-9)


@pytest.mark.parametrize(
    ("made", "spares", "chance"), [(144, 12, 0.05), (128, 20, 0.1), (144, 0, 0.01)]
)
def test_working_multiprocessors_are_binomial(made: int, spares: int, chance: float) -> None:
    given = {
        "sram.cores.made": float(made),
        "sram.cores.spare": float(spares),
        "sram.cores.bad": chance,
    }
    assert value("sram.cores.yield", given) == pytest.approx(
        binom.cdf(spares, made, chance), rel=1e-9
    )


def test_spares_of_ga100_save_most_of_its_dies() -> None:
    """128 made, 108 sold; 826 mm2 at 0.1 defects by cm2, of which 553 mm2 have spares."""
    chosen = {
        "manufacturing.die.yield": "sram.die_yield",
        "manufacturing.die.area": "floorplan.area",
    }
    question = read_question(
        TRAINING, {"manufacturing.process.defect_density": "0.1 1/cm^2"}, chosen,
        ("accelerators/a100_sxm", "floorplans/ga100"),
    )  # fmt: skip
    core = (476.25 + 76.44) / 128 * 0.01 * 0.1
    rest = (826 - 476.25 - 76.44 - 119.31) * 0.01 * 0.1
    expected = binom.cdf(20, 128, 1 - math.exp(-core)) * (1 + rest / 2) ** -2
    yielded = question.resolve("manufacturing.die.yield", intervals=False).require_value()
    assert yielded == pytest.approx(expected, rel=0.01)
    assert yielded > 0.8


def test_a_read_of_an_array_by_hand() -> None:
    given = {
        "sram.array.bitline": 2e-14, "sram.array.swing": 0.1, "sram.array.read_current": 2e-5,
        "sram.array.sense_constant": 5e-12, "sram.supply": 0.75, "sram.array.decoder_delay": 4e-11,
        "sram.array.wordline_delay": 1e-11,
    }  # fmt: skip
    expected = 4e-11 + 1e-11 + 1e-10 + 5e-12 * math.log(7.5)
    assert value("sram.array.access_time", given) == pytest.approx(expected, rel=1e-9)


def test_share_of_cells_by_areas() -> None:
    """512 by 512 cells, a decoder as wide as 80 and sense amplifiers as high as 90."""
    given = {
        "sram.array.rows": 512.0, "sram.array.columns": 512.0, "sram.array.decoder_strip": 80.0,
        "sram.array.sense_strip": 90.0,
    }  # fmt: skip
    assert value("sram.array.efficiency", given) == pytest.approx(512**2 / (592 * 602), rel=1e-9)
