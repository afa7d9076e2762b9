"""Watch: after promotion the kept settings are measured on and on, and taken back on a regression."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import replace
from typing import Final

from assay.improve.engines.protocol import EngineLostError
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.verdict import percent
from assay.improve.experiments.watching import PromotionWatch
from assay.improve.loop.state import RunState, Watched
from assay.improve.loop.trials import bring_to, current
from assay.load.metrics import is_good, succeeded
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.workload import Window

TITLE: Final = "watch"
REFERENCE_Z: Final = 2.0
"""Standard errors of the start's level that a window may lie below it."""
RECENT: Final = 12
"""Windows at the end of a watch whose level is said."""


def watch(state: RunState) -> None:
    """Guard what was proven, until the time is over, Ctrl-C, or a regression; then it is undone.

    From its beginning on, the proven settings are those that a fault brings the engine back to.
    """
    confirmed = state.soaked.confirmation
    if not state.options.watch or confirmed is None or confirmed.verdict != "improved":
        return
    _begin(state)
    begun = state.budget.clock()
    bring_to(state, current(state))
    state.engine.declare_safe("the stack of kept levers, confirmed against the start")
    try:
        state.watched = _guard(state, confirmed)
    except EngineLostError as error:
        reason = f"the engine was lost with the kept settings: {error.message}"
        state.watched = replace(state.watched, reason=reason)
    except KeyboardInterrupt:
        # The way to end a watch that has no end of its own.
        state.progress.say("the watch is over: writing the report; ctrl-c again leaves at once")
    state.watched = replace(state.watched, seconds=state.budget.clock() - begun)
    if state.watched.reason:
        state.journal.append("watch", verdict="regressed", reason=state.watched.reason)
        state.progress.result(f"going back: {state.watched.reason}")
        bring_to(state, state.start)
        state.engine.declare_safe("the start: the watch saw a regression")
        return
    held, recent = state.watched.windows, state.watched.recent
    note = f"watched for {held} windows after promotion: no regression was shown"
    if recent:
        note += f"; the last {len(recent)} are at {percent(math.exp(statistics.fmean(recent)))} to the start"
    state.notes.append(note)


def _begin(state: RunState) -> None:
    state.end_phase()
    seconds = state.options.watch_s
    state.journal.append("phase", name=TITLE, share_s=seconds)
    state.phases.append((TITLE, time.time(), 0.0))
    state.phase_begun_s = state.budget.spent
    state.progress.phase(TITLE, 0.0 if seconds is None else seconds)


def _guard(state: RunState, confirmed: ExperimentResult) -> Watched:
    """Measure window after window."""
    control = [block for block in confirmed.blocks if _counts(block) and block.arm == "control"]
    logs = [math.log(block.value) for block in control]
    start = math.fsum(logs) / len(logs)
    spread = statistics.stdev(logs) if len(logs) > 1 else 0.0
    guard = PromotionWatch.of(
        margin=REFERENCE_Z * spread / math.sqrt(len(logs)),
        least_sd=spread,
        allowed=max(1.0 - ExperimentSettings().slo_share, *map(_bad_share_of, control)),
        before=_equal_windows(state.control.noise),
    )
    requests = max(block.requests for block in control)
    sign = 1.0 if state.workload.objective.better == "higher" else -1.0
    begun, place = state.budget.clock(), 0
    limit = math.inf if state.options.watch_s is None else state.options.watch_s
    while state.budget.clock() - begun < limit:
        window = Window(requests=requests, offset=place * requests)
        measured = state.engine.measure(state.workload, window)
        place += 1
        value = measured.figures.get(state.workload.objective.metric, 0.0)
        ratio = sign * (math.log(value) - start) if value > 0.0 else None
        bad = _bad_share(state, measured)
        reason = guard.add(ratio, bad)
        state.journal.append("watch", window=place, value=value, bad_share=bad)
        recent = (*state.watched.recent, *(() if ratio is None else (ratio,)))[-RECENT:]
        state.watched = Watched(place, recent=recent)
        shown = "no figure" if ratio is None else f"{percent(math.exp(ratio))} to the start"
        state.progress.say(f"window {place}: {shown}")
        if reason:
            return Watched(place, reason)
    return state.watched


def _equal_windows(noise: ExperimentResult | None) -> list[float]:
    """Logarithms of the A/A experiment's blocks, which follow each other."""
    blocks = noise.blocks if noise is not None else ()
    return [math.log(block.value) for block in blocks if _counts(block)]


def _counts(block: Block) -> bool:
    return not block.dropped and block.pair >= 0 and block.value > 0.0


def _bad_share(state: RunState, measured: Measurement) -> float:
    """Requests that failed or missed the service levels."""
    done = [record for record in measured.records if succeeded(record)]
    good = int(is_good(done, state.workload.slo).sum())
    return 1.0 - good / len(measured.records) if measured.records else 1.0


def _bad_share_of(block: Block) -> float:
    """The same of a block, from its figures; goodput is there under service levels only."""
    all_of_it = block.figures.get("request_throughput", 0.0)
    if all_of_it <= 0.0 or "request_goodput" not in block.figures:
        return 0.0
    return max(0.0, 1.0 - block.figures["request_goodput"] / all_of_it)
