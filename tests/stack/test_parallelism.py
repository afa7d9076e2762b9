"""Splits and memory against published tables and worked figures."""

from __future__ import annotations

import pytest

from assay.model import Registry
from assay.model.resolving.resolution import Resolution
from assay.scenario.question import read_question
from assay.stack import registry as whole_stack

GIB = 2**30

PLAIN: dict[str, float | str] = {
    "architecture.ffn_matrices": 2,
    "architecture.experts": 0,
    "architecture.experts_per_token": 0,
    "architecture.expert_ffn": 0,
    "architecture.shared_experts": 0,
    "architecture.dense_layers": 0,
    "parallelism.context": 1,
    "parallelism.expert": 1,
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return whole_stack()


def test_bubble_of_eight_stages_and_eight_passes(registry: Registry) -> None:
    given = {"pipeline": 8, "interleave": 1, "micro_batches": 8}
    named = {f"parallelism.{name}": value for name, value in given.items()}
    # Narayanan et al. 2021, sec. 2.2: (p - 1) / m of the busy time, so 1.875 in all.
    assert 1 + registry.resolve("parallelism.bubble_overhead", given=named).value == 1.875


# Bubbles in forward passes where forward, backward for inputs and backward for weights take as long.
# Qi et al. 2024: p - 1 times three, one and none; DeepSeek-AI 2024, Table 2: p / 2 - 1 times F&B + B
# - 3 W, which are 3 + 2 - 3.
@pytest.mark.parametrize(
    ("schedule", "passes"), [(None, 3 * 7), (0, 3 * 7), (1, 7), (2, 0), (3, 3 * 2)]
)
def test_bubbles_of_pipeline_schedules(
    registry: Registry, schedule: int | None, passes: float
) -> None:
    given: dict[str, float | str] = {
        "parallelism.pipeline": 8, "parallelism.interleave": 1, "parallelism.micro_batches": 20,
    }  # fmt: skip
    if schedule is not None:
        given["parallelism.schedule"] = schedule
    found = registry.resolve("parallelism.bubble_overhead", given=given)
    assert found.value == pytest.approx(passes / (3 * 20))
    assert not found.conflicts


# Activations of micro-batches in flight: Qi et al. 2024, sec. 2.2, and DeepSeek-AI 2024, Table 2.
@pytest.mark.parametrize(("schedule", "passes"), [(0, 8), (1, 8), (2, 15), (3, 9)])
def test_passes_in_flight_of_pipeline_schedules(
    registry: Registry, schedule: int, passes: float
) -> None:
    given: dict[str, float | str] = {
        "parallelism.pipeline": 8, "parallelism.interleave": 1, "parallelism.micro_batches": 20,
        "parallelism.schedule": schedule,
    }  # fmt: skip
    assert registry.resolve("parallelism.in_flight", given=given).value == passes


@pytest.mark.parametrize(("stage", "size"), [(0, 16.0), (1, 4.1875), (2, 2.21875), (3, 0.25)])
def test_bytes_of_a_parameter_over_64_replicas(registry: Registry, stage: int, size: float) -> None:
    parameters = 1e9
    given: dict[str, float | str] = {
        "architecture.parameters": parameters,
        "parallelism.expert_weights": 0,
        "parallelism.data": 64,
        "parallelism.context": 1,
        "parallelism.expert": 1,
        "parallelism.tensor": 1,
        "parallelism.pipeline": 1,
        "parallelism.zero_stage": stage,
        "optimizer.weight_bytes": "2 byte",
        "optimizer.gradient_bytes": "2 byte",
        "optimizer.master_bytes": "4 byte",
        "optimizer.moment_bytes": "4 byte",
        "optimizer.moments": 2,
    }
    # Rajbhandari et al. 2020, Figure 1: (2 + 2 + K) with K = 12, and what is split of it.
    found = registry.resolve("parallelism.memory.states", given=given)
    assert found.value == size * parameters


# Korthikanti et al. 2022, Figure 1 and Table 3: GiB of states, of activations with tensor
# parallelism only, and with sequence parallelism and selective recomputation.
MEMORY = [
    ((6144, 48, 64, 4, 1, 1, 1), 45.5625, 59.25, 9.5625),
    ((12288, 96, 96, 1, 8, 3, 64), 45.5625, 66.84375, 12.3515625),
    ((20480, 105, 128, 1, 35, 3, 280), 31.640625, 114.0234375, 23.076171875),
    ((25600, 128, 160, 1, 64, 1, 512), 32.958984375, 131.25, 26.5625),
]


def job(shape: tuple[int, ...]) -> dict[str, float | str]:
    hidden, layers, heads, micro_batch, pipeline, interleave, passes = shape
    return {
        **PLAIN,
        "architecture.hidden": hidden,
        "architecture.layers": layers,
        "architecture.heads": heads,
        "architecture.kv_heads": heads,
        "architecture.head_size": hidden / heads,
        "architecture.value_size": hidden / heads,
        "architecture.ffn": 4 * hidden,
        "architecture.sequence": "2048 token",
        "parallelism.micro_batch": micro_batch,
        "parallelism.pipeline": pipeline,
        "parallelism.interleave": interleave,
        "parallelism.tensor": 8,
        "parallelism.data": 1,
        "parallelism.micro_batches": passes,
        "software.attention": 0,
        "software.dropout": 1,
    }


@pytest.mark.parametrize(("shape", "states", "tensor_only", "selective"), MEMORY)
def test_activations_of_a_gpu(
    registry: Registry, shape: tuple[int, ...], states: float, tensor_only: float, selective: float
) -> None:
    del states
    for recompute, size in ((0, tensor_only), (1, selective)):
        given = {
            **job(shape),
            "parallelism.recompute": recompute,
            "parallelism.sequence_parallel": recompute,
        }
        found = registry.resolve("parallelism.memory.activations", given=given)
        assert found.value == pytest.approx(size * GIB, rel=1e-9)


def test_activations_without_dropout_keep_no_masks(registry: Registry) -> None:
    """Korthikanti et al. 2022, sec. 4.1: two masks a token outside attention, 1 + 2 bytes in it."""
    hidden, layers, heads, micro_batch, *_ = MEMORY[0][0]
    given = {
        **job(MEMORY[0][0]), "parallelism.recompute": 0, "parallelism.sequence_parallel": 0,
    }  # fmt: skip

    def activations(dropout: int) -> float:
        changed = {**given, "software.dropout": dropout}
        target = "parallelism.memory.activations"
        return registry.resolve(target, given=changed).require_value()

    tokens, sequence = 2048 * micro_batch, 2048
    masks = tokens * layers * (2 * hidden + 3 * heads * sequence / 8)
    assert activations(1) - activations(0) == pytest.approx(masks, rel=1e-9)


@pytest.mark.parametrize(("shape", "states", "tensor_only", "selective"), MEMORY)
def test_states_of_a_gpu(
    registry: Registry, shape: tuple[int, ...], states: float, tensor_only: float, selective: float
) -> None:
    del tensor_only, selective
    hidden, layers = shape[0], shape[1]
    given: dict[str, float | str] = {
        **job(shape),
        "architecture.parameters": 12 * layers * hidden**2,
        "parallelism.zero_stage": 0,
        "optimizer.weight_bytes": "2 byte",
        "optimizer.gradient_bytes": "4 byte",
        "optimizer.master_bytes": "4 byte",
        "optimizer.moment_bytes": "4 byte",
        "optimizer.moments": 2,
        "architecture.bias.ffn": 0,
    }
    found = registry.resolve("parallelism.memory.states", given=given)
    assert found.value == pytest.approx(states * GIB, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        ({}, set()),
        ({"parallelism.tensor": 7}, {"heads_divide", "replicas_divide", "interleave_needs_passes"}),
        ({"parallelism.interleave": 3}, {"layers_divide"}),
        ({"parallelism.pipeline": 1}, {"interleave_needs_stages"}),
        ({"training.batch": 9}, {"batch_divides", "interleave_needs_passes"}),
        # DeepSeek-V3 (2024), sec. 3.2: 61 layers on 16 stages.
        (
            {"architecture.layers": 61, "parallelism.pipeline": 4, "parallelism.interleave": 1},
            set(),
        ),
        (
            {"architecture.layers": 3, "parallelism.pipeline": 4, "parallelism.interleave": 1},
            {"layers_divide"},
        ),
    ],
)
def test_splits_that_do_not_divide_violate_constraints(
    registry: Registry, change: dict[str, float | str], violated: set[str]
) -> None:
    given: dict[str, float | str] = {
        "architecture.heads": 64,
        "architecture.layers": 80,
        "training.gpus": "32 GPU",
        "training.batch": 16,
        "parallelism.tensor": 8,
        "parallelism.pipeline": 2,
        "parallelism.context": 1,
        "parallelism.interleave": 5,
        "parallelism.micro_batch": 1,
    }
    found = registry.resolve("parallelism.bubble_overhead", given={**given, **change})
    names = {verdict.name for verdict in found.constraints if verdict.status == "false"}
    assert names == {f"parallelism.{name}" for name in violated}


def memory(model: str, accelerator: str, values: dict[str, str]) -> Resolution:
    question = read_question(
        preset="llama3_8b_8_h100_training",
        includes=[f"models/{model}", f"accelerators/{accelerator}"],
        assign=values,
    )
    return question.resolve("parallelism.memory.total", intervals=False)


# Of two gathered layers a GPU holds weights and gradients of 16 bits: 2 x (2 + 2) byte for the mean
# layer, which has 10.97 and 2.49 billion weights with all 256 and 128 experts.
@pytest.mark.parametrize(
    ("model", "accelerator", "gpus", "gathered", "total"),
    [
        ("deepseek-v3", "h200_sxm", 128, 10.97e9, 172),
        ("qwen3-235b-a22b", "h100_sxm", 64, 2.488e9, 85.3),
    ],
)
def test_gathered_layers_hold_all_experts(
    model: str, accelerator: str, gpus: int, gathered: float, total: float
) -> None:
    values = {
        "training.gpus": f"{gpus} GPU", "parallelism.recompute": "2",
        "architecture.sequence": "4096 token",
    }  # fmt: skip
    found = memory(model, accelerator, values)
    assert found.values["parallelism.gathered_parameters"] == pytest.approx(gathered, rel=2e-3)
    assert found.require_value() / GIB == pytest.approx(total, rel=5e-3)
    assert "parallelism.fits_memory" in {verdict.name for verdict in found.violated}
    split = memory(model, accelerator, {**values, "parallelism.expert": "8"})
    assert split.require_value() < found.require_value()


def test_adapters_are_what_lora_trains() -> None:
    """PEFT prints "trainable params: 41,943,040" for Llama 3.1 8B at rank 16 on all linear layers."""
    values = {"parallelism.adapter_rank": "16", "parallelism.zero_stage": "0"}
    lora = memory("llama-3.1-8b", "h100_sxm", values).values
    whole = memory("llama-3.1-8b", "h100_sxm", {"parallelism.zero_stage": "0"}).values
    trained = lora["parallelism.trained_share"] * lora["architecture.parameters"]
    assert trained == pytest.approx(41_943_040)
    assert lora["parallelism.memory.weights"] == whole["parallelism.memory.weights"]
    # 12 byte of states a trained weight.
    assert lora["parallelism.memory.optimizer"] == pytest.approx(12 * 41_943_040)
    assert whole["parallelism.trained_share"] == 1


def test_frozen_weights_take_two_thirds_of_the_flops() -> None:
    def step(values: dict[str, str]) -> Resolution:
        question = read_question(preset="llama3_8b_8_h100_training", assign=values)
        return question.resolve("training.step_time", intervals=False)

    whole, lora = step({}), step({"parallelism.adapter_rank": "16"})
    ratio = lora.values["training.kernels_flops"] / whole.values["training.kernels_flops"]
    # Attention and its backward pass stay, so the ratio is above two thirds.
    assert 2 / 3 < ratio < 0.75
    assert lora.require_value() < whole.require_value()


def test_published_layout_of_deepseek_v3_fits_its_gpus() -> None:
    """DeepSeek-AI 2024, sec. 3: 2,048 H800 of 80 GB, PP16, EP64, ZeRO-1, no TP, DualPipe, FP8."""
    layout = {
        "training.gpus": "2048 GPU", "training.batch": "15360", "training.compute_bits": "8",
        "architecture.sequence": "4096 token", "parallelism.pipeline": "16",
        "parallelism.expert": "64", "parallelism.zero_stage": "1", "parallelism.schedule": "3",
        "optimizer.moment_bytes": "2 byte", "optimizer.gradient_bytes": "4 byte",
        "cluster.nodes": "256 node",
    }  # fmt: skip
    compact = memory("deepseek-v3", "h800_sxm", {**layout, "parallelism.compact": "1"})
    assert "parallelism.fits_memory" not in {verdict.name for verdict in compact.violated}
    whole = memory("deepseek-v3", "h800_sxm", layout)
    assert "parallelism.fits_memory" in {verdict.name for verdict in whole.violated}


@pytest.mark.parametrize(
    ("layers", "stages", "interleave", "fullest"),
    [
        (80, 8, 1, 10),
        (80, 8, 5, 10),
        (126, 16, 1, 8),
        (126, 16, 8, 8),
        (61, 16, 1, 4),
        (61, 1, 1, 61),
    ],
)
def test_fullest_stage(
    registry: Registry, layers: int, stages: int, interleave: int, fullest: float
) -> None:
    """Stages that cannot have the same number of layers hold more than the mean."""
    given = {
        "architecture.layers": layers,
        "parallelism.pipeline": stages,
        "parallelism.interleave": interleave,
    }
    assert registry.resolve("parallelism.fullest_stage", given=given).value == fullest
