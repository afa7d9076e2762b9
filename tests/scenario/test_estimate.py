"""Estimates from four words, against published runs and plain arithmetic."""

from __future__ import annotations

import pytest

from assay.errors import InputError, UnknownNameError
from assay.scenario import built_in
from assay.scenario.estimate import BASES, Estimate, estimate, read_place, read_tokens

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


def test_unknown_place_lists_those_known() -> None:
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
