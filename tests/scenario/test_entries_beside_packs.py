"""Entries beside a pack: what is named itself holds over what the pack brings or computes."""

from __future__ import annotations

import pytest

from assay.errors import UnitError
from assay.scenario.question import Question, read_question
from assay.scenario.questions.comparing import DiffAnswer, diff
from assay.scenario.questions.graph import cone
from assay.scenario.questions.minimizing import MinimizeAnswer, minimize
from assay.scenario.questions.resolving import resolve
from assay.scenario.questions.walking import walk

TRAINING = "llama3_8b_8_h100_training"
FLOOR = "packs/h100_floor"


def asked(*includes: str, **values: str) -> Question:
    given = {name.replace("__", "."): text for name, text in values.items()}
    return read_question(TRAINING, given, None, includes)


def value(target: str, *includes: str, **values: str) -> float:
    return asked(*includes, **values).resolve(target, intervals=False).require_value()


NODES = [
    # Density over that of N5 (171.3 million a mm2), and the price of a wafer: TSMC as AnandTech compiled it, WikiChip,
    # CSET 2020, The Information Network 2023, press reports 2024.
    ("n7", 91.2 / 171.3, 9346.0),
    ("n4", 1.06, 16988.0),
    ("n3e", 1.3, 19865.0),
    ("n2", 1.3 * 1.15, 30000.0),
]


@pytest.mark.parametrize(("node", "denser", "price"), NODES)
def test_a_node_beside_the_pack_shrinks_and_prices_its_wafers(
    node: str, denser: float, price: float
) -> None:
    for includes in ((FLOOR, f"processes/{node}"), (f"processes/{node}", FLOOR)):
        assert value("manufacturing.die.area", *includes) == pytest.approx(
            814e-6 / denser, rel=2e-3
        )
        assert value("manufacturing.wafer.price", *includes) == pytest.approx(price)


@pytest.mark.parametrize(
    ("node", "before", "faster"),
    [
        # TSMC: N4P 11 % over N5 (2021), N3E 18 % over N5, N2 10 to 15 % over N3E, N5 15 % over N7, at the same power.
        ("n4", "n5", 1.11),
        ("n3e", "n5", 1.18),
        ("n2", "n3e", 1.125),
        ("n5", "n7", 1.15),
    ],
)
def test_a_node_is_as_much_faster_at_the_same_power_as_its_foundry_says(
    node: str, before: str, faster: float
) -> None:
    dense = {"gpu__activity": "1", "gpu__memory__duty": "0.05", "gpu__clock": "2.4 GHz"}
    clocks = [value("gpu.throttle", FLOOR, f"processes/{name}", **dense) for name in (before, node)]
    assert clocks[1] / clocks[0] == pytest.approx(faster, rel=0.06)
    tops = [value("gpu.top_clock", FLOOR, f"processes/{name}") for name in (before, node)]
    assert tops[1] / tops[0] == pytest.approx(faster, rel=0.03)


def test_pitches_of_another_process_are_said() -> None:
    """N2 states no pitches: its wires are those of N5's cells, whose density it exceeds by half."""
    resolution = asked(FLOOR, "processes/n2").resolve("gpu.top_clock", intervals=False)
    doubted = [verdict.name for verdict in resolution.validity if verdict.status == "false"]
    assert "metal.path.pitch_of_cells" in doubted
    own = asked(FLOOR, "processes/n7").resolve("gpu.top_clock", intervals=False)
    assert "metal.path.pitch_of_cells" not in {v.name for v in own.validity if v.status != "true"}


def test_the_node_of_the_pack_changes_nothing() -> None:
    for target in ("econ.cost.per_token", "manufacturing.wafer.price", "gpu.cycle_energy"):
        assert value(target, FLOOR, "processes/n5") == value(target, FLOOR)


def test_a_node_keeps_following_the_supply() -> None:
    """The energy of a switch goes with the square of the voltage in any process."""
    energies = [
        value("gpu.cycle_energy", FLOOR, "processes/n2", transistor__supply=f"{volts} V")
        for volts in (0.75, 0.6)
    ]
    assert energies[1] / energies[0] == pytest.approx((0.6 / 0.75) ** 2, rel=1e-9)


def test_layers_without_extreme_ultraviolet_light_take_more_exposures() -> None:
    """Told of N5: 81 masks, 115 without extreme ultraviolet light, 34 more."""
    with_euv, without = (value("fab.exposures", FLOOR, *n) for n in ((), ("processes/n7",)))
    assert without - with_euv == pytest.approx(115 - 81, abs=0.1)
    assert value("fab.wafer.cost", FLOOR, lithography__euv_layers="0") > value(
        "fab.wafer.cost", FLOOR
    )


@pytest.mark.parametrize(
    "includes",
    [(FLOOR, "grids/france"), ("grids/france", FLOOR), ("mixes/us_2023", "grids/france")],
)
def test_a_grid_holds_over_the_mix_of_a_pack(includes: tuple[str, ...]) -> None:
    """Ember 2024: 56 g/kWh in France."""
    assert value("carbon.grid.intensity", *includes) * 3.6e6 == pytest.approx(0.056, rel=0.03)
    assert value("carbon.per_token", *includes) < 0.25 * value("carbon.per_token", FLOOR)


def test_a_stated_price_holds_over_a_computed_one() -> None:
    assert value("econ.gpu.price", FLOOR, "prices/h100_sxm") == 27500.0


def test_notes_say_once_what_holds() -> None:
    notes = asked(FLOOR, "processes/n7").notes
    for name in ("manufacturing.process.density", "manufacturing.wafer.price"):
        (note,) = [text for text in notes if name in text]
        assert (
            f"of processes/n7, instead of computed by {'geometry' if 'density' in name else 'fab'}"
            in note
        )
    assert len(notes) <= 8


def test_a_larger_interposer_costs_more() -> None:
    """The 750 USD of an H100 for 1,550 mm2, and 1,100 USD of a B200 for 2,850 mm2 (Epoch AI 2026)."""
    assert value("manufacturing.package.price", FLOOR) == pytest.approx(750, rel=1e-3)
    area = value(
        "manufacturing.interposer.area",
        FLOOR,
        hbm__stacks="8 1/GPU",
        gpu__memory__capacity="128 GiB/GPU",
    )
    more = value(
        "manufacturing.package.price",
        FLOOR,
        hbm__stacks="8 1/GPU",
        gpu__memory__capacity="128 GiB/GPU",
    )
    assert area == pytest.approx((814 + 8 * 110) / 0.88 * 1e-6, rel=1e-3)
    assert more == pytest.approx(750 + (1100 - 750) / (2850 - 1550) * (area * 1e6 - 1550), rel=1e-3)


def test_a_change_of_node_is_one_cause() -> None:
    """What an entry states and what it chooses are made together: 0.4785 of the energy."""
    answer = diff(
        TRAINING, TRAINING, "gpu.cycle_energy",
        with_before=[FLOOR], with_after=[FLOOR, "processes/n2"],
    )  # fmt: skip
    assert isinstance(answer, DiffAnswer)
    first = answer.difference.contributions[0]
    total = answer.difference.after - answer.difference.before
    assert first.label == "processes/n2"
    assert first.amount == pytest.approx(total, rel=1e-3)


def test_differences_of_relations() -> None:
    answer = diff(
        TRAINING, TRAINING, "manufacturing.die.yield",
        variant_after={"manufacturing.die.yield": "manufacturing.poisson"},
    )  # fmt: skip
    assert isinstance(answer, DiffAnswer)
    assert answer.difference.after < answer.difference.before


@pytest.mark.parametrize(
    "start", ["dram.refresh.bank_time", "delivery.regulated_voltage", "gpu.coolant_temperature"]
)
def test_a_walk_says_what_all_ways_carry(start: str) -> None:
    """The elasticity of all ways is that of `sensitivity`, which moves the input instead."""
    target = "econ.cost.per_token"
    walked = walk(start, target, preset=TRAINING, includes=[FLOOR])
    question = asked(FLOOR)
    unit, middle = question.registry.variables[start].unit, question.inputs.values[start]
    ends = [f"{factor * middle!r} {unit}" for factor in (1 - 1e-4, 1 + 1e-4)]
    cost = [value(target, FLOOR, **{start.replace(".", "__"): end}) for end in ends]
    assert walked.total == pytest.approx(
        (cost[1] - cost[0]) / (2e-4 * value(target, FLOOR)), rel=0.02
    )
    carried = walked.steps[-1].carried
    assert carried is not None
    assert abs(carried) > 1e-3


def test_a_cone_of_a_scenario_has_what_it_uses() -> None:
    every = {variable.name for variable in cone("gpu.top_clock").variables}
    used = {v.name for v in cone("gpu.top_clock", preset=TRAINING, includes=[FLOOR]).variables}
    stated = {v.name for v in cone("gpu.top_clock", preset=TRAINING).variables}
    assert stated == {"gpu.top_clock", "gpu.reference.top_clock"}
    assert {"transistor.supply", "wires.aspect", "timing.depth"} <= used < every


def test_a_value_of_an_entry_can_be_replaced() -> None:
    """Six stacks of 16 GiB are 96 GiB; the 80 GiB are the data sheet's, which no one can drop."""
    problem = resolve(
        "gpu.memory.bandwidth", preset=TRAINING, includes=["stacks/hbm3_8_high"],
        assign={"hbm.stacks": "6 1/GPU"},
    ).problem  # fmt: skip
    assert problem is not None
    assert "hbm.stacks * hbm.stack_capacity gives 103" in problem.message
    assert 'assign={"gpu.memory.capacity": ' in (problem.hint or "")


def test_the_example_of_a_unit_has_the_number_given() -> None:
    with pytest.raises(UnitError) as raised:
        asked(FLOOR, hbm__stacks="6")
    assert 'hbm.stacks="6 1/GPU"' in (raised.value.hint or "")


def test_the_best_supply_is_bound_by_nothing_that_holds_everywhere() -> None:
    answer = minimize(
        "econ.cost.per_token", ["transistor.supply=0.3..0.9 V"], preset=TRAINING, includes=[FLOOR]
    )
    assert isinstance(answer, MinimizeAnswer)
    assert 0.6 < answer.optimum.choices["transistor.supply"] < 0.7
    assert not [b for b in answer.optimum.binding if b.name.startswith("bounds of")]
