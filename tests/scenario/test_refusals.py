"""What does not exist is refused by name: formats, contexts and layouts."""

from __future__ import annotations

import re

import pytest

from assay import stack
from assay.catalog import accelerators, models
from assay.errors import InputError
from assay.model.optimizing.sweep import sweep
from assay.scenario import Preset, built_in, include
from assay.scenario.question import read_question
from assay.scenario.questions.entry_combinations import entry_combinations
from assay.scenario.refusals import impossible, refuse_impossible

# NVIDIA, AMD and Google data sheets: which 8- and 4-bit formats the chips compute in.
FP8 = {
    "h100_sxm", "h100_pcie", "h200_sxm", "h20_sxm", "h800_sxm", "gh200", "b200_sxm", "b300_sxm",
    "gb200", "gb300", "l4", "l40s", "rtx_4090", "mi300x", "mi325x", "h100_nvl", "mi355x",
    "rtx_5090", "tpu_v7x", "trainium1", "trainium2", "gaudi3",
}  # fmt: skip
FP4 = {"b200_sxm", "b300_sxm", "gb200", "gb300", "mi355x", "rtx_5090"}
NO_INT8 = {"v100_sxm2", "v100_sxm3", "tpu_v3"}
OLDER = {
    "a100_sxm", "a100_pcie", "a100_sxm_40gb", "a100_pcie_40gb", "a30", "t4", "v100_sxm2",
    "v100_sxm3", "rtx_3090", "mi250x", "tpu_v3", "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e",
}  # fmt: skip


def training(bits: float, accelerator: str) -> Preset:
    path = include(f"accelerators/{accelerator}", stack.registry())
    preset = built_in.preset("llama3_8b_8_h100_training").with_includes([path])
    value = preset.assignments["training.compute_bits"]
    changed = type(value)(f"{bits:g}", value.source, value.kind)
    return type(preset)(
        preset.name, "", preset.registry,
        {**preset.assignments, "training.compute_bits": changed},
        preset.variants, preset.targets, preset.included, preset.own,
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(FP8 | OLDER))
def test_formats_are_those_of_the_data_sheet(name: str) -> None:
    given = accelerators.find(name).given
    assert (given["gpu.rate_fp8"] > 0) == (name in FP8)
    assert (given["gpu.rate_fp4"] > 0) == (name in FP4)
    if "gpu.rate_int8" in given:
        assert (given["gpu.rate_int8"] > 0) == (name not in NO_INT8)


@pytest.mark.parametrize("name", sorted(OLDER))
def test_fp8_is_refused_where_the_chip_lacks_it(name: str) -> None:
    title = re.escape(accelerators.find(name).title)
    with pytest.raises(InputError, match=rf"compute_bits=8: {title} has no FP8 tensor cores"):
        training(8, name).resolve("training.step_time")
    if not name.startswith("tpu"):
        assert training(16, name).resolve("training.mfu").value


@pytest.mark.parametrize("name", ["tpu_v3", "tpu_v4", "tpu_v5e", "tpu_v5p", "tpu_v6e", "gaudi3"])
def test_kernels_of_systolic_arrays_are_not_modeled(name: str) -> None:
    preset = training(16, name)
    found = preset.resolve("training.step_time")
    assert found.value is None
    assert any(gap.variable.name.startswith("kernels.") for gap in found.missing)
    part = include(f"accelerators/{name}", stack.registry())
    assert "are not modeled" in part.notes[0]
    assert not any(variable.startswith("kernels.") for variable in part.values)
    # Peak rate, memory and rent are known; a step at the peak rate is an explicit choice.
    assert preset.resolve("gpu.peak_flops").value
    peak = preset.registry.resolve(
        "training.compute_time",
        {**preset.exact_inputs.given, "gpu.throttle": 1.0},
        {**preset.variants, "training.compute_time": "training.at_peak"},
    )
    assert peak.value


def test_fp4_on_an_h100_is_refused() -> None:
    with pytest.raises(InputError, match=r"NVIDIA H100 SXM 80GB has no FP4 tensor cores"):
        training(4, "h100_sxm").resolve("training.step_time")
    assert training(4, "b200_sxm").resolve("training.step_time").value


def test_int8_is_a_variant_of_serving() -> None:
    given = {"serving.compute_bits": 8.0, "gpu.rate_fp8": 0.0, "gpu.rate_int8": 2.0}
    (error,) = impossible(given, {})
    assert error.hint is not None
    assert "--variant gpu.rate_8bit=gpu.integer_8bit" in error.hint
    refuse_impossible(given, {"gpu.rate_8bit": "gpu.integer_8bit"})
    found = stack.registry().resolve(
        "gpu.rate_8bit", {"gpu.rate_fp8": 0, "gpu.rate_int8": 2}, {"gpu.rate_8bit": "integer_8bit"}
    )
    assert found.value == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"training.compute_bits": 12.0}, "4, 8 or 16 bits, got 12"),
        ({"serving.compute_bits": 6.0}, "4, 8 or 16 bits, got 6"),
        ({"serving.weight_bytes": 0.1}, r"expected 0\.1975 to 4 byte, got 0\.1 byte"),
        ({"serving.kv_bytes": 16.0}, "got 16 byte"),
        ({"parallelism.expert": 8.0, "architecture.experts": 0.0}, "the model is dense"),
        ({"serving.expert": 2.0, "architecture.experts": 0.0}, "the model is dense"),
        (
            {"architecture.sequence": 8192.0, "architecture.context": 1024.0},
            "8,192 tokens is beyond the model's context of 1,024",
        ),
        (
            {"serving.prompt": 2e5, "serving.output": 256.0, "architecture.context": 131072.0},
            "200,256 tokens is beyond the model's context of 131,072",
        ),
    ],
)
def test_impossible_scenarios_are_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        refuse_impossible(given, {})


@pytest.mark.parametrize(
    "given",
    [
        # Weight-only quantization: 4-bit weights in 16-bit GEMMs, on any chip.
        {"serving.weight_bytes": 0.5625, "serving.compute_bits": 16.0, "gpu.rate_fp4": 0.0},
        {"parallelism.expert": 8.0, "architecture.experts": 64.0},
        {"serving.expert": 1.0, "architecture.experts": 0.0},
        {"serving.prompt": 2e5, "architecture.context": 262144.0},
        {"serving.prompt": 2e5},
        # Experts that a dense model does not have need no format.
        {"serving.expert_bits": 8.0, "gpu.rate_fp8": 0.0, "architecture.experts": 0.0},
    ],
)
def test_possible_scenarios_are_not(given: dict[str, float]) -> None:
    assert list(impossible(given, {})) == []


@pytest.mark.parametrize(
    ("name", "context"), [("gpt2", 1024), ("llama-3.1-8b", 131072), ("pythia-160m", 2048)]
)
def test_models_bring_their_context(name: str, context: int) -> None:
    part = include(f"models/{name}", stack.registry())
    assert part.values["architecture.context"].number == context
    assert models.find(name).context == context


def test_sweep_marks_formats_that_do_not_exist() -> None:
    preset = training(16, "a100_sxm")
    found = sweep(
        stack.registry(), "training.step_time", {"training.compute_bits": [8, 12, 16]},
        preset.exact_inputs.given, preset.variants,
    )  # fmt: skip
    assert list(found.holds["training.format_exists"]) == [False, False, True]


def test_a_coolant_hotter_than_the_die_is_refused() -> None:
    """No power leaves a die of 360 K into a coolant of 365 K: one line, not a division by zero."""
    with pytest.raises(InputError, match=r"no colder than the 360 K") as raised:
        read_question("llama3_8b_8_h100_training", {"gpu.coolant_temperature": "365 K"})
    assert "below 360 K" in (raised.value.hint or "")
    assert read_question("llama3_8b_8_h100_training", {"gpu.coolant_temperature": "350 K"})


def test_two_entries_of_one_group_are_refused() -> None:
    """A chip has one process: which of two holds must not depend on a note that nobody reads."""
    two = ("processes/n2", "processes/n3e")
    with pytest.raises(InputError, match="expected one entry of processes, got processes/n2 and"):
        read_question("llama3_8b_8_h100_training", None, None, two)
    packs = ("packs/h100_floor", "packs/euv_tin", "processes/n2", "processes/n2")
    assert read_question("llama3_8b_8_h100_training", None, None, packs)
    swept = entry_combinations(
        {"processes": ["n3e"]}, preset="llama3_8b_8_h100_training", includes=["processes/n2"]
    )
    assert swept[0].question.given["transistor.node.energy"] != 0.4785


def test_a_pack_of_another_accelerator_is_said() -> None:
    def notes(preset: str) -> list[str]:
        asked = read_question(preset, None, None, ("packs/h100_floor",))
        return [note for note in asked.notes if "not known to fit" in note]

    assert notes("llama3_8b_8_h100_training") == []
    (note,) = notes("llama3_8b_h200_serving")
    assert "packs/h100_floor is used although it is not known to fit accelerators/h200_sxm" in note
