"""A what-if: a trace replayed under changes, with step time, throughput, latencies and goodput."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.answers import Answer, data_of
from assay.array_types import Ints
from assay.diagnose.replay import figures, graph_capture, planned_cost, scenario, step_times
from assay.diagnose.replay.changes import LOAD_KINDS, NODE_KINDS, Amount, WhatIfChange
from assay.diagnose.replay.figures import Z90
from assay.diagnose.replay.load_figures import STEP_ERROR, Load, simulated
from assay.diagnose.replay.planned_cost import PlannedCost, Setting
from assay.diagnose.replay.recording import leave_out_recording
from assay.diagnose.replay.scenario import Scenario
from assay.diagnose.replay.step_cost import ObservedCost, StepCost, StepShape
from assay.errors import AssayError, InputError
from assay.intervals import Interval
from assay.lazy_import import np, pl
from assay.observe import schema

if TYPE_CHECKING:
    from assay.observe.trace import Trace


@dataclass(frozen=True)
class WhatIf(Answer):
    """A trace before and after changes."""

    changes: tuple[str, ...]
    before: Mapping[str, Interval]
    """step_ns, tpot_ms, tokens_per_second, ttft_ms where the trace shows it."""
    after: Mapping[str, Interval]
    change: Interval
    """The step time after over before, less one."""
    operations: Sequence[Mapping[str, Any]]
    """Device time of each operation in a step, before and after."""
    load_before: Mapping[str, Interval] | None
    load_after: Mapping[str, Interval] | None
    phase: str
    """decode, or every where no step is known to decode."""
    steps: int
    batch: int | None
    context: int | None
    self_replay_error: float
    """The median step of the replay without changes over that of the trace, less one."""
    trace: str = ""
    model: str | None = None
    gpu: str | None = None
    """Where the planner was asked."""

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        asked = {} if self.model is None else {"model": self.model, "gpu": self.gpu}
        return {
            "trace": self.trace,
            "changes": list(self.changes),
            "before": _expected(self.before),
            "after": _expected(self.after),
            "change": self.change.to_json("expected"),
            "operations": list(self.operations),
            "load_before": _expected(self.load_before),
            "load_after": _expected(self.load_after),
            **data_of(self, "phase steps batch context self_replay_error notes"),
            **asked,
        }


RUN_ERROR: Final = 0.027
"""Standard deviation of the logarithm of a measured step over the replayed one of the same size: the root
mean square over four traces of vLLM 0.24 on an H200 (Llama-3-8B at batch 1 eager and with graphs and at
batch 64, Qwen3-30B-A3B at batch 1) and the same steps measured apart, without a profiler."""


def _expected(values: Mapping[str, Interval] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {name: value.to_json("expected") for name, value in values.items()}


def whatif(
    trace: Trace,
    changes: Sequence[WhatIfChange],
    *,
    setting: Setting | None = None,
    load: Load | None = None,
    node_gap_ns: float | None = None,
) -> WhatIf:
    """Replay a trace under changes; `setting` is what its decode steps ran, for the planner."""
    under_load = [change for change in changes if change.kind in LOAD_KINDS]
    if under_load and load is None:
        raise InputError(
            f'change "{under_load[0].text}": expected a load that meets the scheduler, got none',
            "--rate, --input and --output describe one",
        )
    plain, changed = Scenario.of(trace), Scenario.of(trace)
    replayed = step_times.step_times(plain)
    if not len(replayed.ns):
        raise InputError("expected a trace with at least two steps, got fewer")
    for recorded in (plain, changed):
        leave_out_recording(recorded, trace)
    base = step_times.step_times(plain)
    if base.phase == step_times.EVERY:
        changed.notes.append("no two steps are known to decode: all steps count")
    after_setting = _apply(changed, tuple(changes), setting, trace, base, node_gap_ns)
    after = step_times.step_times(changed)
    batch, context = _known(base.batch), _known(base.context)
    new_batch = after_setting.batch.sequences if after_setting else batch
    for change in changes:
        if change.kind == "batch":
            new_batch = int(change.value)
    # What a run comes to differs from a replay of another one, whatever the change is.
    log_error = math.hypot(changed.log_error, RUN_ERROR)
    compared = (
        figures.figures(base.ns, batch, 0.0, plain),
        figures.figures(after.ns, new_batch, log_error, changed),
    )
    modeled = any(change.kind not in (*NODE_KINDS, *LOAD_KINDS) for change in changes)
    if modeled and compared[1].pop("ttft_ms", None) is not None:
        changed.notes.append(
            "TTFT after the change is not known from prefill steps before it; --rate simulates it"
        )
    under: tuple[dict[str, Interval] | None, dict[str, Interval] | None] = (None, None)
    if load is not None:
        costs = _costs(trace, setting, after_setting, base.median(), after.median(), tuple(changes))
        under = (simulated(load, costs[0]), simulated(load.changed(changes), costs[1]))
    observed = _observed_step(trace, base)
    return WhatIf(
        tuple(change.text for change in changes),
        *compared,
        figures.ratio(base.ns, after.ns, log_error),
        figures.operations(plain, changed),
        *under,
        base.phase,
        len(base.ns),
        batch,
        context,
        replayed.median() / observed - 1,
        notes=tuple(dict.fromkeys(changed.notes)),
    )


def _known(values: Ints) -> int | None:
    known = values[values >= 0]
    return round(float(np.median(known))) if len(known) else None


def _observed_step(trace: Trace, base: step_times.StepTimes) -> float:
    """The median step of the trace itself, by starts of first device events."""
    device = pl.col("kind").cast(pl.String).is_in(list(schema.DEVICE_KINDS))
    first = (
        trace.events.filter(device & (pl.col("step") >= 0))
        .group_by("step")
        .agg(pl.col("start_ns").min())
        .sort("start_ns")
        .with_columns(ns=pl.col("start_ns").shift(-1) - pl.col("start_ns"))
    )
    spans = first.filter(pl.col("step").is_in(base.step.tolist()))["ns"].drop_nulls()
    return base.median() if spans.is_empty() else float(np.median(spans.to_numpy()))


def _apply(
    changed: Scenario,
    changes: tuple[WhatIfChange, ...],
    setting: Setting | None,
    trace: Trace,
    base: step_times.StepTimes,
    node_gap_ns: float | None,
) -> Setting | None:
    """Apply every change to a scenario; returns the setting of the planner under them."""
    modeled = tuple(change for change in changes if change.kind not in (*NODE_KINDS, *LOAD_KINDS))
    after_setting = setting
    if modeled:
        after_setting = _scale_by_model(changed, modeled, setting, trace, base)
    kinds = {change.kind: change for change in changes}
    if "launch" in kinds:
        _capture(changed, node_gap_ns)
    if "host" in kinds:
        scenario.scale_host(changed, kinds["host"].amount or Amount(1.0))
    if "overlap" in kinds:
        scenario.overlap_copies(changed)
    for change in changes:
        if change.kind == "op":
            chosen = scenario.of_operation(changed, change.target, change.text)
            scenario.scale(changed, chosen, change.amount or Amount(1.0))
        elif change.kind == "kernel":
            chosen = scenario.of_name(changed, change.target, change.text)
            scenario.scale(changed, chosen, change.amount or Amount(1.0))
    return after_setting


def _capture(changed: Scenario, node_gap_ns: float | None) -> None:
    """Capture graphs; how far the gap between nodes is known bounds the step."""
    slow = dataclasses.replace(changed, notes=[])
    graph_capture.capture(changed, node_gap_ns)
    gap = changed.edges.usual_ns.get("stream")
    if gap is not None and "graph" not in changed.edges.usual_ns:
        graph_capture.capture(slow, float(gap))
        fast_ns, slow_ns = (
            step_times.step_times(captured).median() for captured in (changed, slow)
        )
        changed.log_error = math.hypot(changed.log_error, math.log(slow_ns / fast_ns) / Z90)


def _scale_by_model(
    changed: Scenario,
    modeled: tuple[WhatIfChange, ...],
    setting: Setting | None,
    trace: Trace,
    base: step_times.StepTimes,
) -> Setting | None:
    """Scale operations by the step-cost model; the replay then finds the step."""
    operations = {str(operation) for operation in set(changed.operation) if operation}
    before = step_times.step_times(changed).median()
    if setting is not None:
        after_setting = setting.changed(modeled)
        old, new = setting.graph(), after_setting.graph()
        # Kernels take their time however they are launched: predictions of eager steps have waits
        # for launches in them, which the replay finds itself.
        ratios = planned_cost.ratios(
            setting.replayed().graph(), after_setting.replayed().graph(), operations
        )
        # What the planner calls host time is the part of a step without kernels.
        host_ns = planned_cost.host_ns(new) - planned_cost.host_ns(old)
        changed.notes += [*old.degradations, *new.degradations]
        error = planned_cost.RATIO_ERROR
    else:
        after_setting = None
        ratios, host_ns = _observed_ratios(modeled, trace, base)
        changed.notes.append("step-cost model fitted to the steps of the trace itself")
        error = STEP_ERROR
    scenario.delay_steps(changed, host_ns)
    share = scenario.scale_operations(changed, ratios, base.step)
    if share < 0.9:
        changed.notes.append(
            f"{100 * (1 - share):.0f} % of device time is of operations that the step-cost model "
            "does not have: it stays as it is"
        )
    after = step_times.step_times(changed).median()
    changed.log_error = math.hypot(changed.log_error, error * math.log(after / before))
    return after_setting


def _observed_ratios(
    modeled: tuple[WhatIfChange, ...], trace: Trace, base: step_times.StepTimes
) -> tuple[dict[str, float], float]:
    """Ratios from the steps that the trace itself shows, where it has steps of several sizes.

    And by how much the time of a step without device work grows.
    """
    beyond = [change for change in modeled if change.kind not in ("batch", "context")]
    if beyond:
        raise InputError(
            f'change "{beyond[0].text}": expected the model and the accelerator of the trace',
            "--model and --gpu name them; the trace alone shows other batches and contexts at most",
        )
    batch, context = _known(base.batch), _known(base.context)
    if batch is None or context is None:
        raise InputError(
            f'change "{modeled[0].text}": expected the batch and context of the decode steps',
            "--batch and --context say them",
        )
    cost = ObservedCost.of(trace)
    if len({rows for curve in cost.curves.values() for rows in curve.rows}) < 2:
        raise InputError(
            f'change "{modeled[0].text}": all steps of the trace have one size, which says nothing '
            "of others",
            "--model and --gpu let the planner say it",
        )
    values = {change.kind: int(change.value) for change in modeled}
    old = cost.operations_ns(StepShape.decode(batch, context))
    new = cost.operations_ns(
        StepShape.decode(values.get("batch", batch), values.get("context", context))
    )
    host = new.pop("host") - old.pop("host")
    return {name: new[name] / old[name] for name in old if old[name] > 0}, host


def _costs(
    trace: Trace,
    setting: Setting | None,
    after_setting: Setting | None,
    before_ns: float,
    after_ns: float,
    changes: tuple[WhatIfChange, ...],
) -> tuple[StepCost, StepCost]:
    """Step-cost models before and after, each through the median step that the replay gave."""
    if setting is not None and after_setting is not None:
        return (
            PlannedCost(setting, setting.batch, before_ns),
            PlannedCost(after_setting, after_setting.batch, after_ns),
        )
    try:
        cost = ObservedCost.of(trace)
    except AssayError as error:
        raise InputError(
            "load: expected a model of the time of steps, got none: --model and --gpu are missing, "
            f"and the trace gives none ({error})"
        ) from error
    factors = {
        change.target: change.amount.factor
        for change in changes
        if change.kind == "op" and change.amount is not None and change.amount.factor is not None
    }
    return cost, cost.scaled(factors)
