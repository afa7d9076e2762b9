"""Published training cases as jobs, with the seconds that were observed.

What a case leaves open (micro-batch, interleaving, layout of a run) is a list of jobs, of which
the fastest that fits in memory is taken: published runs were tuned.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prediction.accelerators import ACCELERATORS, accelerator_named
from prediction.training_model import Job, memory

RUN_YIELD = 0.75
"""Share of a published run's GPU-hours that its steps explain: median over the tier B runs."""

DATES = {
    "megatron2020": 2020.7, "megatron2021": 2021.3, "megatron": 2021.0, "korthikanti2022": 2022.4, "bloom": 2022.2,
    "dgxc": 2024.8, "mosaic": 2023.5, "llama1": 2023.0, "llama2": 2023.3, "llama3.1": 2024.4,
    "deepseek": 2024.9,
}  # fmt: skip
"""When the software of each suite was current, by its source."""

LLAMA1_FFN = {4096: 11008, 5120: 13824, 6656: 17920, 8192: 22016}


@dataclass(frozen=True)
class Case:
    """A published figure: candidate jobs and the seconds of a step (or GPU-seconds of a batch)."""

    name: str
    suite: str
    jobs: tuple[Job, ...]
    observed: float
    counts_gpus: bool = False
    """Whether `observed` is GPU-seconds, because the number of GPUs is not published."""


def load(path: Path) -> list[dict[str, Any]]:
    """The cases of a file, as they are."""
    cases: list[dict[str, Any]] = json.loads(path.read_text())
    return cases


def suite_of(case: dict[str, Any]) -> str:
    """A case's suite: its id up to the first hyphen."""
    return str(case["id"]).split("-")[0]


def step_cases(cases: Iterable[dict[str, Any]], tiers: str = "A") -> list[Case]:
    """The training cases of the tiers that state, or imply, the time of a step."""
    found = (parse(case) for case in cases if case["kind"] == "training" and case["tier"] in tiers)
    return [case for case in found if case is not None]


def parse(case: dict[str, Any]) -> Case | None:
    """One case, or None when it states no time or no shape."""
    suite, inputs = suite_of(case), case["inputs"]
    accelerator = accelerator_named(inputs.get("gpu", ""))
    if accelerator is None or "hidden" not in inputs or suite not in DATES:
        return None
    launched = ACCELERATORS[accelerator].launched
    hidden = inputs["hidden"]
    job = Job(
        accelerator=accelerator, gpus=inputs.get("n_gpus") or 0, hidden=hidden,
        layers=inputs["layers"], heads=inputs["heads"],
        kv_heads=inputs.get("kv_heads") or inputs["heads"], ffn=inputs.get("ffn") or 4 * hidden,
        vocabulary=inputs.get("vocab", 51200), sequence=inputs.get("seq_len", 8192),
        batch=inputs.get("global_batch", 0), micro_batch=inputs.get("micro_batch") or 1,
        software_age=max(0.0, DATES[suite] - launched),
    )  # fmt: skip
    readers = {"dgxc": _nemo, "mosaic": _foundry, "llama1": _llama, "llama2": _llama}
    return readers.get(suite, _megatron)(case, suite, job)


def megatron_flops(job: Job) -> float:
    """FLOPs of a step as Narayanan et al. 2021 count them, full recomputation included."""
    h, layers, s, v = job.hidden, job.layers, job.sequence, job.vocabulary
    return 96 * job.batch * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))


def _megatron(case: dict[str, Any], suite: str, job: Job) -> Case | None:
    inputs, observed = case["inputs"], case["observed"]
    if not job.gpus or not job.batch:
        return None
    model = inputs.get("model_parallel", inputs.get("tp", 1) * inputs.get("pp", 1))
    tensor = inputs.get("tp") or min(8, model)
    pipeline = inputs.get("pp") or model // tensor
    recompute = inputs.get("activation_recompute", "full")
    job = replace(
        job, tensor=tensor, pipeline=pipeline, data=job.gpus // (tensor * pipeline),
        attention="unfused", overlapped=False, gradient_bytes=2,
        recompute="selective" if recompute.startswith("selective") else recompute,
        sequence_parallel="sequence-parallel" in recompute,
    )  # fmt: skip
    if "Omni-Path" in inputs.get("interconnect", "") or suite == "bloom":
        job = replace(job, nic=6.25e9, gradient_bytes=4, reduces_twice=True)
    if inputs.get("zero_stage") == 1:
        job = replace(job, sharding="optimizer")
    if inputs.get("scheme") == "ZeRO-3":
        job = replace(job, sharding="owner_broadcast", data=job.gpus, tensor=1, pipeline=1)
    per_rank = job.batch // job.data
    sizes = [inputs["micro_batch"]] if inputs.get("micro_batch") else [1, 2, 4, 8, 16]
    splits = [inputs["interleave"]] if "interleave" in inputs else [1, 2, 3, 4]
    if job.pipeline == 1 or suite in ("megatron2020", "megatron", "bloom"):
        splits = [1]  # the older software does not interleave
    jobs = tuple(
        replace(job, micro_batch=size, interleave=split)
        for size, split in itertools.product(sizes, splits)
        if per_rank % size == 0 and (split == 1 or job.layers % (job.pipeline * split) == 0)
    )
    if "iteration_time_ms" in observed:
        return Case(case["id"], suite, jobs, observed["iteration_time_ms"] / 1e3)
    if "iteration_time_s" in observed:
        return Case(case["id"], suite, jobs, observed["iteration_time_s"])
    if "achieved_tflops_per_gpu" in observed:
        rate = observed["achieved_tflops_per_gpu"] * 1e12 * job.gpus
        return Case(case["id"], suite, jobs, megatron_flops(job) / rate)
    return None


def _nemo(case: dict[str, Any], suite: str, job: Job) -> Case | None:
    inputs = case["inputs"]
    tensor, pipeline, context = inputs["tp"], inputs["pp"], inputs.get("cp", 1)
    job = replace(
        job, tensor=tensor, pipeline=pipeline, context=context,
        data=job.gpus // (tensor * pipeline * context), interleave=inputs.get("vp", 1),
        gated="llama" in case["id"], bits=8 if inputs["precision"] == "fp8" else 16,
        sequence_parallel=tensor > 1, sharding="optimizer", nic=50e9, tied=False,
    )  # fmt: skip
    return Case(case["id"], suite, (job,), case["observed"]["step_time_s"])


def _foundry(case: dict[str, Any], suite: str, job: Job) -> Case | None:
    inputs = case["inputs"]
    job = replace(
        job, data=job.gpus, bits=8 if "fp8" in inputs["precision"] else 16,
        fused_elementwise=False, attention="flash1",
        sharding="full" if inputs["sharding"] == "FULL_SHARD" else "gradients",
        nic=50e9 if job.accelerator == "H100" else 25e9,
        recompute="full" if inputs["activation_checkpointing"] else "none",
        gradient_bytes=2 if inputs["mp_mode"] == "PURE" else 4,
    )  # fmt: skip
    tokens = job.batch * job.sequence / job.gpus
    return Case(case["id"], suite, (job,), tokens / case["observed"]["tokens_per_s_per_gpu"])


def _llama(case: dict[str, Any], suite: str, job: Job) -> Case | None:
    inputs, observed = case["inputs"], case["observed"]
    tokens = 4e6
    job = replace(
        job, ffn=inputs.get("ffn") or LLAMA1_FFN[job.hidden], gated=True, tied=False,
        attention="flash1", batch=int(tokens / job.sequence), gradient_bytes=2,
    )  # fmt: skip
    jobs = layouts(job, [job.gpus] if job.gpus else [256, 512, 1024, 2048])
    per_second = inputs["tokens_T"] * 1e12 / (observed["gpu_hours"] * 3600)
    seconds = job.batch * job.sequence / per_second * RUN_YIELD
    return Case(case["id"], suite, jobs, seconds, counts_gpus=True)


def layouts(job: Job, gpu_counts: Iterable[int]) -> tuple[Job, ...]:
    """Layouts without pipeline that fit in nine tenths of the memory."""
    found = []
    choices = itertools.product(
        gpu_counts,
        (1, 2, 4, 8),
        (1, 2, 4, 8),
        ("none", "selective", "full"),
        ("optimizer", "full"),
    )
    for gpus, tensor, size, recompute, sharding in choices:
        if size * gpus // tensor > job.batch:
            continue
        candidate = replace(
            job, gpus=gpus, tensor=tensor, data=gpus // tensor, micro_batch=size,
            recompute=recompute, sharding=sharding, sequence_parallel=tensor > 1,
        )  # fmt: skip
        if memory(candidate) < 0.9 * job.device.capacity:
            found.append(candidate)
    return tuple(found)
