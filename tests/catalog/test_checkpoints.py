"""The format of a model's files is the default of every command."""

from __future__ import annotations

from typing import Any

import pytest

from assay.catalog import models
from assay.catalog.checkpoints import Checkpoint, read_checkpoint
from assay.planner.questions import predict_step
from assay.scenario.question import read_question

GIB = 2**30
SERVING = "llama3_8b_h200_serving"


def question(model: str, gpu: str, tensor: int = 1, values: dict[str, str] | None = None) -> Any:
    assign = {"serving.tensor": str(tensor), **(values or {})}
    includes = [f"models/{model}", f"accelerators/{gpu}"]
    return read_question(preset=SERVING, includes=includes, assign=assign)


# Sizes of the published files: gpt-oss model card, Table 1 (60.8 and 12.8 GiB); DeepSeek-V3 and
# Kimi K2.5 by one byte, and 4.5 bits of an expert's weight, for the weights that their cards count.
@pytest.mark.parametrize(
    ("model", "gpu", "size"),
    [
        ("gpt-oss-120b", "h100_sxm", 60.8 * GIB),
        ("gpt-oss-20b", "h100_sxm", 12.8 * GIB),
        ("deepseek-v3", "h200_sxm", 671e9),
        ("kimi-k2.5", "b200_sxm", 595e9),
    ],
)
def test_weights_take_the_bytes_of_the_files(model: str, gpu: str, size: float) -> None:
    asked = question(model, gpu)
    found = asked.resolve("serving.weight_memory", intervals=False).require_value()
    assert found == pytest.approx(size, rel=0.03)
    assert any("format of its files" in note for note in asked.notes)


def test_native_formats_fit_where_their_makers_run_them() -> None:
    """OpenAI: gpt-oss-120b on one GPU of 80 GB. DeepSeek: V3 on one node of eight H200."""
    for model, gpu, tensor in (
        ("gpt-oss-120b", "h100_sxm", 1),
        ("deepseek-v3", "h200_sxm", 8),
        ("kimi-k2.5", "b200_sxm", 8),
    ):
        found = question(model, gpu, tensor).resolve("serving.throughput", intervals=False)
        assert "serving.fits_memory" not in {verdict.name for verdict in found.violated}
        answer = predict_step(model, gpu, tensor=tensor)
        assert any("the format of the model's files" in note for note in answer.notes)


def test_operands_follow_the_accelerator() -> None:
    on_hopper = question("deepseek-v3", "h200_sxm").given
    on_ampere = question("deepseek-v3", "a100_sxm").given
    assert (on_hopper["serving.compute_bits"], on_ampere["serving.compute_bits"]) == (8, 16)
    assert on_hopper["serving.weight_bytes"] == on_ampere["serving.weight_bytes"] == 1
    assert on_hopper["serving.kv_bytes"] == 2


def test_given_format_holds() -> None:
    given = question("gpt-oss-120b", "h200_sxm", values={"serving.expert_bytes": "2 byte"}).given
    assert given["serving.expert_bytes"] == 2


def test_next_model_does_not_keep_the_format_of_the_last() -> None:
    asked = question("gpt-oss-120b", "h200_sxm")
    from assay.scenario.includes import include

    plain = asked.preset.with_includes([include("models/llama-3.1-70b", asked.registry)])
    assert plain.given["serving.expert_bytes"] == plain.given["serving.weight_bytes"] == 2


@pytest.mark.parametrize(
    ("quantization", "format", "experts_only"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", False),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            "mxfp4",
            True,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head", "re:.*self_attn.*"],
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}
                },
            },
            "int4_32",
            True,
        ),
        ({"quant_method": "something"}, "", False),
    ],
)
def test_configurations_state_the_format(
    quantization: dict[str, Any], format: str, experts_only: bool
) -> None:
    found = read_checkpoint({"quantization_config": quantization}, "here")
    assert found == Checkpoint(format, "here", experts_only)


def test_every_record_names_its_source() -> None:
    stored = [model for model in models.all_models() if model.stored is not None]
    assert len(stored) >= 7
    for model in stored:
        assert model.stored is not None
        assert model.stored.source
        assert model.stored.is_quantized
