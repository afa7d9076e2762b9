"""Scaling laws by published values and SciPy, the cost of Muon, and arithmetic units by data sheets."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import minimize_scalar

from assay import stack
from assay.catalog import accelerators, entries
from assay.scenario.question import read_question

HOFFMANN = entries.read("scaling_laws", "hoffmann_2022").given
BESIROGLU = entries.read("scaling_laws", "besiroglu_2024").given


def value(target: str, law: dict[str, float], **given: float) -> float:
    named = {name.replace("__", "."): number for name, number in given.items()}
    return stack.registry().resolve(f"scaling.{target}", {**law, **named}).require_value()


def run(weights: float, tokens: float) -> dict[str, float]:
    return {"architecture__parameters": weights, "training__total_tokens": tokens}


def test_losses_of_two_published_models() -> None:
    """Hoffmann et al.: Chinchilla (70 B, 1.4 T) 1.937 and Gopher's size and tokens (280 B, 300 B) 1.993."""
    assert value("loss", HOFFMANN, **run(70e9, 1.4e12)) == pytest.approx(1.937, rel=1e-3)
    assert value("loss", HOFFMANN, **run(280e9, 300e9)) == pytest.approx(1.993, rel=1e-3)
    refitted = 1.8172 + 482.01 / 70e9**0.3478 + 2085.43 / 1.4e12**0.3658
    assert value("loss", BESIROGLU, **run(70e9, 1.4e12)) == pytest.approx(refitted, rel=1e-12)


def test_optimum_for_a_budget_by_scipy() -> None:
    e, a, alpha, b, beta = BESIROGLU.values()
    budget = 6 * 70e9 * 1.4e12

    def loss(log_size: float) -> float:
        size = math.exp(log_size)
        return float(e + a / size**alpha + b / (budget / 6 / size) ** beta)

    best = minimize_scalar(loss, bracket=(20, 25), tol=1e-12)
    at = run(70e9, 1.4e12)
    assert value("optimum.size", BESIROGLU, **at) == pytest.approx(math.exp(best.x), rel=1e-4)
    assert value("optimum.loss", BESIROGLU, **at) == pytest.approx(best.fun, rel=1e-12)
    assert 0 <= value("optimum.gap", BESIROGLU, **at) < 1e-3
    # The refit agrees with the rule of twenty tokens for each weight.
    tokens, size = (value(f"optimum.{name}", BESIROGLU, **at) for name in ("tokens", "size"))
    assert 15 < tokens / size < 30


@pytest.mark.parametrize("served", [0.0, 1e11, 1e13, 1e15])
def test_optimum_at_a_loss_with_serving_by_scipy(served: float) -> None:
    e, a, alpha, b, beta = BESIROGLU.values()
    goal = 1.97

    def operations(log_size: float) -> float:
        size = math.exp(log_size)
        left = goal - e - a / size**alpha
        return 6 * size * (b / left) ** (1 / beta) + 2 * size * served if left > 0 else math.inf

    lowest = math.log((a / (goal - e)) ** (1 / alpha)) + 1e-9
    best = minimize_scalar(
        operations, bounds=(lowest, lowest + 10), method="bounded", options={"xatol": 1e-10}
    )
    given = {"scaling__goal__loss": goal, "scaling__goal__served_tokens": served}
    assert value("goal.size", BESIROGLU, **given) == pytest.approx(math.exp(best.x), rel=1e-3)
    assert value("goal.compute", BESIROGLU, **given) == pytest.approx(best.fun, rel=1e-6)


def test_serving_makes_models_smaller_and_training_longer() -> None:
    at = [
        {"scaling__goal__loss": 1.97, "scaling__goal__served_tokens": served}
        for served in (0.0, 1e13)
    ]
    sizes = [value("goal.size", BESIROGLU, **given) for given in at]
    ratios = [value("goal.tokens_per_weight", BESIROGLU, **given) for given in at]
    assert sizes[1] < sizes[0]
    assert ratios[1] > 1.5 * ratios[0]
    assert 15 < ratios[0] < 30


def test_break_even_of_a_run() -> None:
    found = value(
        "life.break_even", {}, econ__run__total_cost=1e6, scaling__life__revenue=3e-6,
        econ__cost__per_output_token=1e-6,
    )  # fmt: skip
    assert found == pytest.approx(5e11)


@pytest.mark.parametrize(
    ("hidden", "batch", "percent"), [(768, 524_288, 0.73), (16_384, 16e6, 0.51)]
)
def test_operations_that_muon_adds(hidden: int, batch: float, percent: float) -> None:
    """Jordan et al. 2024: 0.73 % for a speedrun of GPT-2, 0.5 % for Llama 3 405B."""
    given = {
        "optimizer.orthogonalization_steps": 5.0, "architecture.hidden": float(hidden),
        "training.tokens_per_step": batch,
    }  # fmt: skip
    name = "training.update.orthogonalization_share"
    share = stack.registry().resolve(name, given).require_value()
    assert 100 * share == pytest.approx(percent, rel=0.01)


def test_muon_costs_half_a_per_cent_and_saves_a_moment() -> None:
    def answer(target: str, *includes: str) -> float:
        question = read_question("llama3_8b_8_h100_training", None, None, includes)
        return question.resolve(target, intervals=False).require_value()

    muon = "optimizers/muon"
    share = answer("training.update.orthogonalization_share", muon)
    assert share == pytest.approx(5 * 4096 / (128 * 8192))
    slower = answer("training.step_time", muon) / answer("training.step_time")
    assert 1 < slower < 1 + share
    saved = answer("parallelism.memory.optimizer") - answer("parallelism.memory.optimizer", muon)
    assert saved == pytest.approx(4 * answer("architecture.parameters") / 8, rel=1e-2)


@pytest.mark.parametrize(
    ("name", "die", "operations"),
    [
        (
            "h100_sxm",
            "gh100",
            {"bits_16": 4096, "bits_8": 8192, "tf32": 2048, "vector": 256, "fp64": 256},
        ),
        ("a100_sxm", "ga100", {"bits_16": 2048, "tf32": 1024, "vector": 128, "fp64": 128}),
    ],
)
def test_operations_in_a_cycle_by_data_sheets(
    name: str, die: str, operations: dict[str, float]
) -> None:
    """989.4, 1978.9 and 494.7 TFLOP/s at 1.83 GHz, 66.9 at 1.98; 312, 156, 19.5 at 1.41."""
    given = {**entries.read("manufacturing", die).given, **accelerators.find(name).given}
    for kind, count in operations.items():
        assert stack.registry().resolve(f"arithmetic.flops.{kind}", given).value == count
    own = {key: number for key, number in given.items() if key != "gpu.flops_per_cycle"}
    chosen = {"gpu.flops_per_cycle": "arithmetic.flops_per_cycle"}
    peak = stack.registry().resolve("gpu.peak_flops", own, chosen).value
    assert peak == stack.registry().resolve("gpu.peak_flops", given).value


@pytest.mark.parametrize(("bits", "transistors"), [(52, 685_300), (23, 134_100), (10, 25_300)])
def test_transistors_of_a_multiply_add_unit(bits: float, transistors: float) -> None:
    """LLMCompass: 685,300 for double precision, scaled by the square of the fraction."""
    given = {
        "arithmetic.multiplier.fraction_bits": bits, "arithmetic.multiplier.double_transistors": 685_300.0,
    }  # fmt: skip
    found = stack.registry().resolve("arithmetic.multiplier.transistors", given).value
    assert found == pytest.approx(transistors, rel=2e-3)


def test_a_matrix_instruction() -> None:
    """64 x 256 x 16: 524,288 operations, 128 cycles of an H100's multiprocessor."""
    given = {
        "arithmetic.mma.rows": 64.0, "arithmetic.mma.columns": 256.0, "arithmetic.mma.depth": 16.0,
        **entries.read("manufacturing", "gh100").given,
    }  # fmt: skip
    registry = stack.registry()
    assert registry.resolve("arithmetic.mma.flops", given).value == 524_288
    assert registry.resolve("arithmetic.mma.cycles", given).value == 128
