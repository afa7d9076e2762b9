"""Figures of silicon, light and heat, by the constants of the SI."""

from __future__ import annotations

import math

import pytest

from assay.asking.answering import ask
from assay.asking.outcome import Outcome

BOLTZMANN, CHARGE, PLANCK, LIGHT = 1.380649e-23, 1.602176634e-19, 6.62607015e-34, 299_792_458.0


def answered(question: str) -> Outcome:
    answer = ask(question)
    assert answer.outcome is not None, str(answer.problem)
    return answer.outcome


@pytest.mark.parametrize(
    ("words", "kelvin"),
    [
        ("300 K", 300.0),
        ("300K", 300.0),
        ("77 kelvin", 77.0),
        ("85 C", 358.15),
        ("27 \u00b0C", 300.15),
    ],
)
def test_a_temperature_is_that_of_the_transistor(words: str, kelvin: float) -> None:
    """Upstream of it lie those of the die and of the memory, which would be another figure."""
    volts = answered(f"thermal voltage at {words}").number
    assert volts == (pytest.approx(BOLTZMANN * kelvin / CHARGE, rel=1e-4), "V")
    erased = answered(f"Landauer limit at {words}").number
    assert erased == (pytest.approx(BOLTZMANN * kelvin * math.log(2), rel=1e-4), "J")


def test_what_a_question_leaves_open_is_said() -> None:
    assert any(line.startswith("at 3") for line in answered("Landauer limit").assumed)
    assert "killer defects: 0.1 1/cm^2" in answered("yield of a 200 mm2 die").assumed
    assert "no spare units" in answered("yield of a 200 mm2 die").assumed
    assert "light of 13.5 nm" in answered("energy of an EUV photon").assumed


@pytest.mark.parametrize("nanometers", [13.5, 193, 248])
def test_a_photon_has_the_energy_of_its_light(nanometers: float) -> None:
    energy = answered(f"energy of a {nanometers} nm photon").number
    assert energy[1] == "eV"
    assert energy[0] == pytest.approx(PLANCK * LIGHT / (nanometers * 1e-9) / CHARGE, rel=1e-4)


@pytest.mark.parametrize("sides", ["26 mm by 33 mm", "26 x 33 mm", "858 mm\u00b2", "858 mm^2"])
def test_a_die_is_given_by_its_area_or_its_sides(sides: str) -> None:
    text = answered(f"dies per wafer for a die of {sides}").text
    assert text == answered("dies per wafer for a die of 858 mm2").text


@pytest.mark.parametrize(
    "question",
    [
        "Landauer limit of a 814 mm2 die",
        "dies per wafer at 300 K",
        "price of a 5 nm wafer at 0.2 defects per cm2",
        "energy of an EUV photon at 0.55 NA",
        "heat flux of a B200",
        "TTFT of Llama 3.1 70B on 8 H100 at 85 C",
    ],
)
def test_a_quantity_that_a_figure_does_not_depend_on_is_refused(question: str) -> None:
    assert ask(question).outcome is None


def test_of_a_model_so_many_k_are_a_context() -> None:
    answer = ask("KV cache of Llama 3.1 8B at 128 k")
    assert answer.reading.get("context") == 131_072
    assert "temperature" not in answer.reading.slots
