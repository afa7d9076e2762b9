"""A value given beside a scenario is used, or the answer says that it is not, and why."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from assay.answers import Answer
from assay.scenario.questions.comparing import diff, sensitivity
from assay.scenario.questions.minimizing import minimize
from assay.scenario.questions.receipts import receipt
from assay.scenario.questions.reporting import scenario_report
from assay.scenario.questions.resolving import explain, resolve
from assay.scenario.questions.sweeping import sweep

TRAINING = "llama3_8b_8_h100_training"
SERVING = "llama3_8b_h200_serving"
COST = "econ.cost.per_token"
RENT = "econ.rent.price=10 USD/(h*GPU)"
OWNED = (
    "econ.rent.price: not used: econ.rented is 0 (1 where GPUs are rented, 0 where they are "
    "owned); --set econ.rented=1 uses it"
)


def answered(target: str, *assign: str, preset: str = TRAINING, **given: Any) -> tuple[float, str]:
    answer = resolve(target, preset=preset, assign=assign, intervals=False, **given)
    assert answer.problem is None, answer.problem
    assert answer.resolution.value is not None
    return answer.resolution.value, "\n".join(answer.notes)


@pytest.mark.parametrize(
    ("target", "preset", "assign", "note"),
    [
        (COST, TRAINING, [RENT], OWNED),
        (
            COST,
            TRAINING,
            ["thermal.dc.stated_pue=3"],
            "thermal.dc.stated_pue: not used: thermal.dc.overhead_power is computed by "
            "thermal.dc.overhead_power; --variant "
            "thermal.dc.overhead_power=thermal.dc.overhead_stated uses it",
        ),
        (
            "carbon.per_output_token",
            SERVING,
            ["carbon.contracted.share=1", "carbon.contracted.intensity=0 kg/kWh"],
            "carbon.contracted.share: not used: carbon.intensity is computed by "
            "carbon.location_based; --variant carbon.intensity=carbon.market_based uses it",
        ),
        (
            COST,
            TRAINING,
            ["econ.electricity.energy_price=1 USD/kWh", "econ.electricity.price=0.1 USD/kWh"],
            "econ.electricity.energy_price: not used: econ.electricity.price is given",
        ),
        (
            COST,
            TRAINING,
            ["gpu.memory.capacity=90 GB/GPU"],
            f"gpu.memory.capacity: not used: {COST} does not depend on it, only the limits "
            "parallelism.fits_memory do",
        ),
        (
            COST,
            TRAINING,
            ["carbon.grid.intensity=1 kg/kWh"],
            f"carbon.grid.intensity: not used: {COST} does not depend on it",
        ),
    ],
)
def test_a_value_that_is_not_used_is_named_with_the_reason(
    target: str, preset: str, assign: Sequence[str], note: str
) -> None:
    value, notes = answered(target, *assign, preset=preset)
    assert note in notes.splitlines()
    if "electricity" not in note:
        assert value == answered(target, preset=preset)[0]


@pytest.mark.parametrize(
    ("target", "preset", "assign", "given"),
    [
        (COST, TRAINING, [RENT, "econ.rented=1"], {}),
        (
            "carbon.per_output_token",
            SERVING,
            ["carbon.contracted.share=1", "carbon.contracted.intensity=0 kg/kWh"],
            {"variant": ["carbon.intensity=carbon.market_based_without_residual_mix"]},
        ),
    ],
)
def test_what_the_note_proposes_uses_the_value(
    target: str, preset: str, assign: list[str], given: dict[str, Any]
) -> None:
    value, notes = answered(target, *assign, preset=preset, **given)
    assert "not used" not in notes
    assert value != answered(target, preset=preset)[0]


def test_a_stated_pue_replaces_the_computed_one_in_costs_and_energy() -> None:
    energy, _ = answered("econ.energy.per_token")
    pue, _ = answered("thermal.dc.pue")
    replaced, notes = answered("econ.energy.per_token", "thermal.dc.pue=3")
    assert replaced / energy == pytest.approx(3 / pue)
    assert notes.startswith("thermal.dc.pue: 3 as given replaces the computed one, by thermal.dc.")
    assert answered("thermal.dc.pue", "thermal.dc.pue=3")[0] == 3
    assert "not used" not in notes


def test_a_stated_price_of_electricity_replaces_the_tariff() -> None:
    power, _ = answered("econ.run.power_cost")
    tariff, _ = answered("econ.electricity.price")
    replaced, notes = answered("econ.run.power_cost", "econ.electricity.price=0.5 USD/kWh")
    assert replaced / power == pytest.approx(0.5 / 3.6e6 / tariff)
    assert "econ.electricity.price: 0.5 USD/kWh as given replaces 0.0892 USD/kWh" in notes


def test_values_that_contradict_each_other_are_refused_as_before() -> None:
    assign = [
        "econ.electricity.price=0.5 USD/kWh", "econ.electricity.energy_price=0.1 USD/kWh",
        "econ.electricity.demand_price=0 USD/(kW*month)", "econ.electricity.load_factor=1",
        "econ.electricity.tax_share=0",
    ]  # fmt: skip
    answer = resolve("econ.electricity.price", assign=assign)
    assert "contradictory input: econ.electricity.price" in str(answer.problem)


@pytest.mark.parametrize(
    "ask",
    [
        lambda **given: explain(COST, depth=1, intervals=False, **given),
        lambda **given: receipt(COST, intervals=False, **given),
        lambda **given: sensitivity(COST, **given),
        lambda **given: sweep([COST], ["training.batch=128,256"], **given),
        lambda **given: sweep([COST], ["accelerators=h100_sxm,h200_sxm"], **given),
        lambda **given: minimize(COST, ["training.batch=128,256"], **given),
        lambda assign, preset: diff(preset, preset, COST, assign_after=assign),
    ],
)
def test_every_command_says_so(ask: Callable[..., Answer]) -> None:
    notes = [note.removeprefix("B: ") for note in ask(preset=TRAINING, assign=[RENT]).notes]
    assert OWNED in notes


def test_a_report_on_a_scenario_says_so() -> None:
    answer = scenario_report([TRAINING], targets=[COST], assign=[RENT])
    assert OWNED in answer.reports[0].notes


def test_a_swept_choice_decides_whether_a_value_is_used() -> None:
    answer = sweep([COST], ["econ.rented=0,1"], preset=TRAINING, assign=[RENT])
    assert not [note for note in answer.notes if "not used" in note]


def test_a_swept_quantity_without_effect_names_the_one_that_has_it() -> None:
    answer = sweep([COST], ["thermal.dc.pue=1.1,1.5"], preset=TRAINING)
    assert any(
        note.startswith("thermal.dc.pue: not used") and "thermal.dc.stated_pue" in note
        for note in answer.notes
    )
