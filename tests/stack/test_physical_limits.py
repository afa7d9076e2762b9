"""Limits that a chip cannot pass: hot memory, a broken dielectric, missing transistors; and loads that follow."""

from __future__ import annotations

import pytest

from assay.scenario.questions.sweeping import SweepAnswer, SweepEntriesAnswer, sweep

TRAINING = "llama3_8b_8_h100_training"
FLOOR = ("packs/h100_floor",)


def swept(over: str, *targets: str) -> list[dict[str, object]]:
    answer = sweep(list(targets), [over], preset=TRAINING, includes=FLOOR)
    assert isinstance(answer, SweepAnswer | SweepEntriesAnswer)
    table = answer.table if isinstance(answer, SweepAnswer) else answer.swept
    return [dict(row) for row in table.rows()]


def test_memory_feels_the_coolant() -> None:
    """By hand: what cools dies and stacks, and 3.92 pJ/bit at 670 GB/s through half of eight layers; JEDEC: above 85
    degrees Celsius twice the refresh, 2 x 200 ns of 3.9 us; above 95 it is not rated.
    """
    rows = swept(
        "gpu.coolant_temperature=300.15,320,335,345 K",
        "dram.temperature", "dram.efficiency", "regulation.memory.power",
    )  # fmt: skip
    stack = 3.92e-12 * 8 * 3.35e12 / 5
    assert rows[0]["regulation.memory.power"] == pytest.approx(stack, rel=0.003)
    shared = (0.008 + 1 / (50 * 1.49)) * 700
    inside = float(str(rows[0]["regulation.memory.power"])) * 0.155 * 4.5
    assert rows[0]["dram.temperature"] == pytest.approx(300.15 + shared + inside, rel=1e-6)
    temperatures = [float(str(row["dram.temperature"])) for row in rows]
    assert temperatures[1] - temperatures[0] == pytest.approx(320 - 300.15, rel=1e-6)
    cool, hot = rows[0]["dram.efficiency"], rows[2]["dram.efficiency"]
    assert cool == pytest.approx(100 * (1 - 200 / 3906.25), rel=1e-3)
    assert hot == pytest.approx(100 * (1 - 400 / 3906.25), rel=1e-3)
    assert [("dram.within_rating" in str(row["violated"])) for row in rows] == [False] * 3 + [True]


def test_a_dielectric_breaks_down() -> None:
    """Sze and Ng: 10 MV/cm of silicon dioxide; a nanometer of it bears a volt."""
    rows = swept("transistor.supply=0.75,0.95,1.05 V", "transistor.oxide.field")
    assert [("transistor.oxide.holds" in str(row["violated"])) for row in rows] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        # A full GH100 has 144 multiprocessors and 80 billion transistors: 132 need 73.3 billion.
        ("manufacturing.die.transistors=4e10,7.2e10,7.4e10,8e10", [True, True, False, False]),
        ("gpu.multiprocessors=132,144,150 1/GPU", [False, False, True]),
    ],
)
def test_multiprocessors_need_transistors(over: str, expected: list[bool]) -> None:
    rows = swept(over, "manufacturing.die.density")
    name = "manufacturing.die.holds_multiprocessors"
    assert [name in str(row["violated"]) for row in rows] == expected


def test_the_load_of_supplies_follows_the_board() -> None:
    """Six supplies of 3.3 kW carry eight boards, processors and fans; less power is less load, by its eighth."""
    names = (
        "regulation.supply.load",
        "cluster.node.supplied_power",
        "regulation.supply.efficiency",
    )
    rows = swept("gpu.power.limit=350,700,1000 W/GPU", *names, "gpu.power")
    loads = [float(str(row[names[0]])) for row in rows]
    assert loads == sorted(loads)
    for row, load in zip(rows, loads, strict=True):
        assert load == pytest.approx(float(str(row[names[1]])) / 19800 * 100, rel=1e-6)
    more = float(str(rows[1]["gpu.power"])) - float(str(rows[0]["gpu.power"]))
    fans = float(str(rows[1][names[1]])) - float(str(rows[0][names[1]]))
    assert 1 <= fans / (8 * more) < 1.3
