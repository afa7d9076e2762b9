"""GPU-hours of published runs: each family predicted with constants and yield of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from assay.array_types import Floats
from assay.validate.cases import Case
from assay.validate.sources import source_of
from assay.validate.training import evaluation as training
from assay.validate.training.jobs import Job, read_job
from assay.validate.training.shapes import NotPredictable

_MODELS = ("opt", "bloom")
_HOUR = 3600.0
FAILURES_ALONE = 0.97
"""Yield of a run on 2,048 GPUs that loses time to failures only.

Llama 3, Table 5: 419 unexpected interruptions in 54 days of 16,384 GPUs, one a day for 2,048; each
costs about 40 minutes to restart and to repeat.
"""


@dataclass(frozen=True)
class Run:
    """A published run, or hours that its authors extrapolated from a measured step."""

    job: Job
    family: str
    hours: float
    tokens: float
    is_extrapolated: bool

    @property
    def source(self) -> str:
        """Where the run was published."""
        return source_of(self.job.case)


def readable_jobs(cases: Sequence[Case], tiers: str) -> list[Job]:
    """The jobs of some tiers' cases, without those that no prediction can be made of."""
    jobs = []
    for case in cases:
        if case.tier in tiers:
            with suppress(NotPredictable):
                jobs.append(read_job(case, cases))
    return jobs


def runs(cases: Sequence[Case], tiers: str = "AB") -> list[Run]:
    """The runs of some tiers that state GPU-hours or days."""
    stated = []
    for predicted in training.predict_jobs(readable_jobs(cases, tiers)):
        for figure in training.figures(predicted):
            tokens = figure.tokens or predicted.job.total_tokens
            if figure.quantity in ("gpu_hours", "ideal_gpu_hours") and tokens:
                is_extrapolated = figure.kind == "ideal hours"
                job = predicted.job
                stated.append(Run(job, family(job.case), figure.observed, tokens, is_extrapolated))
    return stated


def family(case: Case) -> str:
    """Runs of one team and software: the model named in the id, or the suite."""
    end = case.id.lower().split("-")
    return next((name for name in _MODELS if name in end), case.suite)


def ideal_hours(
    runs: Sequence[Run], override: Callable[[Sequence[Job]], dict[str, Floats]]
) -> Floats:
    """GPU-hours at a run yield of one."""
    jobs = [run.job for run in runs]
    predicted = training.predict_jobs(jobs, override(jobs))
    return np.array(
        [
            p.values[training.STEP] * p.gpus * run.tokens / p.tokens / _HOUR
            for p, run in zip(predicted, runs, strict=True)
        ]
    )


def yields(runs: Sequence[Run], ideal: Floats) -> tuple[float, float]:
    """Median run yield over families, and its logarithmic spread."""
    logs: dict[str, list[float]] = {}
    for run, hours in zip(runs, ideal, strict=True):
        if not run.is_extrapolated:
            logs.setdefault(run.family, []).append(float(np.log(hours / run.hours)))
    medians = np.array([np.median(group) for group in logs.values()])
    middle = float(np.median(medians))
    everything = np.concatenate([np.array(group) - middle for group in logs.values()])
    # Heavy tails: the spread is chosen so that the 90 % interval covers 90 % of the runs.
    return float(np.exp(middle)), float(np.quantile(np.abs(everything), 0.9) / 1.645)


def yield_without(source: str, runs: Sequence[Run], ideal: Floats) -> float:
    """The yield of all runs but those of one source, and of families that it shares."""
    families = {run.family for run in runs if run.source == source}
    others = [
        (run, hours)
        for run, hours in zip(runs, ideal, strict=True)
        if run.source != source and run.family not in families
    ]
    return yields([run for run, _ in others], np.array([hours for _, hours in others]))[0]


def report(runs: Sequence[Run], ideal: Callable[[str], Floats]) -> None:
    """Print every run and the medians; `ideal` gives hours by constants without a source."""
    families = list(dict.fromkeys(run.family for run in runs))
    errors, rules, alone = [], [], []
    for name in dict.fromkeys(run.source for run in runs):
        hours = ideal(name)
        share = yield_without(name, runs, hours)
        for run, value in zip(runs, hours, strict=True):
            if run.source != name:
                continue
            predicted = value if run.is_extrapolated else value / share
            errors.append((run, predicted / run.hours - 1))
            rules.append(_rule(run) / run.hours - 1)
            failing = value if run.is_extrapolated else value / FAILURES_ALONE
            alone.append(failing / run.hours - 1)
            print(
                f"hours     {run.job.case.id:36} {run.hours:11.0f} {predicted / run.hours - 1:+.3f}"
            )
    model = [error for _, error in errors]
    for label, values in (("model", model), ("failures", alone), ("6ND/0.4", rules)):
        size = np.abs(values)
        names = np.array([run.family for run, _ in errors])
        by_family = [np.median(size[names == name]) for name in families]
        real = np.array([not run.is_extrapolated for run, _ in errors])
        print(
            f"hours     {label:8} {len(size)} runs  median {np.median(size):.3f}  mean {size.mean():.3f}"
            f"  median of real runs {np.median(size[real]):.3f}"
            f"  mean of family medians {np.mean(by_family):.3f}"
        )


def _rule(run: Run) -> float:
    predicted = training.predict_jobs([run.job])[0]
    flops = 6 * predicted.values["architecture.active_parameters"] * run.tokens
    peak = predicted.values["training.tensor_peak"] / predicted.gpus
    return flops / (0.4 * peak * _HOUR)
