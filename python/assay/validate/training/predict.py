"""Training cases: step time, GPU-hours, memory and FLOPs against published figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from statistics import median

import numpy as np

from assay.catalog import constants
from assay.errors import AssayError
from assay.model.inputs import Inputs
from assay.validate import groups, intervals as sampled
from assay.validate.cases import Case
from assay.validate.folds import Fold, fold_of, folds_by_case
from assay.validate.model_error import spreads_without_source, with_constants, with_spreads
from assay.validate.score import Row
from assay.validate.training.evaluation import (
    STEP,
    TERMS,
    Predicted,
    calibration_of,
    columns,
    evaluate,
    figures,
    inputs_at,
    predict_jobs,
)
from assay.validate.training.figures import UNPREDICTED, ObservedFigure
from assay.validate.training.jobs import Job, read_job
from assay.validate.training.kinds import kind_of
from assay.validate.training.shapes import NotPredictable

SHARE_OF_RULE = 0.4
COUNTED_SPREAD = 0.033
"""Half-width of the interval of memory and FLOPs, which are counted, not fitted."""

_HOUR = 3600.0
_GIB = 2.0**30
_HOURS = ("hours", "ideal hours")


def predict(cases: Sequence[Case]) -> list[Row]:
    """One row for every figure of every case, or the reason why there is none."""
    jobs, rows = read_jobs(cases)
    predictions = predict_jobs(jobs)
    held_out = held_out_jobs(jobs)
    shares = _shares(predictions)
    ends = _intervals(predictions)
    ends_left_out = _intervals_left_out(predictions, held_out)
    for predicted in predictions:
        known = figures(predicted)
        if missing := _missing(predicted):
            rows += _gaps(predicted.job.case, f"nothing known of {', '.join(missing)}")
        elif known:
            without = held_out.get(predicted.job.case.id)
            rows += [
                _row(predicted, figure, shares, without, ends, ends_left_out) for figure in known
            ]
        else:
            rows += _gaps(predicted.job.case, "states no time, hours, memory or operations")
        rows += [
            Row(predicted.job.case.id, predicted.job.case.suite, name, "", float(value), None,
                gap=UNPREDICTED[name])
            for name, value in predicted.job.case.observed.items()
            if name in UNPREDICTED
        ]  # fmt: skip
    order = {case.id: position for position, case in enumerate(cases)}
    return sorted(rows, key=lambda row: order[row.case])


def read_jobs(cases: Sequence[Case]) -> tuple[list[Job], list[Row]]:
    """The cases that can be read, and a row with the reason for each that cannot."""
    jobs: list[Job] = []
    rows: list[Row] = []
    for case in cases:
        try:
            jobs.append(read_job(case, cases))
        except NotPredictable as reason:
            rows += _gaps(case, str(reason))
        except AssayError as error:
            rows += _gaps(case, error.message)
        except (KeyError, TypeError, ValueError) as error:
            rows += _gaps(case, f"a field cannot be read: {error}")
    return jobs, rows


def _missing(predicted: Predicted) -> list[str]:
    """Inputs without a value, where that left the step without one."""
    if math.isfinite(predicted.values[STEP]):
        return []
    table = columns([predicted.job], [predicted.layout])
    return [name for name, column in table.items() if not math.isfinite(column[0])] or ["its step"]


def _gaps(case: Case, reason: str) -> list[Row]:
    numbers = [
        (name, float(value))
        for name, value in case.observed.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    name, value = numbers[0] if numbers else ("nothing", 0.0)
    return [Row(case.id, case.suite, name, "", value, None, gap=reason)]


_OUTPUTS = {
    "step": STEP, "hours": "training.gpu_hours", "ideal hours": "training.time_to_train",
}  # fmt: skip


Ends = Mapping[str, Mapping[str, tuple[float, float]]]
"""By case and output, the ends of a 90 % interval."""


def _intervals(predictions: Sequence[Predicted]) -> Ends:
    """By case, the 90 % interval of each output that figures are compared with."""
    return _ends(
        predictions, [inputs_at(predicted.job, predicted.layout) for predicted in predictions]
    )


def _intervals_left_out(
    predictions: Sequence[Predicted], held_out: Mapping[str, Predicted]
) -> Ends:
    """The same with constants and model errors that use nothing of the source of a case."""
    chosen = [
        (held_out.get(predicted.job.case.id, predicted), spreads_left_out(predicted.job))
        for predicted in predictions
    ]
    known = [(predicted, spreads) for predicted, spreads in chosen if spreads is not None]
    inputs = [
        with_spreads(inputs_left_out(predicted.job, predicted.layout), spreads)
        for predicted, spreads in known
    ]
    return _ends([predicted for predicted, _ in known], inputs)


def _ends(predictions: Sequence[Predicted], inputs: Sequence[Inputs]) -> Ends:
    outputs = tuple(_OUTPUTS.values())
    rows = sampled.intervals(inputs, outputs)
    return {
        predicted.job.case.id: {
            name: (float(ends[position, 0]), float(ends[position, 1]))
            for name, ends in zip(outputs, rows, strict=True)
        }
        for position, predicted in enumerate(predictions)
    }


def inputs_left_out(job: Job, layout: dict[str, float]) -> Inputs:
    """Inputs of a job with the constants of a fit without its source."""
    fold = fold_of(job.case, "training")
    inputs = inputs_at(job, layout)
    return inputs if fold is None else with_constants(inputs, _fold_constants(fold, job.system))


def spreads_left_out(job: Job) -> dict[str, float] | None:
    """Spreads of the model error without the source of a job."""
    return spreads_without_source(job.case, "training", calibration_of(job.system))


def _scaled(ends: tuple[float, float], scale: float) -> tuple[float, float]:
    return ends[0] * scale, ends[1] * scale


def held_out_jobs(jobs: Sequence[Job]) -> dict[str, Predicted]:
    """Jobs of sources that a fit has seen, by case, with the constants of a fit without those."""
    folds = [(job, fold) for job in jobs if (fold := fold_of(job.case, "training")) is not None]
    values = [_fold_constants(fold, job.system) for job, fold in folds]
    names = dict.fromkeys(name for constant in values for name in constant)
    override = {name: np.array([constant[name] for constant in values]) for name in names}
    return {
        predicted.job.case.id: predicted
        for predicted in predict_jobs([j for j, _ in folds], override)
    }


def _fold_constants(fold: Fold, system: str) -> dict[str, float]:
    chain = (constants.COMMON, constants.source_system(system), system)
    return {name: value for part in chain for name, value in fold.constants.get(part, {}).items()}


def _row(
    predicted: Predicted,
    figure: ObservedFigure,
    shares: dict[tuple[str, float], list[float]],
    without: Predicted | None,
    ends: Ends,
    ends_left_out: Ends,
) -> Row:
    value = _value(predicted, figure)
    job = predicted.job
    left_out: tuple[float | None, float | None] = None, None
    if _is_timed(figure):
        interval = _interval(predicted, figure, ends)
        if job.case.id in ends_left_out:
            left_out = _interval(without or predicted, figure, ends_left_out)
    else:
        interval = value * (1 - COUNTED_SPREAD), value * (1 + COUNTED_SPREAD)
    return Row(
        job.case.id, job.case.suite, figure.quantity, figure.unit, figure.observed, value,
        *interval, terms=_terms(predicted, figure, value), baselines=_baselines(predicted, figure, shares),
        notes=(*figure.notes, *job.notes, *_hardware_notes(job.system)),
        in_sample=job.case.id in folds_by_case("training") and _is_timed(figure),
        held_out=_value(without, figure) if without is not None and _is_timed(figure) else None,
        held_out_lo=left_out[0], held_out_hi=left_out[1],
        group=groups.TRAINING[kind_of(job)] if figure.kind == "step" else "",
    )  # fmt: skip


@cache
def _hardware_notes(system: str) -> tuple[str, ...]:
    return constants.find(calibration_of(system), accelerator=system).notes


@cache
def _run_yield(system: str) -> float:
    return constants.given(system)["training.run_yield"]


def _interval(predicted: Predicted, figure: ObservedFigure, ends: Ends) -> tuple[float, float]:
    """The interval of a figure; hours at a yield of 1 are as uncertain as the time of the run."""
    output = _OUTPUTS[figure.kind]
    return _scaled(
        ends[predicted.job.case.id][output], _value(predicted, figure) / predicted.values[output]
    )


def _is_timed(figure: ObservedFigure) -> bool:
    """Whether fitted constants have a part in it: memory and operations are counted."""
    return figure.kind in ("step", *_HOURS)


def _value(predicted: Predicted, figure: ObservedFigure) -> float:
    values = predicted.values
    if figure.kind == "step":
        return values[STEP]
    if figure.kind == "hours":
        return values["training.gpu_hours"] / _HOUR * figure.by_hour
    if figure.kind == "ideal hours":
        return values["training.time_to_train"] * predicted.gpus / _HOUR
    if figure.kind == "flops":
        return values["architecture.training.flops_per_token"] * (predicted.job.total_tokens or 0.0)
    return _memory(predicted, figure.kind)


_MEMORY_LAYOUTS = {
    "states": ("parallelism.memory.states", {}),
    "activations, whole": (
        "parallelism.memory.activations",
        {"parallelism.recompute": 0.0, "parallelism.sequence_parallel": 0.0},
    ),
    "activations, selective": (
        "parallelism.memory.activations",
        {"parallelism.recompute": 1.0, "parallelism.sequence_parallel": 1.0},
    ),
}


def _memory(predicted: Predicted, kind: str) -> float:
    name, change = _MEMORY_LAYOUTS[kind]
    layout = {**predicted.layout, **change}
    return float(evaluate(columns([predicted.job], [layout]))[name][0]) / _GIB


def _terms(predicted: Predicted, figure: ObservedFigure, value: float) -> dict[str, float]:
    if not _is_timed(figure):
        return {}
    scale = value / predicted.values[STEP]
    terms = {name: predicted.values[variable] * scale for name, variable in TERMS.items()}
    if figure.kind == "hours":
        lost = 1 - _run_yield(predicted.job.system)
        terms = {name: part * (1 - lost) for name, part in terms.items()}
        terms["lost to the run"] = value * lost
    terms["straggling"] = value - sum(terms.values())
    return terms


def _rule(predicted: Predicted, figure: ObservedFigure) -> float:
    """6ND FLOPs at the peak of the format."""
    flops = 6 * predicted.values["architecture.active_parameters"]
    if figure.kind == "flops":
        return flops * (predicted.job.total_tokens or 0.0)
    seconds = flops * predicted.tokens / predicted.values["training.tensor_peak"]
    return (
        seconds
        * _value(predicted, figure)
        / predicted.values[STEP]
        * _without_yield(predicted, figure)
    )


def _without_yield(predicted: Predicted, figure: ObservedFigure) -> float:
    """Takes the run yield out of the hours: the rule of thumb does not model it."""
    return _run_yield(predicted.job.system) if figure.kind == "hours" else 1.0


def _key(predicted: Predicted) -> tuple[str, float]:
    return constants.source_system(predicted.job.system), predicted.job.bits


def _shares(predictions: Sequence[Predicted]) -> dict[tuple[str, float], list[float]]:
    """MFU that the observed figures imply, by accelerator and format."""
    shares: dict[tuple[str, float], list[float]] = {}
    for predicted in predictions:
        for figure in figures(predicted):
            # Energy and cost repeat the hours of their run.
            is_timed = _is_timed(figure) and figure.observed > 0 and figure.by_hour == 1
            if is_timed and math.isfinite(predicted.values[STEP]):
                share = _rule(predicted, figure) / figure.observed
                shares.setdefault(_key(predicted), []).append(share)
    return shares


def _baselines(
    predicted: Predicted, figure: ObservedFigure, shares: dict[tuple[str, float], list[float]]
) -> dict[str, float]:
    if figure.kind == "flops":
        return {"rule_6nd": _rule(predicted, figure)}
    if not _is_timed(figure):
        return {}
    at_peak = _rule(predicted, figure)
    return {
        "constant_mfu": at_peak / median(shares[_key(predicted)]),
        "rule_6nd": at_peak / SHARE_OF_RULE,
        "roofline": at_peak,
    }
