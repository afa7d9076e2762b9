"""Electricity of extreme-ultraviolet light: a brighter source draws more, and a pass takes more of it."""

from __future__ import annotations

import pytest

from assay.scenario.question import read_question

FLOOR = ("packs/h100_floor",)
TIN = ("packs/h100_floor", "packs/euv_tin")


def value(target: str, includes: tuple[str, ...], **values: str) -> float:
    given = {name.replace("__", "."): text for name, text in values.items()}
    question = read_question("llama3_8b_8_h100_training", given, None, includes)
    return question.resolve(target, intervals=False).require_value()


def test_a_scanner_draws_what_is_published_of_it() -> None:
    """TechInsights 2024: up to 1,170 kW of a scanner of 0.33 NA; 532 kW of a source of 200 W."""
    assert value("fab.energy.scanner_power", FLOOR) == pytest.approx(1.17e6, rel=1e-3)
    source = value("lithography.source.electricity", FLOOR, lithography__power="200 W")
    assert source == pytest.approx(532e3, rel=1e-3)


@pytest.mark.parametrize(
    ("includes", "name", "values"),
    [
        (FLOOR, "lithography__power", ("250 W", "500 W")),
        (TIN, "lithography__laser__power", ("30 kW", "60 kW")),
    ],
)
def test_a_brighter_source_takes_more_electricity_by_pass(
    includes: tuple[str, ...], name: str, values: tuple[str, str]
) -> None:
    """A pass is power by time, and most of a pass's time is not exposure: 16.6 of 22.5 s."""
    passes = [value("fab.energy.by_euv_pass", includes, **{name: text}) for text in values]
    assert 1.2 < passes[1] / passes[0] < 1.6
    scanners = [value("fab.energy.scanner_power", includes, **{name: text}) for text in values]
    times = [value("lithography.wafer.time", includes, **{name: text}) for text in values]
    assert passes[1] / passes[0] == pytest.approx(
        scanners[1] * times[1] / (scanners[0] * times[0]), rel=1e-9
    )


def test_carbon_follows_the_brightness() -> None:
    dim, bright = (
        value("carbon.gpu.embodied", FLOOR, lithography__power=text) for text in ("250 W", "500 W")
    )
    assert bright > 1.005 * dim
