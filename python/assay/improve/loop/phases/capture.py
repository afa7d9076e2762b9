"""Capture and fingerprint: what runs, how fast, and a trace of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assay.errors import AssayError, NoDataError
from assay.http_client import ServerError
from assay.improve.loop.state import Captured, RunState
from assay.improve.policy.fingerprint import fingerprint
from assay.improve.policy.known import Sample
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.ramp import RAMP, ramp_length
from assay.load.workloads.workload import Window

TRACED_REQUESTS: Final = 8
"""Most requests of the traced window: a trace of a few dozen steps tells what takes the time."""


SAMPLES: Final = 4
"""Answers that are read as tokens."""


def capture(state: RunState) -> None:
    """Measure the start once, and record a trace of it."""
    state.begin("capture")
    for text in state.description.degradations:
        state.degrade(text)
    state.progress.say(f"measuring {state.workload.name} as the engine is configured now")
    baseline = _first_measurement(state)
    state.captured = Captured(baseline, fingerprint(state.description, state.workload).to_data())
    state.journal.append("fingerprint", **state.captured.fingerprint)
    _trace(state)
    _samples(state)


def _first_measurement(state: RunState) -> Measurement:
    """One window, warmed up; it must have produced tokens."""
    workload = state.workload
    count = workload.concurrency or TRACED_REQUESTS
    window = Window(
        seconds=max(state.budget.share("capture") / 2, 1.0), requests=count, warmup_requests=1
    )
    if workload.arrival == RAMP:
        window = Window(requests=ramp_length(workload))
    measured = state.engine.measure(workload, window)
    metric = workload.objective.metric
    errors = [record.error for record in measured.records if record.error is not None]
    if not measured.output_tokens or metric not in measured.figures:
        reason = f"; the first error: {errors[0]}" if errors else ""
        raise NoDataError(
            f"{workload.name}: expected output tokens and {metric}, got "
            f"{measured.output_tokens} tokens of {len(measured.records)} requests{reason}",
            "send it a request by hand, and see what it answers",
        )
    if errors:
        state.degrade(
            f"{len(errors)} of {len(measured.records)} requests of the first window failed: {errors[0]}"
        )
    state.journal.append(
        "baseline",
        figures=dict(measured.figures),
        seconds=measured.seconds,
        load_state=measured.load_state,
        settings=dict(measured.settings),
    )
    return measured


def _samples(state: RunState) -> None:
    """A few answers as tokens: how much of a text repeats tells what speculation would accept."""
    left_s = state.budget.left("capture")
    request_s = _request_s(state)
    count = SAMPLES if request_s is None else min(SAMPLES, int(left_s / request_s))
    if left_s < 0 or count < 1:
        return
    state.progress.say("reading a few answers")
    try:
        answers = state.engine.answers(state.workload, count)
    except ServerError as error:
        state.degrade(f"no answers to replay drafts on: {error.message}")
        return
    samples = tuple(Sample(*tokens) for tokens in answers)
    state.captured = replace(state.captured, samples=samples)


def _request_s(state: RunState) -> float | None:
    """How long a request took in the first window; None where it was not measured."""
    baseline = state.captured.baseline
    latency_ms = None if baseline is None else baseline.figures.get("mean_e2el_ms")
    return latency_ms / 1e3 if latency_ms else None


def _trace(state: RunState) -> None:
    """A trace of a short window; without one there is no waterfall, which is noted."""
    if (state.folder.trace / "header.json").is_file():
        return  # An earlier part of the run recorded it.
    state.progress.say("recording a trace")
    count = min(state.workload.concurrency or TRACED_REQUESTS, TRACED_REQUESTS)
    window = Window(seconds=max(state.budget.share("capture") / 2, 0.5), requests=count)
    try:
        folder = state.engine.capture(state.workload, window, state.folder.trace)
    except AssayError as error:
        state.degrade(f"no trace: {error.message}")
        return
    if folder is None:
        state.degrade(
            f"no trace: {state.description.engine} at {state.description.device} cannot be traced "
            "from here, so that there is no waterfall"
        )
