"""Residuals of published figures by constants that have not seen their source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from assay.array_types import Floats
from assay.catalog import accelerators, constants
from assay.errors import AssayError
from assay.model.inputs import Inputs
from assay.model.language.distributions import Z90
from assay.validate import intervals
from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.fitting.model_error_spreads import Residual, fit_spreads
from assay.validate.folds import folds
from assay.validate.model_error import with_spreads
from assay.validate.other_makers import is_of_other_maker
from assay.validate.points import GroupedPoints
from assay.validate.serving import predict as serving
from assay.validate.serving.deployments import Deployment, deployment_of
from assay.validate.sources import source_of
from assay.validate.training import evaluation as training, predict as training_rows
from assay.validate.training.jobs import Job
from assay.validate.training.kinds import LONG

TRAINING, SERVING = "training.model_error.", "serving.model_error."
OFFLINE = "offline"
STEP, PROMPT, FIRST_TOKEN, SERVER = (
    f":{SERVING}{name}" for name in ("step", "prompt", "first_token", "server")
)
"""Terms that a client's spreads are made of: a prompt has the error of a step and its own, and so
has a step under the load of a server."""
STEP_FIGURES = ("step_time", "throughput", "throughput_per_gpu", "end_to_end_time")


def log_widths(cases: Sequence[Inputs], output: str) -> Floats:
    """Standard deviation of the logarithm that each interval amounts to."""
    ends = intervals.intervals(cases, [output])[0]
    widths: Floats = np.log(ends[:, 1] / ends[:, 0]) / (2 * Z90)
    return widths


@cache
def seen_systems(kind: str, without: str = "") -> frozenset[str]:
    """Systems of the cases that entered a fit, less those of one source only."""
    fitted = {case for fold in folds(kind) for case in fold.cases}
    systems = set()
    for case in read_cases(published_cases()):
        if case.id not in fitted or source_of(case) == without:
            continue
        names = [case.inputs[n] for n in ("system", "gpu", "accelerator") if case.inputs.get(n)]
        for name in names:
            try:
                systems.add(training.calibration_of(str(name)))
            except AssayError:
                continue
            break
    return frozenset(systems)


def borrowing_spread(changes: Sequence[tuple[Case, float]]) -> float:
    """The spread that holds 90 % of changes of a prediction, by the root of a source's figures."""
    moved = [
        Residual(case.id, source_of(case), "borrowed", change, 0.0, {"borrowed": 1.0})
        for case, change in changes
        if math.isfinite(change)
    ]
    return fit_spreads(moved)["borrowed"]


def _has_own(system: str) -> bool:
    return system in constants.calibrated()


class TrainingResiduals:
    """Residuals of published steps."""

    def __init__(self, cases: Sequence[Case]) -> None:
        """Predict every job by constants that have not seen its source."""
        self.jobs, _ = training_rows.read_jobs(cases)
        held_out = training_rows.held_out_jobs(self.jobs)
        shipped = training.predict_jobs(self.jobs)
        self.predictions = [held_out.get(predicted.job.case.id, predicted) for predicted in shipped]
        fitted = {case for fold in folds("training") for case in fold.cases}
        timed = [
            predicted
            for predicted in shipped
            if predicted.job.case.id in fitted and not predicted.job.counts_gpus
        ]
        self.largest = max(
            predicted.gpus
            for predicted in timed
            if any(f.kind == "step" for f in training.figures(predicted))
        )

    def residuals(self) -> list[Residual]:
        """One a published step."""
        steps = [
            (predicted, math.log(figure.observed / predicted.values[training.STEP]))
            for predicted in self.predictions
            for figure in training.figures(predicted)
            if figure.kind == "step" and math.isfinite(predicted.values[training.STEP])
        ]
        inputs = [
            with_spreads(training_rows.inputs_left_out(predicted.job, predicted.layout), {})
            for predicted, _ in steps
        ]
        explained = log_widths(inputs, training.STEP)
        powers = {name: _elasticities(inputs, f"{TRAINING}{name}") for name in KINDS}
        return [
            self._residual(
                predicted,
                log,
                float(width),
                {name: float(own[row]) for name, own in powers.items()},
            )
            for row, ((predicted, log), width) in enumerate(zip(steps, explained, strict=True))
        ]

    def _residual(
        self,
        predicted: training.Predicted,
        log: float,
        explained: float,
        powers: Mapping[str, float],
    ) -> Residual:
        job, source = predicted.job, source_of(predicted.job.case)
        features = {f"{TRAINING}{name}": power for name, power in powers.items() if power > 0}
        level = _level(predicted)
        if training.calibration_of(job.system) not in seen_systems("training", source):
            features[f"{TRAINING}transfer"] = 1.0
        unstated = training.columns([job], [predicted.layout])[f"{TRAINING}unstated_inputs"][0]
        features[f"{TRAINING}unstated"] = math.log1p(float(unstated))
        features[f"{TRAINING}scale"] = max(math.log(predicted.gpus / self.largest), 0.0)
        return Residual(job.case.id, source, f"{TRAINING}{level}", log, explained, features)

    def borrowing(self) -> float:
        """What constants of another accelerator cost: by how much they move published steps.

        Every job on an accelerator with a calibration of its own is predicted once with each
        other accelerator's constants.
        """
        changes = []
        for lender in constants.calibrated():
            jobs = [job for job in self.jobs if _has_own(job.system) and job.system != lender]
            lent = training.predict_jobs(jobs, _lent_columns(lender, jobs))
            changes += [
                (own.job.case, math.log(other.values[training.STEP] / own.values[training.STEP]))
                for own, other in zip(training.predict_jobs(jobs), lent, strict=True)
            ]
        return borrowing_spread(changes)


KINDS = ("fit", "sharded", "attention", "mixed", "experts")
"""Errors of a step, or of a part of it, whose powers follow from the graph."""


def _elasticities(inputs: Sequence[Inputs], name: str) -> Floats:
    """Relative change of a step for one of an error: 1, or the share of the part that it is of."""
    logs = []
    for shift in (1.0, math.exp(_SHIFT)):
        points = GroupedPoints([{**given.values, name: shift} for given in inputs])
        logs.append(np.log(points.evaluate([training.STEP])[training.STEP]))
    powers: Floats = np.maximum(np.round((logs[1] - logs[0]) / _SHIFT, 6), 0.0)
    return powers


_SHIFT = 1e-3


def _level(predicted: training.Predicted) -> str:
    """The term that is set by residuals of such jobs: the last that is true of it."""
    values, layout = predicted.job.values, predicted.layout
    splits = layout["parallelism.tensor"] * values.get("parallelism.context", 1.0)
    kinds = {
        # What sharding adds to a step is an error of its exchanges, which the others leave.
        "fit": True,
        "attention": values["architecture.sequence"] >= LONG,
        "mixed": layout["parallelism.zero_stage"] > 1.5 and splits > 1.5,
        "experts": values.get("architecture.experts", 0) > 0,
    }
    return [name for name, holds in kinds.items() if holds][-1]


def _lent_columns(system: str, jobs: Sequence[Job]) -> dict[str, Floats]:
    """All fitted constants of one accelerator, for jobs on others."""
    lent = constants.given(system)
    stated = set().union(*(job.values for job in jobs))
    names = [name for name in training.inputs() if name in lent and name not in stated]
    return {name: np.full(len(jobs), lent[name]) for name in names}


class ServingResiduals:
    """Residuals of published serving figures."""

    def __init__(self, cases: Sequence[Case]) -> None:
        """Read the deployments of the cases that can be predicted."""
        self.cases = [case for case in cases if not is_of_other_maker(case)]
        self.deployments: dict[str, Deployment] = {}
        for case in self.cases:
            try:
                self.deployments[case.id] = deployment_of(case)
            except AssayError as error:
                print(f"gap  {case.id}: {error.message}")

    def residuals(self) -> list[Residual]:
        """One a published figure that can be predicted."""
        rows = {(row.case, row.quantity): row for row in serving.predict(self.cases)}
        residuals = []
        for deployment in self.deployments.values():
            for figure in deployment.figures:
                row = rows[deployment.case.id, figure.quantity]
                if row.held_out_error is None:
                    continue
                log = -math.log1p(row.held_out_error)
                features, level = _features(deployment, figure.variable)
                source = source_of(deployment.case)
                residuals.append(
                    (
                        figure.variable,
                        Residual(deployment.case.id, source, level, log, 0.0, features),
                    )
                )
        return self._explained(residuals, {})

    def _explained(
        self, residuals: Sequence[tuple[str, Residual]], spreads: Mapping[str, float]
    ) -> list[Residual]:
        """Residuals with what the constants explain of them, and some spreads."""
        result = []
        for variable in dict.fromkeys(name for name, _ in residuals):
            own = [residual for name, residual in residuals if name == variable]
            inputs = [
                with_spreads(
                    serving.inputs_left_out(
                        self.deployments[residual.case], variable in serving.PROMPT_FIGURES
                    ),
                    spreads,
                )
                for residual in own
            ]
            widths = log_widths(inputs, f"serving.{variable}")
            result += [
                replace(residual, explained=float(width))
                for residual, width in zip(own, widths, strict=True)
            ]
        return result

    def with_parts(
        self, first_tokens: Sequence[Residual], spreads: Mapping[str, float]
    ) -> list[Residual]:
        """First tokens of servers, of which errors of prompts and steps explain a part."""
        parts = client_spreads(spreads, is_server=True)
        del parts[f"{SERVING}first_token"]
        return self._explained(
            [("time_to_first_token", residual) for residual in first_tokens], parts
        )

    def borrowing(self) -> float:
        """The same as in training, of steps and first tokens."""
        changes = []
        own = [
            deployment for deployment in self.deployments.values() if _has_own(deployment.system)
        ]
        names = ("serving.step_time", "serving.time_to_first_token")
        for lender in constants.calibrated():
            chosen = [deployment for deployment in own if deployment.system != lender]
            here = [serving.values_of(deployment) for deployment in chosen]
            there = [
                _lent_values(lender, deployment, v)
                for deployment, v in zip(chosen, here, strict=True)
            ]
            before, after = (GroupedPoints(points).evaluate(names) for points in (here, there))
            for name in names:
                moved = np.log(after[name] / before[name])
                changes += list(
                    zip([deployment.case for deployment in chosen], moved.tolist(), strict=True)
                )
        return borrowing_spread(changes)


def _lent_values(
    lender: str, deployment: Deployment, values: Mapping[str, float]
) -> dict[str, float]:
    stated = accelerators.find(deployment.system).given
    lent = {
        name: value
        for name, value in constants.given(lender).items()
        if name in values and name not in stated and name not in deployment.values
    }
    return {**values, **lent}


def client_spreads(spreads: Mapping[str, float], *, is_server: bool) -> dict[str, float]:
    """Spreads of a step, a prompt and a first token for a client with or without a server."""
    step, prompt, token, server = (
        spreads.get(name, 0.0) for name in (STEP, PROMPT, FIRST_TOKEN, SERVER)
    )
    return {
        f"{SERVING}step": math.hypot(step, server) if is_server else step,
        f"{SERVING}prompt": math.hypot(step, prompt),
        f"{SERVING}first_token": token if is_server else 0.0,
    }


def _features(deployment: Deployment, variable: str) -> tuple[dict[str, float], str]:
    is_server = deployment.client != OFFLINE
    level = STEP if variable in STEP_FIGURES else PROMPT
    features = {STEP: 1.0, level: 1.0}
    if is_server and level == STEP:
        features[SERVER] = 1.0
    if is_server and variable == "time_to_first_token":
        # Errors of steps and prompts are part of what is explained: see `with_parts`.
        level, features = FIRST_TOKEN, {FIRST_TOKEN: 1.0}
    values = serving.values_of(deployment)
    has_experts = values.get("architecture.experts", 0) > 0
    if has_experts:
        features[f"{SERVING}experts"] = 1.0
    if values["serving.expert_bytes" if has_experts else "serving.weight_bytes"] < 1:
        features[f"{SERVING}narrow"] = 1.0
    seen = seen_systems("serving", source_of(deployment.case))
    if serving.calibration_of(deployment.system) not in seen:
        features[f"{SERVING}transfer"] = 1.0
    features[f"{SERVING}unstated"] = math.log1p(values[f"{SERVING}unstated_inputs"])
    return features, level
