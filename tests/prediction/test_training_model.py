from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prediction.training_cases import megatron_flops
from prediction.training_model import Job, memory, parameters, step_terms, step_time

CALIBRATION = Path(__file__).parents[2] / "python/assay/catalog/calibration/training.json"


def constants(family: str) -> dict[str, float]:
    rows = json.loads(CALIBRATION.read_text())["constants"]
    return {row["name"]: row["value"] for row in rows if row["family"] in ("*", family)}


GPT3 = Job(
    "A100-80", 64, 12288, 96, 96, 96, 49152, 51200, 2048, 64, 1, tensor=8, pipeline=8,
    interleave=3, attention="unfused", recompute="full", overlapped=False, gradient_bytes=2,
    software_age=2.0,
)  # fmt: skip
GPT_530B = replace(GPT3, gpus=280, hidden=20480, ffn=81920, layers=105, heads=128, kv_heads=128,
                   batch=280, pipeline=35)  # fmt: skip
LLAMA_8B = Job(
    "H100", 64, 4096, 32, 32, 8, 14336, 128256, 8192, 1024, 1, gated=True, tied=False, context=2,
    data=32, sharding="optimizer", nic=50e9, software_age=2.0,
)  # fmt: skip
LLAMA_70B = replace(
    LLAMA_8B, gpus=512, hidden=8192, layers=80, heads=64, ffn=28672, tensor=4, pipeline=4,
    interleave=5, data=16, sequence_parallel=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("family", "job", "seconds"),
    [
        # Korthikanti et al. 2022, Table 5.
        ("A100", GPT3, 18.13),
        ("A100", replace(GPT3, recompute="selective", sequence_parallel=True), 13.75),
        ("A100", GPT_530B, 49.05),
        # NVIDIA DGX Cloud Benchmarking recipes, llama3.1.
        ("H100", LLAMA_8B, 13.08),
        ("H100", replace(LLAMA_8B, bits=8), 9.80),
        ("H100", LLAMA_70B, 14.89),
        ("H100", replace(LLAMA_70B, bits=8), 11.18),
    ],
)
def test_published_step_times_are_predicted(family: str, job: Job, seconds: float) -> None:
    assert step_time(constants(family), job) == pytest.approx(seconds, rel=0.09)


def test_pipeline_overhead_is_stages_less_one_over_interleaved_micro_batches() -> None:
    table = constants("A100") | {"network": 1e9}
    for interleave in (1, 3):
        job = replace(GPT3, interleave=interleave)
        terms = step_terms(table, job)
        busy = terms["compute"] + terms["tensor_communication"]
        assert terms["bubble"] / busy == pytest.approx(7 / (interleave * 64), rel=1e-6)


def test_full_recomputation_adds_one_forward_pass() -> None:
    table = constants("A100")
    full = step_terms(table, GPT3)["compute"]
    none = step_terms(table, replace(GPT3, recompute="none"))["compute"]
    assert full / none == pytest.approx(4 / 3, rel=0.03)


def test_parameters_and_flops_of_gpt3() -> None:
    # Brown et al. 2020 count 174.6e9 with a vocabulary of 50,257 and learned positions.
    assert parameters(GPT3) == pytest.approx(174.6e9, rel=0.002)
    # Narayanan et al. 2021: 72 B s L h^2 (1 + s/6h) of the layers, 4/3 with recomputation, and
    # 6 B s h V of the logits, which are not computed again.
    layers = 72 * 64 * 2048 * 96 * 12288**2 * (1 + 2048 / (6 * 12288))
    logits = 6 * 64 * 2048 * 12288 * 51200
    assert megatron_flops(GPT3) == pytest.approx(layers * 4 / 3 + logits, rel=1e-9)


def test_sharding_saves_what_it_says() -> None:
    job = replace(LLAMA_8B, context=1, data=64)
    weights = parameters(job)
    saved = memory(replace(job, sharding="replicated")) - memory(job)
    assert saved == pytest.approx(12 * weights * (1 - 1 / 64), rel=1e-9)
