"""Estimates from four words, against published runs and plain arithmetic."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay.errors import AssayError, InputError, MissingInputsError, UnknownNameError
from assay.scenario import built_in
from assay.scenario.estimate import BASES, Estimate, estimate, read_place, read_tokens
from assay.scenario.includes import include
from assay.scenario.layout_search import LayoutSearch
from assay.scenario.named_scenario import Preset
from assay.scenario.questions.estimating import estimate as ask_estimate
from assay.scenario.workloads import Method, training_defaults

HOUR = 3600.0


def value(found: Estimate, target: str) -> float:
    for row in found.report.targets:
        if row.target == target and row.resolution is not None:
            return row.resolution.require_value()
    raise AssertionError(f"no value for {target}")


@pytest.mark.parametrize(
    ("text", "number"), [("15T", 15e12), ("300b", 3e11), ("2e12", 2e12), ("1.5M", 1.5e6), ("7", 7)]
)
def test_tokens(text: str, number: float) -> None:
    assert read_tokens(text) == number


@pytest.mark.parametrize("text", ["", "T", "-1T", "15Q", "1e999", "nan", "1" * 100])
def test_other_tokens_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="tokens: expected a number such as 15T"):
        read_tokens(text)


def test_state_of_the_us_with_and_without_prefix() -> None:
    assert read_place("virginia") == read_place("us_virginia")
    assert read_place("New York")[0] == "us_new_york"


def test_grid_of_a_place_is_its_own_where_the_catalog_has_it() -> None:
    assert read_place("virginia")[1] == "us_virginia"
    assert read_place("united_kingdom") == ("united_kingdom", "united_kingdom")
    # No grid of Nebraska is known.
    assert read_place("us_nebraska")[1] == "us_average"


def test_unknown_place_lists_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match='unknown place "mars"') as found:
        read_place("mars")
    assert "us_texas" in (found.value.hint or "")


@pytest.fixture(scope="module")
def llama_405b() -> Estimate:
    words = ("llama-3.1-405b", "h100_sxm", "15.6T", "texas")
    return estimate(built_in.preset(BASES["training"]), "training", words)


def test_gpu_hours_of_llama_3_405b(llama_405b: Estimate) -> None:
    gpus = llama_405b.preset.inputs.values["training.gpus"]
    hours = gpus * value(llama_405b, "training.time_to_train") / HOUR
    # The model card states 30.84 million H100 hours; ours has no losses besides failures.
    assert 0.65 < hours / 30.84e6 < 1.3
    # The Llama 3 Herd of Models, Table 4: up to 16,384 GPUs, 38 to 43 % MFU.
    assert 8192 <= gpus <= 16384
    assert 0.35 < value(llama_405b, "training.mfu") < 0.55


def test_fewest_gpus_are_in_time_with_interruptions(llama_405b: Estimate) -> None:
    assert value(llama_405b, "econ.run.duration") <= 90 * 24 * HOUR
    assert value(llama_405b, "econ.run.duration") > 1.05 * value(
        llama_405b, "training.time_to_train"
    )
    gpus = llama_405b.preset.inputs.values["training.gpus"]
    smaller = LayoutSearch(llama_405b.preset).fastest(int(gpus / 1.1) // 64 * 64)
    assert smaller.duration > 90 * 24 * HOUR


def scenario_of(model: str, accelerator: str, tokens: float) -> Preset:
    base = built_in.preset(BASES["training"])
    paths = [f"models/{model}", f"accelerators/{accelerator}"]
    scenario = base.with_includes([include(path, base.registry) for path in paths])
    return training_defaults(scenario, tokens, Method())[0]


# Meta's 24,576 GPUs of Llama 3, racks of 72, and numbers that no power of two is.
@pytest.mark.parametrize(
    ("accelerator", "counts"), [("h100_sxm", (24, 96, 1000, 24_576)), ("gb200", (72, 144, 1152))]
)
def test_any_number_of_gpus(accelerator: str, counts: tuple[int, ...]) -> None:
    search = LayoutSearch(scenario_of("llama-3.1-8b", accelerator, 1e12))
    for gpus in counts:
        found = search.fastest(gpus)
        ranks = (found.values[f"parallelism.{name}"] for name in ("tensor", "pipeline"))
        replicas = gpus / math.prod(ranks)
        assert replicas == int(replicas)
        # Whole micro-batches, and a batch near the 512 sequences of 4 million tokens or larger.
        passes = found.values["training.batch"] / replicas / found.values["parallelism.micro_batch"]
        assert passes == int(passes)
        assert 0.75 * 512 <= found.values["training.batch"] <= 4 * 512


def test_more_gpus_are_faster() -> None:
    search = LayoutSearch(scenario_of("llama-3.1-405b", "h100_sxm", 15e12))
    durations = [search.fastest(gpus).duration for gpus in (8192, 16_384, 24_576, 32_768)]
    assert durations == sorted(durations, reverse=True)


@pytest.mark.parametrize("accelerator", ["gb200", "gb300"])
def test_racks_of_72_train_and_serve(accelerator: str) -> None:
    """The rack brings its own supply, of which its nodes take less; 60 kW is the site's usual."""
    words = ("llama-3.1-8b", accelerator, "1T", "texas")
    found = estimate(built_in.preset(BASES["training"]), "training", words)
    assert found.preset.inputs.values["training.gpus"] == 72
    assert found.report.violated == []
    power = found.preset.resolve("cluster.node.power").require_value()
    assert 60e3 < power < 132e3


def test_serving_on_gb200_takes_the_cheapest_ranks() -> None:
    words = ("llama-3.1-8b", "gb200", "1B", "texas")
    found = estimate(built_in.preset(BASES["serving"]), "serving", words)
    assert found.preset.inputs.values["serving.tensor"] == 1


def test_gpu_hours_of_deepseek_v3() -> None:
    """DeepSeek-V3 Technical Report, Table 1: 2.664 million H800 hours of pre-training."""
    words = ("deepseek-v3", "h800_sxm", "14.8T", "texas")
    found = estimate(built_in.preset(BASES["training"]), "training", words, gpus=2048)
    hours = value(found, "training.gpu_hours") / HOUR
    assert 0.7 < hours / 2.664e6 < 1.35
    values = found.preset.inputs.values
    assert values["training.compute_bits"] == 8
    assert values["optimizer.moment_bytes"] == 2
    assert "parallelism.fits_memory" not in found.report.violated


def test_less_than_a_step_is_refused() -> None:
    words = ("llama-3.1-8b", "h100_sxm", "1", "texas")
    with pytest.raises(InputError, match="at least one optimizer step of 4,194,304 tokens"):
        estimate(built_in.preset(BASES["training"]), "training", words)


def test_values_of_ones_own_replace_the_scenarios() -> None:
    words = ("llama-3.1-8b", "h100_sxm", "100B", "texas")
    rented = ask_estimate(*words, gpus=64, rent=2.0).estimate
    hours = value(rented, "training.gpu_hours") / HOUR
    assert value(rented, "econ.run.total_cost") == pytest.approx(2 * hours, rel=0.02)
    tariff = ask_estimate(*words, gpus=64, electricity=0.05, pue=1.3).estimate
    energy = value(tariff, "econ.run.energy") / 3.6e6
    assert value(tariff, "econ.run.power_cost") == pytest.approx(0.05 * energy, rel=1e-6)
    assert tariff.preset.resolve("thermal.dc.pue").value == pytest.approx(1.3)
    narrow = ask_estimate(*words, gpus=64, format="fp8").estimate
    assert value(narrow, "econ.run.duration") < value(rented, "econ.run.duration")
    with pytest.raises(InputError, match="pue: expected 1 or more"):
        ask_estimate(*words, gpus=64, pue=0.5)


def test_every_constraint_holds(llama_405b: Estimate) -> None:
    assert llama_405b.report.violated == []
    # 16,384 GPUs are more than any run of the fit had, and the answer says so.
    issues = {issue for row in llama_405b.report.targets for issue in row.issues}
    assert issues <= {"invalid approximation training.model_error.fit"}


def test_every_value_is_a_word_or_a_listed_default(llama_405b: Estimate) -> None:
    named = {default.name for default in llama_405b.defaults}
    own = llama_405b.preset.own - {"training.total_tokens"}
    assert own <= named
    groups = {part.group for part in llama_405b.preset.included}
    assert groups <= named | {"models", "accelerators", "tariffs", "grids"}


def test_cost_of_serving_is_the_price_of_a_token_times_the_tokens() -> None:
    words = ("llama-3.1-8b", "h200_sxm", "2B", "texas")
    found = estimate(built_in.preset(BASES["serving"]), "serving", words)
    price = value(found, "econ.cost.per_output_token")
    assert found.served_cost == pytest.approx(2e9 * price)
    assert found.served_cost_interval is not None
    low, high = found.served_cost_interval
    assert low < 2e9 * price < high


def test_given_number_of_gpus_is_kept() -> None:
    words = ("llama-3.1-8b", "h100_sxm", "100B", "texas")
    found = estimate(built_in.preset(BASES["training"]), "training", words, gpus=64)
    assert found.preset.inputs.values["training.gpus"] == 64
    assert "training.gpus" not in {default.name for default in found.defaults}


def test_layers_that_do_not_divide_make_uneven_stages() -> None:
    words = ("llama-3.1-405b", "h100_sxm", "15.6T", "texas")
    found = estimate(built_in.preset(BASES["training"]), "training", words, gpus=2048)
    stages = found.preset.inputs.values["parallelism.pipeline"]
    assert stages > 1
    assert 126 % stages
    assert found.utilization is not None
    assert 0.35 < found.utilization < 0.55
    [bubble] = [share for what, share in found.losses.items() if what.startswith("pipeline")]
    assert bubble > 0.05


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"serving": True, "gpus": 8}, "gpus: expected a training job"),
        ({"serving": True, "days": 8.0}, "days: expected a training job"),
        ({"serving": True, "method": "lora"}, "method: expected a training job"),
        ({"rank": 8}, "rank: expected --method lora"),
        ({"method": "magic"}, 'unknown method "magic"'),
        ({"format": "fp7"}, 'unknown format of training "fp7"'),
    ],
)
def test_options_that_would_not_be_used_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(AssayError, match=said):
        ask_estimate("llama-3.1-8b", "h100_sxm", "1T", "texas", **options)


def test_gpus_that_are_not_in_time_are_said() -> None:
    answer = ask_estimate("llama-3.1-8b", "h100_sxm", "1T", "texas", gpus=24, days=10)
    assert any("more than the 10 asked for" in note for note in answer.notes)


# GPU-hours of pretraining: Touvron et al. 2023, LLaMA, table 15, and Llama 2, table 2.
@pytest.mark.parametrize(
    ("model", "tokens", "gpus", "hours"),
    [("llama-65b", "1.4T", 2048, 1_022_362), ("llama-2-70b", "2T", 2048, 1_720_320)],
)
def test_hours_of_published_runs_are_said(model: str, tokens: str, gpus: int, hours: float) -> None:
    answer = ask_estimate(model, "a100_sxm", tokens, "texas", gpus=gpus)
    said = answer.notes[0].replace(",", "")
    assert said.startswith("published runs were charged for 1.4 times the GPU-hours")
    by_runs = float(said.rpartition("takes ")[2].removesuffix(" GPU*h"))
    by_failures = value(answer.estimate, "training.gpu_hours") / HOUR
    assert by_runs == pytest.approx(hours, rel=0.25)
    assert abs(math.log(by_runs / hours)) < abs(math.log(by_failures / hours))


def test_accelerator_without_kernel_constants_is_named() -> None:
    with pytest.raises(MissingInputsError, match="TPU v5p: a step of training needs") as refused:
        ask_estimate("llama-3.1-8b", "tpu_v5p", "1T", "texas")
    assert len(str(refused.value)) < 200
