"""GPU-hours of published runs, each family predicted without the others' help from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prediction.accelerators import Constants
from prediction.training_cases import layouts, parse, suite_of
from prediction.training_model import Job, memory, step_time

Tables = Callable[[str], dict[str, Constants]]


@dataclass(frozen=True)
class Run:
    """A published run or, where `extrapolated`, hours worked out from a measured step."""

    name: str
    family: str
    suite: str
    jobs: tuple[Job, ...]
    tokens: float
    hours: float
    active_parameters: float
    extrapolated: bool = False


def runs(cases: Iterable[dict[str, Any]]) -> list[Run]:
    """The runs of tiers A and B that state GPU-hours or days."""
    table = {case["id"]: case for case in cases}
    found = []
    for case in table.values():
        if case["kind"] == "training" and case["tier"] in "AB":
            run = _run(case, table)
            if run is not None:
                found.append(run)
    return found


def _run(case: dict[str, Any], table: dict[str, dict[str, Any]]) -> Run | None:
    inputs, observed, suite = case["inputs"], case["observed"], suite_of(case)
    if "training_days_300B_tokens" in observed:
        parsed = parse(case)
        hours = observed["training_days_300B_tokens"] * 24 * inputs["n_gpus"]
        jobs = parsed.jobs if parsed else ()
        size = inputs["params_B"] * 1e9
        return Run(case["id"], "megatron", suite, jobs, 300e9, hours, size, extrapolated=True)
    if suite == "deepseek" and "gpu_hours_pretrain" in observed:
        # Eight routed experts and a shared one multiply like one dense layer of their width.
        job = Job(
            "H100", inputs["n_gpus"], 7168, 61, 128, 128, 9 * 2048, 129280, 4096, 15360, 1,
            gated=True, tied=False, pipeline=16, interleave=2, data=128, bits=8,
            sharding="optimizer", nic=50e9, software_age=2.0,
        )  # fmt: skip
        hours = observed["gpu_hours_pretrain"]
        return Run(case["id"], suite, suite, (job,), 14.8e12, hours, 37e9)
    if "gpu_hours" not in observed or "tokens_T" not in inputs:
        return None
    family, jobs = suite, ()
    if "OPT" in case["id"]:
        family = "opt"
        job = Job(
            "A100-80", 992, 12288, 96, 96, 96, 49152, 50272, 2048, 976, 1, tensor=8, data=124,
            recompute="full", attention="unfused", sharding="full", gradient_bytes=2,
            software_age=1.5,
        )  # fmt: skip
        jobs = tuple(replace(job, micro_batch=size) for size in (1, 2, 4, 8))
    elif "BLOOM" in case["id"]:
        family = "bloom"
        parsed = parse(table["bloom-176b-step"])
        jobs = parsed.jobs if parsed else ()
    elif suite == "llama3.1":
        jobs = _llama3(inputs)
    else:
        parsed = parse(case)
        jobs = parsed.jobs if parsed else ()
    left_out = family if family in ("llama1", "bloom") else ""
    size = inputs["params_B"] * 1e9
    tokens = inputs["tokens_T"] * 1e12
    return Run(case["id"], family, left_out, jobs, tokens, observed["gpu_hours"], size)


def _llama3(inputs: dict[str, Any]) -> tuple[Job, ...]:
    job = Job(
        "H100", 16384, inputs["hidden"], inputs["layers"], inputs["heads"], inputs["kv_heads"],
        inputs["ffn"], inputs["vocab"], 8192, 2048, 1, gated=True, tied=False, nic=50e9,
        sharding="optimizer", software_age=1.6,
    )  # fmt: skip
    if inputs["layers"] == 126:
        # The layout of Llama 3.1 405B as its report gives it.
        return (
            replace(
                job, tensor=8, pipeline=16, interleave=8, data=128, sequence_parallel=True
            ),
        )  # fmt: skip
    return layouts(replace(job, batch=1024 if inputs["layers"] == 80 else 512), (1024, 2048, 4096))


def ideal_hours(table: dict[str, Constants], run: Run) -> float:
    """GPU-hours if every second were a step of the best layout."""
    fitting = [job for job in run.jobs if memory(job) < 0.9 * job.device.capacity]
    jobs = fitting or [min(run.jobs, key=memory)]
    per_token = min(
        step_time(table[job.accelerator], job) * job.gpus / (job.batch * job.sequence)
        for job in jobs
    )
    return per_token * run.tokens / 3600


def print_gpu_hours(cases: Iterable[dict[str, Any]], tables: Tables) -> None:
    """Predict each family with constants and yield that come from the others."""
    found = runs(cases)
    ideal = np.array([ideal_hours(tables(run.suite), run) for run in found])
    observed = np.array([run.hours for run in found])
    families = np.array([run.family for run in found])
    real = np.array([not run.extrapolated for run in found])
    rule = np.array(
        [
            6 * run.active_parameters * run.tokens
            / (0.4 * run.jobs[0].device.peak[run.jobs[0].bits] * 3600)
            for run in found
        ]
    )  # fmt: skip
    predicted, constant = ideal.copy(), rule.copy()
    for family in dict.fromkeys(families):
        here, others = families == family, families != family
        if real[here].any():
            predicted[here] /= np.median((ideal / observed)[others & real])
        constant[here] /= np.median((rule / observed)[others])
    for run, hours in zip(found, predicted, strict=True):
        print(f"hours     {run.name:36} {run.hours:11.0f} {hours / run.hours - 1:+.3f}")
    for label, values in (("model", predicted), ("6ND/0.4", rule), ("constant", constant)):
        size = np.abs(values / observed - 1)
        by_family = [np.median(size[families == family]) for family in dict.fromkeys(families)]
        print(
            f"hours     {label:9} {len(found)} runs  median {np.median(size):.3f}  "
            f"mean {size.mean():.3f}  median of real runs {np.median(size[real]):.3f}  "
            f"mean of family medians {np.mean(by_family):.3f}"
        )
    yields = (ideal / observed)[real & (families != "llama1")]
    print(f"hours     run yield, median without llama1: {np.median(yields):.3f}")
