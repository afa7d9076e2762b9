"""Fit the spread of the model error, so that 90 % intervals hold 90 % of held-out figures.

    PYTHONPATH=python:scripts python scripts/fit_model_error.py [--write]

Run after `fit_training.py` or `fit_serving.py`. What the covariance of fitted constants explains of
the held-out errors is taken off first; the rest is the model error. Suites weigh the same.
docs/design/model-error.md has the method and the figures.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import catalog, json_records
from assay.catalog import constants
from assay.errors import AssayError, InputError
from assay.model.inputs import Inputs
from assay.model.language.distributions import Z90, Distribution
from assay.validate import intervals
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.folds import folds_by_case
from assay.validate.serving import measured_rows
from assay.validate.serving import predict as serving
from assay.validate.serving.deployments import Deployment, ObservedFigure, deployment_of
from assay.validate.training import evaluation as training
from assay.validate.training import predict as training_rows
from assay.validate.training.jobs import Job

Array = NDArray[np.float64]
Spreads = dict[str, float]

FOLDER = Path(catalog.__file__).parent / "calibration"
COVERAGE = 0.9
SEEN = {"training": ("a100_sxm", "h100_sxm", "h200_sxm"), "serving": ("h100_sxm", "h200_sxm")}
"""Systems of the fits; the H200 has the same processor as the H100."""
SWAPPED = {"a100_sxm": "h100_sxm", "h100_sxm": "a100_sxm"}
UNSEEN = ("b200_sxm", "b300_sxm")
SERVERS = ("closed_loop", "inferencex")
STEP_FIGURES = ("step_time", "throughput", "throughput_per_gpu", "end_to_end_time")


@dataclass(frozen=True)
class Miss:
    """By how much a held-out figure is missed: logarithm, suite, and what the constants explain."""

    suite: str
    log: float
    explained: float

    def rest(self, known: float = 0.0) -> float:
        """The spread of the model error at which the figure is just inside its interval."""
        return math.sqrt(max((self.log / Z90) ** 2 - self.explained**2 - known**2, 0.0))


def spread_of(misses: Sequence[Miss], known: float = 0.0) -> float:
    """The spread at which 90 % of the figures are inside, each suite with the same weight."""
    suites = [miss.suite for miss in misses]
    weights = np.array([1 / suites.count(suite) for suite in suites])
    rest = np.array([miss.rest(known) for miss in misses])
    order = np.argsort(rest)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(rest[order][np.searchsorted(reached, COVERAGE)])


def without(inputs: Inputs, ending: str) -> Inputs:
    """Inputs with the model error at 1."""
    kept = {n: d for n, d in inputs.distributions.items() if ending not in n}
    pairs = {p: v for p, v in inputs.correlations.items() if set(p) <= kept.keys()}
    return replace(inputs, distributions=kept, correlations=pairs)


def log_widths(cases: Sequence[Inputs], output: str) -> Array:
    """Half of the logarithmic width of each interval."""
    ends = intervals.intervals(cases, [output])[0]
    widths: Array = np.log(ends[:, 1] / ends[:, 0]) / 2
    return widths


def training_misses(
    found: Sequence[training.Predicted], held_out: Mapping[str, training.Predicted]
) -> list[tuple[training.Predicted, Miss]]:
    """Every published step with its held-out error."""
    steps = []
    for predicted in found:
        for figure in training.figures(predicted):
            if figure.kind == "step":
                value = held_out.get(predicted.job.case.id, predicted).values[training.STEP]
                steps.append((predicted, math.log(figure.observed / value)))
    inputs = [without(training.inputs_at(p.job, p.layout), "model_error.") for p, _ in steps]
    explained = log_widths(inputs, training.STEP) / Z90
    return [
        (predicted, Miss(predicted.job.case.suite, log, float(width)))
        for (predicted, log), width in zip(steps, explained, strict=True)
    ]


def fit_training(cases: Sequence[Case]) -> dict[str, float]:
    """Spread of steps like those of the fit, of other accelerators, and by scale."""
    jobs, _ = training_rows.read_jobs(cases)
    misses = training_misses(training.predict_jobs(jobs), training_rows.held_out_jobs(jobs))
    fitted = folds_by_case("training")
    largest = max(p.gpus for p, _ in misses if p.job.case.id in fitted)
    seen = [m for p, m in misses if p.gpus <= largest and _is_seen(p.job)]
    spread = spread_of(seen)
    swapped = training_misses(training.predict_jobs(jobs, _swapped_constants(jobs)), {})
    across = [m for p, m in swapped if p.gpus <= largest and _is_seen(p.job)]
    beyond = [(p, m) for p, m in misses if p.gpus > largest and _is_seen(p.job)]
    squares = [
        max(m.log**2 - m.explained**2 - spread**2, 0.0) / math.log(p.gpus / largest) ** 2
        for p, m in beyond
    ]
    return {
        "fit": spread,
        "transfer": spread_of(across, spread),
        "scale": math.sqrt(float(np.mean(squares))),
        "fitted_gpus": largest,
    }


def _is_seen(job: Job) -> bool:
    return training.calibration_of(job.system) in SEEN["training"]


def _swapped_constants(jobs: Sequence[Job]) -> dict[str, Array]:
    """Constants of the other generation for every job on an A100 or H100."""
    systems = [training.calibration_of(job.system) for job in jobs]
    given = [constants.given(SWAPPED.get(system, system)) for system in systems]
    names = [name for name in training.inputs() if all(name in values for values in given)]
    return {name: np.array([values[name] for values in given]) for name in names}


@dataclass(frozen=True)
class Served:
    """A figure of a deployment, and the logarithm of observed over held-out prediction."""

    deployment: Deployment
    figure: ObservedFigure
    log: float

    def inputs(self, spreads: Mapping[str, float]) -> Inputs:
        """All inputs, with some spreads of the model error."""
        is_prompt = self.figure.variable in serving.PROMPT_FIGURES
        inputs = without(serving.inputs_at(self.deployment, is_prompt), "model_error.")
        errors = {
            f"serving.model_error.{part}": Distribution("lognormal", (1.0, spread))
            for part, spread in spreads.items()
            if spread > 0
        }
        return replace(inputs, distributions={**inputs.distributions, **errors})


def served_figures(cases: Sequence[Case]) -> list[Served]:
    """Every predicted figure with its held-out error."""
    rows = {(row.case, row.quantity): row for row in serving.predict(cases) if row.predicted}
    found = []
    for case in cases:
        try:
            deployment = deployment_of(case)
        except AssayError:
            continue
        for figure in deployment.figures:
            row = rows.get((case.id, figure.quantity))
            if row is not None and row.held_out_error is not None:
                found.append(Served(deployment, figure, -math.log1p(row.held_out_error)))
    return found


def widths_of(figures: Sequence[Served], spreads: Mapping[str, float]) -> Array:
    """Half of the logarithmic width of each figure's interval."""
    found = np.empty(len(figures))
    for variable in dict.fromkeys(one.figure.variable for one in figures):
        rows = [row for row, one in enumerate(figures) if one.figure.variable == variable]
        inputs = [figures[row].inputs(spreads) for row in rows]
        found[rows] = log_widths(inputs, f"serving.{variable}")
    return found


def fit_offline(figures: Sequence[Served]) -> dict[str, float]:
    """Spreads at which 90 % of the held-out figures of offline clients are inside."""
    own = [one for one in figures if one.deployment.client == "offline"]
    found: dict[str, float] = {}
    for part, variables in (("step", STEP_FIGURES), ("prompt", serving.PROMPT_FIGURES)):
        same = [one for one in own if one.figure.variable in variables]
        explained = widths_of(same, found) / Z90
        found[part] = spread_of(
            [
                Miss(one.deployment.case.suite, one.log, float(width))
                for one, width in zip(same, explained, strict=True)
            ]
        )
    return found


def fit_servers(figures: Sequence[Served], recorded: Mapping[str, Any], prompt: float) -> Spreads:
    """Spreads at which intervals are as wide as nine in ten held-out rows are missed by.

    `fit_serving.py` records these misses over 1,900 rows of the tables. Prefill is as uncertain as
    that of offline clients; how requests arrive and wait is a term of its own.
    """
    own = [one for one in figures if one.deployment.client in SERVERS]
    found = {"prompt": prompt}
    for part, variable in (("step", "step_time"), ("first_token", "time_to_first_token")):
        same = [one for one in own if one.figure.variable == variable]
        explained = float(np.median(widths_of(same, found)))
        missed = float(recorded[variable]["value"])
        found[part] = math.sqrt(max(missed**2 - explained**2, 0.0)) / Z90
    return found


def serving_transfer() -> float:
    """Further spread of steps on systems that no serving fit has seen, from the tables' rows."""
    rows = measured_rows.read_rows(measured_rows.rows_file(), (*SEEN["serving"], *UNSEEN))
    found = [deployment_of(row) for row in rows]
    steps = serving.points_of(found).evaluate(["serving.step_time"])["serving.step_time"]
    observed = np.array([row.observed["tpot_ms"] for row in rows]) / 1e3
    size = np.abs(np.log(observed / steps))
    unseen = np.array([d.system in UNSEEN for d in found])
    far, near = (float(np.quantile(size[mask], COVERAGE)) / Z90 for mask in (unseen, ~unseen))
    return math.sqrt(max(far**2 - near**2, 0.0))


def _error(spread: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"value": 1.0, "unit": "1", "kind": "model error"}
    if spread == 0:
        return entry
    return {**entry, "log_standard_error": float(f"{spread:.3g}")}


def write(steps: Mapping[str, float], clients: Mapping[str, Mapping[str, float]]) -> None:
    """Write the spreads: by system, and by client of a serving engine."""
    common = {
        "training.model_error.fit": _error(steps["fit"]),
        "training.model_error.transfer": _error(steps["transfer"]),
        "training.model_error.scale": _error(steps["scale"]),
        "training.model_error.fitted_gpus": {"value": steps["fitted_gpus"], "unit": "GPU"},
        "serving.model_error.transfer": _error(steps["serving_transfer"]),
    }
    _file("model_error.json", constants.COMMON, common)
    certain = {"value": 1.0, "unit": "1", "kind": "model error", "own_only": True}
    for system in sorted({name for names in SEEN.values() for name in names}):
        own = {
            f"{scope}.model_error.transfer": certain
            for scope, names in SEEN.items()
            if system in names
        }
        _file(f"model_error_{system}.json", system, own)
    path = FOLDER / "engines.json"
    data = json.loads(path.read_text())
    for client, spreads in clients.items():
        for part, spread in spreads.items():
            data["clients"][client][f"serving.model_error.{part}"] = _error(spread)
    path.write_text(json_records.dumps(data, depth=4) + "\n")


def _file(name: str, system: str, entries: Mapping[str, Any]) -> None:
    document = {
        "system": system,
        "provenance": {
            "kind": "fitted",
            "date": datetime.date.today().isoformat(),
            "command": "python scripts/fit_model_error.py --write",
            "method": "90 % of held-out figures inside their interval, suites weigh the same",
        },
        "constants": entries,
    }
    (FOLDER / name).write_text(json_records.dumps(document, depth=3) + "\n")


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the calibration files")
    options = parser.parse_args()
    cases = read_cases(published_cases())
    known = json.loads((FOLDER / "engines.json").read_text())
    steps = fit_training([case for case in cases if case.kind == "training"])
    before = json.loads((FOLDER / "model_error.json").read_text())["constants"]
    try:
        steps["serving_transfer"] = serving_transfer()
    except InputError as error:
        print(f"serving transfer kept: {error.message}")
        kept = before["serving.model_error.transfer"]["log_standard_error"]
        steps["serving_transfer"] = float(kept)
    figures = served_figures([case for case in cases if case.kind == "inference"])
    offline = fit_offline(figures)
    servers = fit_servers(figures, known["intervals"], offline["prompt"])
    clients = {"offline": {**offline, "first_token": 0.0}, **dict.fromkeys(SERVERS, servers)}
    print({name: round(value, 4) for name, value in steps.items()})
    print({client: {p: round(v, 4) for p, v in parts.items()} for client, parts in clients.items()})
    if options.write:
        write(steps, clients)


if __name__ == "__main__":
    main()
