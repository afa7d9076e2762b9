"""Fit the training constants and print every figure of the design page.

PYTHONPATH=scripts python -m prediction.fit_training published_cases.json [--write FILE] [--without ...]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prediction import fitting
from prediction.accelerators import ACCELERATORS, Constants
from prediction.fitting import Prior, Vector
from prediction.gpu_hours import print_gpu_hours
from prediction.training_cases import RUN_YIELD, Case, load, step_cases
from prediction.training_model import Job, memory, parameters, step_time

PRIORS: list[tuple[str, Prior]] = [
    ("rate16", Prior(0.86, 0.07, "sustained share of the 16-bit tensor peak", "A100")),
    ("rate16", Prior(0.76, 0.10, "sustained share of the 16-bit tensor peak", "H100")),
    ("rate8", Prior(0.63, 0.15, "sustained share of the 8-bit tensor peak", "H100")),
    ("attention_flash1", Prior(0.40, 0.10, "first flash kernels, share of peak", "A100")),
    ("attention_flash1", Prior(0.25, 0.12, "first flash kernels, share of peak", "H100")),
    ("attention_fused", Prior(0.65, 0.10, "present fused attention, share of peak", "A100")),
    ("attention_fused", Prior(0.55, 0.10, "present fused attention, share of peak", "H100")),
    ("bandwidth", Prior(0.85, 0.08, "streaming share of memory bandwidth", "A100")),
    ("bandwidth", Prior(0.85, 0.08, "streaming share of memory bandwidth", "H100")),
    ("link", Prior(0.75, 0.15, "collective share of NVLink bandwidth", "A100")),
    ("link", Prior(0.75, 0.15, "collective share of NVLink bandwidth", "H100")),
    ("tile_start", Prior(1e-6, 0.5, "seconds to start and drain one wave of tiles")),
    ("launch", Prior(3e-6, 0.3, "seconds from one kernel to the next")),
    ("tile_edge", Prior(0.2, 0.5, "loss of a tile by its edge over its area", limit=1)),
    ("attention_backward", Prior(0.8, 0.15, "rate of backward attention over forward")),
    ("link_latency", Prior(2e-6, 0.5, "seconds per step of a ring inside a node")),
    ("network", Prior(0.8, 0.1, "collective share of the adapters' line rate")),
    ("broadcast", Prior(0.8, 0.15, "broadcast share of one adapter's line rate")),
    ("ring_latency", Prior(4e-6, 0.5, "exposed seconds per rank of a sharded collective")),
    ("overlap", Prior(0.8, 0.15, "share of busy time that communication can hide in", limit=1)),
    ("tensor_overlap", Prior(0.6, 0.3, "share of tensor-parallel traffic hidden", limit=1)),
    ("immaturity", Prior(0.2, 0.5, "rate that libraries lack at an accelerator's launch")),
    ("contention", Prior(0.3, 0.5, "cost of hidden communication to the kernels it runs beside")),
    ("gpu_spread", Prior(0.01, 0.7, "relative spread of GPU speeds; the slowest sets the pace")),
    ("step_start", Prior(0.02, 0.7, "seconds a step costs whatever its size")),
]
SCALE = 0.05


def constants(point: Vector, without: str = "") -> dict[str, Constants]:
    """The constants of every accelerator at a point of the fit, one of them taken as zero."""
    found = {}
    for name, device in ACCELERATORS.items():
        family = "A100" if device.family == "A100" else "H100"
        found[name] = {"rate8": 0.8, **fitting.constants(PRIORS, point, family)}
        if without:
            found[name][without] = 0.0
    return found


def cost(table: dict[str, Constants], case: Case, job: Job) -> float:
    """Seconds of a step, or GPU-seconds where only those are published."""
    return step_time(table[job.accelerator], job) * (job.gpus if case.counts_gpus else 1)


def tuned(point: Vector, cases: Sequence[Case], without: str = "") -> list[Job]:
    """For each case the fastest job that fits in memory."""
    table = constants(point, without)
    chosen = []
    for case in cases:
        fitting_jobs = [job for job in case.jobs if memory(job) < job.device.capacity]
        jobs = fitting_jobs or [min(case.jobs, key=memory)]
        chosen.append(min(jobs, key=lambda job: cost(table, case, job)))
    return chosen


def predict(point: Vector, cases: Sequence[Case], jobs: Sequence[Job], without: str = "") -> Vector:
    """Predicted seconds of each case."""
    table = constants(point, without)
    pairs = zip(cases, jobs, strict=True)
    return np.array([cost(table, case, job) for case, job in pairs])


def fit(cases: Sequence[Case], without: str = "") -> Vector:
    """Constants fitted with every suite weighing the same, in two rounds of tuning."""
    suites = [case.suite for case in cases]
    weights = np.array([suites.count(suite) ** -0.5 for suite in suites])
    weights *= np.sqrt(60 / (weights**2).sum())
    observed = np.log([case.observed for case in cases])
    point = fitting.starting_point(PRIORS)
    for _ in range(2):
        jobs = tuned(point, cases, without)

        def ratios(at: Vector, jobs: list[Job] = jobs) -> Vector:
            logs: Vector = np.log(predict(at, cases, jobs, without)) - observed
            return logs

        point = fitting.fit(PRIORS, ratios, weights, SCALE, point)
    return point


def errors(point: Vector, cases: Sequence[Case], without: str = "") -> Vector:
    """Predicted over observed, less one."""
    predicted = predict(point, cases, tuned(point, cases, without), without)
    ratios: Vector = predicted / [case.observed for case in cases] - 1
    return ratios


def by_suite(cases: Sequence[Case], values: Vector) -> dict[str, Vector]:
    """Values grouped by suite, in order of appearance."""
    names = [case.suite for case in cases]
    return {name: values[[n == name for n in names]] for name in dict.fromkeys(names)}


def macro(cases: Sequence[Case], values: Vector) -> float:
    """Mean over suites of the mean absolute error."""
    return float(np.mean([np.abs(group).mean() for group in by_suite(cases, values).values()]))


def rule_seconds(case: Case, efficiency: float) -> float:
    """Six FLOPs a parameter and token at a constant share of peak."""
    job = case.jobs[0]
    flops = 6 * parameters(job) * job.batch * job.sequence
    per_gpu = flops / (1 if case.counts_gpus else job.gpus)
    # A rule knows nothing of what a run loses, so it is held to the published hours.
    share = RUN_YIELD if case.counts_gpus else 1.0
    return share * per_gpu / (efficiency * job.device.peak[job.bits])


def constant_efficiency(train: Sequence[Case], test: Sequence[Case]) -> Vector:
    """Errors of the median efficiency by accelerator family and precision."""
    seen: dict[tuple[str, int], list[float]] = {}
    for case in train:
        job = case.jobs[0]
        share = rule_seconds(case, 1.0) / case.observed
        seen.setdefault((job.device.family, job.bits), []).append(share)
    everything = [share for shares in seen.values() for share in shares]
    found = []
    for case in test:
        job = case.jobs[0]
        share = float(np.median(seen.get((job.device.family, job.bits), everything)))
        found.append(rule_seconds(case, share) / case.observed - 1)
    return np.array(found)


def print_suites(label: str, cases: Sequence[Case], values: Vector) -> None:
    """One line a suite, then the mean over suites."""
    for suite, group in by_suite(cases, values).items():
        size = np.abs(group)
        row = (suite, len(group), size.mean(), np.median(size), np.quantile(size, 0.9))
        print(f"{label:9} %-16s %4d  mape %.3f  median %.3f  p90 %.3f" % row)
    print(f"{label:9} mean over suites {macro(cases, values):.3f}", flush=True)


def print_baselines(cases: Sequence[Case]) -> None:
    """What one line predicts."""
    print_suites("constant", cases, constant_efficiency(cases, cases))
    for label, share in (("6ND/0.4", 0.4), ("roofline", 1.0)):
        ratios = [rule_seconds(case, share) / case.observed - 1 for case in cases]
        print_suites(label, cases, np.array(ratios))


def leave_one_out(cases: Sequence[Case]) -> dict[str, Vector]:
    """Fit without each suite in turn, print its errors, and return the fitted points."""
    points, held, plain, inside = {}, [], [], []
    order: list[Case] = []
    for suite in dict.fromkeys(case.suite for case in cases):
        train = [case for case in cases if case.suite != suite]
        test = [case for case in cases if case.suite == suite]
        points[suite] = fit(train)
        seen = by_suite(train, np.log1p(errors(points[suite], train)))
        spread = float(np.sqrt(np.mean([np.mean(group**2) for group in seen.values()])))
        missed = errors(points[suite], test)
        inside.append(float(np.mean(np.abs(np.log1p(missed)) <= 1.645 * spread)))
        print(f"interval  {suite:16} +-{1.645 * spread:.3f} covers {inside[-1]:.2f}")
        held.append(missed)
        plain.append(constant_efficiency(train, test))
        order += test
    print_suites("held out", order, np.concatenate(held))
    print_suites("constant held out", order, np.concatenate(plain))
    sizes = [len(group) for group in held]
    print(
        f"interval  pooled {np.average(inside, weights=sizes):.3f}, by suite {np.mean(inside):.3f}"
    )
    return points


def main() -> None:
    """Read the cases, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--write", type=Path, help="write the constants to this file")
    parser.add_argument("--without", nargs="*", default=[], help="refit with these constants zero")
    options = parser.parse_args()
    everything = load(options.cases)
    cases = step_cases(everything)
    for name in options.without:
        print_suites(f"no {name}", cases, errors(fit(cases, name), cases, name))
    if options.without:
        return
    prior = fitting.starting_point(PRIORS)
    print_suites("prior", cases, errors(prior, cases))
    point = fit(cases)
    print_suites("fitted", cases, errors(point, cases))
    unseen = [case for case in step_cases(everything, "B") if not case.counts_gpus]
    print_suites("tier B", unseen, errors(point, unseen))
    for (name, belief), value in zip(PRIORS, np.exp(point), strict=True):
        print(f"constant  {name:18} {belief.family:5} {value:.4g} (prior {belief.value:.4g})")
    print_baselines(cases)
    points = leave_one_out(cases)
    print_gpu_hours(everything, lambda suite: constants(points.get(suite, point)))
    if options.write:
        options.write.write_text(document(point, cases))


def document(point: Vector, cases: Sequence[Case]) -> str:
    """The fitted constants with their provenance, as JSON."""
    rows = [
        {"name": name, "family": belief.family, "value": float(f"{value:.6g}"),
         "prior": belief.value, "prior_log_spread": belief.spread, "meaning": belief.meaning}
        for (name, belief), value in zip(PRIORS, np.exp(point), strict=True)
    ]  # fmt: skip
    counts = {suite: len(group) for suite, group in by_suite(cases, errors(point, cases)).items()}
    provenance = {
        "kind": "fitted",
        "method": "most probable constants, log residuals, scale 0.05, suites weigh the same",
        "command": "python -m prediction.fit_training",
        "tier": "A",
        "cases": counts,
    }
    return json.dumps({"provenance": provenance, "constants": rows}, indent=1) + "\n"


if __name__ == "__main__":
    main()
