"""Splits, memory and collectives against published tables and worked figures."""

from __future__ import annotations

import pytest

from assay.model import Registry
from assay.stack import architecture, collectives, parallelism

GIB = 2**30


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([architecture.scope, collectives.scope, parallelism.scope])


@pytest.mark.parametrize(
    ("local", "target", "seconds"),
    [
        (1, "ring.allreduce", 0.040005),
        (1, "ring.allgather", 0.0200025),
        (8, "hierarchical.allreduce", 0.00834789),
        (8, "hierarchical.allgather", 0.00417394),
    ],
)
def test_collectives_of_64_ranks(
    registry: Registry, local: int, target: str, seconds: float
) -> None:
    given: dict[str, float | str] = {
        "collectives.size": "1e9 byte",
        "collectives.ranks": 64,
        "collectives.local.ranks": local,
        "collectives.latency": "5 us",
        "collectives.bandwidth": "50 GB/s",
        "collectives.local.latency": "1 us",
        "collectives.local.bandwidth": "450 GB/s",
    }
    found = registry.resolve(f"collectives.{target}", given=given)
    assert found.value == pytest.approx(seconds, rel=2e-6)


def test_bubble_of_eight_stages_and_eight_passes(registry: Registry) -> None:
    given = {"pipeline": 8, "interleave": 1, "data": 1, "micro_batch": 1, "batch": 8}
    named = {f"parallelism.{name}": value for name, value in given.items()}
    found = registry.resolve("parallelism.bubble_multiplier", given=named)
    assert found.value == 1.875


@pytest.mark.parametrize(
    ("stage", "size"), [("zero1", 4.1875), ("zero2", 2.21875), ("zero3", 0.25)]
)
def test_bytes_of_a_parameter_over_64_replicas(registry: Registry, stage: str, size: float) -> None:
    given: dict[str, float | str] = {
        "parallelism.data": 64,
        "parallelism.weight_bytes": "2 byte",
        "parallelism.gradient_bytes": "2 byte",
        "parallelism.optimizer_bytes": "12 byte",
    }
    variants = {"parallelism.state_bytes": f"parallelism.states.{stage}"}
    found = registry.resolve("parallelism.state_bytes", given=given, variants=variants)
    assert found.value == size


# Korthikanti et al. 2022, Figure 1: GiB with tensor parallelism only, and with sequence
# parallelism and selective recomputation.
MEMORY = [
    ((6144, 48, 64, 4, 1, 1), 59.25, 9.5625),
    ((12288, 96, 96, 1, 8, 3), 66.84375, 12.3515625),
    ((20480, 105, 128, 1, 35, 3), 114.0234375, 23.076171875),
    ((25600, 128, 160, 1, 64, 1), 131.25, 26.5625),
]


@pytest.mark.parametrize(("job", "tensor_only", "selective"), MEMORY)
def test_activations_of_a_gpu(
    registry: Registry, job: tuple[int, ...], tensor_only: float, selective: float
) -> None:
    hidden, layers, heads, micro_batch, pipeline, interleave = job
    given: dict[str, float | str] = {
        "architecture.hidden": hidden,
        "architecture.layers": layers,
        "architecture.heads": heads,
        "architecture.sequence": "2048 token",
        "parallelism.micro_batch": micro_batch,
        "parallelism.pipeline": pipeline,
        "parallelism.interleave": interleave,
        "parallelism.tensor": 8,
    }
    for name, size in (("tensor", tensor_only), ("sequence_selective", selective)):
        variants = {"parallelism.activation_width": f"parallelism.activations.{name}"}
        found = registry.resolve("parallelism.memory.activations", given=given, variants=variants)
        assert found.value == pytest.approx(size * GIB, rel=1e-9)
