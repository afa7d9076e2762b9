"""From a trace to a diagnosis: prediction, residuals, invariants, causes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.answers import Progress, silent
from assay.diagnose import subject
from assay.diagnose.attribution import attribute
from assay.diagnose.baseline import BaselineChange, compare_to_baseline
from assay.diagnose.cases import below_floor, case_graph, case_hardware, case_situation, case_work
from assay.diagnose.critical_path.path import critical_path
from assay.diagnose.diagnosis import Diagnosis, Situation
from assay.diagnose.experiments import read_experiments
from assay.diagnose.invariants.checking import check_invariants
from assay.diagnose.itemizing.matching import graph_of_step
from assay.diagnose.mechanisms.catalog import CASE_MECHANISMS, MECHANISMS
from assay.diagnose.mechanisms.classes import GEMMS
from assay.diagnose.request import Request
from assay.diagnose.residuals import Residuals, residuals
from assay.diagnose.step_predictions import StepPredictions, predict_steps
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.operations import parts
from assay.observe.structure.opening import open_recovered
from assay.observe.structure.recovery import Recovery
from assay.observe.telemetry import reading
from assay.observe.trace import Trace
from assay.planner.graph import Graph
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import HardwareSpec, ModelSpec

if TYPE_CHECKING:
    from assay.diagnose.delays.records import DelayExperiment

MAPPED: Final = 0.5
"""Share of device time that must be operations of the model for it to be the one that ran."""
BELOW_FLOOR: Final = 0.9
"""An operation that took less than this share of its floor is not the model's."""
PREFETCHED: Final = 0.6
"""The same for one operation where the operations together are not below theirs."""
ODD: Final = 2.5
"""A linear layer this many times further above its floor than others may have another shape."""
CHECKED_NS: Final = 50_000
"""Operations whose floor is shorter may run from a cache."""


_UNWATCHED: Final = " not examined: needs telemetry of "


def diagnose_trace(
    trace: str | Path,
    *,
    model: str | None = None,
    gpu: str | None = None,
    engine: str | None = None,
    batch: int | None = None,
    context: int | None = None,
    tensor: int | None = None,
    dtype: str | None = None,
    kv_dtype: str = "bf16",
    telemetry: str | None = None,
    baselines: Sequence[str] = (),
    experiments: str | None = None,
    progress: Progress = silent,
) -> Diagnosis:
    """Say where the time of a trace's steps went, why, and what to try.

    What is not given is read from the trace. `telemetry` is a recording, `baselines` are healthy
    traces of the same workload, `experiments` a file of `assay causal-profile --json`.
    """
    # Bad names are told before a large trace is read.
    subject.check_sizes(batch=batch, context=context, tensor=tensor)
    subject.check_engine(engine)
    spec = None if model is None else model_spec(model)
    hardware = None if gpu is None else hardware_spec(gpu)
    recording = None if telemetry is None else reading.read(telemetry)
    tested = () if experiments is None else read_experiments(experiments)
    recovered = open_recovered(trace, model, progress=progress)
    subject.check_stated(recovered.trace, gpu=gpu, engine=engine, tensor=tensor)
    healthy = [open_recovered(baseline, model, progress=progress) for baseline in baselines]
    notes = []
    if hardware is None and (named := subject.gpu_of(recovered.trace)) is not None:
        hardware = hardware_spec(named)
        notes.append(f"the GPU is the trace's own, {named}")
    hardware = hardware or case_hardware(recovered.trace)
    request = Request(spec, hardware, engine, batch, context, tensor, dtype, kv_dtype)
    diagnosis = examine(
        recovered, request, str(trace), telemetry=recording, experiments=tested,
        baselines=healthy, say=progress,
    )  # fmt: skip
    notes += diagnosis.degradations
    assumptions = set(diagnosis.assumptions)
    return dataclasses.replace(
        diagnosis,
        degradations=tuple(notes),
        notes=_grouped([note for note in notes if note not in assumptions]),
    )


def _grouped(notes: list[str]) -> list[str]:
    """Notes, those on mechanisms that need telemetry in one line."""
    names = [note.partition(_UNWATCHED)[0] for note in notes if _UNWATCHED in note]
    if len(names) < 2:
        return notes
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return [
        *(note for note in notes if _UNWATCHED not in note),
        f"{listed} not examined: they need telemetry of the run; --telemetry names a recording",
    ]


def examine(
    recovered: Recovery,
    request: Request,
    where: str,
    *,
    telemetry: pl.DataFrame | None = None,
    experiments: Sequence[DelayExperiment] = (),
    baselines: Sequence[Recovery] = (),
    say: Progress = silent,
) -> Diagnosis:
    """Diagnose a trace whose structure has been recovered; `where` names it in errors."""
    trace = recovered.trace
    check_events(trace, where)
    notes = [*trace.header.degradations, *recovered.degradations]
    if request.model is not None:
        check_model(recovered, request.model, where)
    trace = subject.with_batch(trace, request.batch, request.context)
    work = None if request.model is not None else case_work(trace, where)
    graphs: tuple[Graph, ...] = ()
    if work is not None:
        situation = case_situation(work, request.hardware, where)
        graphs, about = case_graph(trace, work, request.hardware)
        notes += about
    else:
        situation = situation_of(trace, request, where, notes)
    if situation.can_predict:
        say("predicting the steps")
        prediction = predict_steps(trace, request, situation)
        graphs = prediction.graphs
        notes += prediction.notes
        length = prediction.length
        situation = dataclasses.replace(
            situation,
            batch=prediction.batch,
            context=prediction.context,
            context_source=_context_source(request, prediction),
            context_range=(length.lo, length.hi) if length else None,
        )
        trace = subject.with_batch(trace, None, prediction.inferred)
    elif not trace.steps.height:
        trace = subject.as_one_step(trace)
    say("splitting the steps into terms")
    itemized = residuals(trace, graphs, telemetry)
    if graphs:
        notes += _check_floor(itemized, where) if work is None else below_floor(itemized.operations)
    say("following the critical path")
    path = critical_path(trace)
    say("asking for causes")
    graph = shown_graph(itemized)
    causes = attribute(
        itemized, graph, path=path, telemetry=telemetry, experiments=experiments,
        mechanisms=MECHANISMS if work is None else CASE_MECHANISMS,
    )  # fmt: skip
    say("checking invariants")
    violations = check_invariants(itemized) if graphs and work is None else []
    changes = _changes(itemized, graphs, baselines, telemetry)
    notes += [*itemized.degradations, *path.degradations, *causes.degradations]
    return Diagnosis(
        situation, itemized, graph, causes, path, violations, tuple(dict.fromkeys(notes)), changes
    )


def _changes(
    itemized: Residuals,
    graphs: Sequence[Graph],
    baselines: Sequence[Recovery],
    telemetry: pl.DataFrame | None,
) -> tuple[BaselineChange, ...]:
    """What became slower or faster than in healthy traces."""
    if not baselines:
        return ()
    healthy = [residuals(baseline.trace, graphs, telemetry) for baseline in baselines]
    return tuple(compare_to_baseline(itemized, healthy))


def shown_graph(itemized: Residuals) -> Graph:
    """The graph of the waterfall's step; that of the most frequent step where it has none."""
    like = itemized.steps.filter(pl.col("step") == itemized.waterfall.step)
    for row in like.iter_rows(named=True):
        number = graph_of_step(row, itemized.graphs)
        if number is not None:
            return itemized.graphs[number]
    return itemized.graph


def _context_source(request: Request, prediction: StepPredictions) -> str | None:
    if prediction.context is None:
        return None
    if prediction.length is not None:
        return prediction.length.source
    return "given" if request.context is not None else "trace"


def check_events(trace: Trace, where: str) -> None:
    """Refuse a trace without events of a device."""
    if not trace.events.height:
        raise InputError(f"{where}: expected a trace with events, got an empty one")
    device = trace.events["kind"].cast(pl.String).is_in(list(schema.DEVICE_KINDS))
    if not device.any():
        raise InputError(
            f"{where}: expected kernels or copies on a device, got {trace.events.height:,} events "
            "of the host alone",
            "record the device, too: ProfilerActivity.CUDA, or assay trace attach",
        )


def check_model(recovered: Recovery, model: ModelSpec, where: str) -> None:
    """Refuse a trace of another model: its layers or its operations are not the model's."""
    steps = recovered.steps
    if not steps:
        return
    layers = int(model.architecture["layers"])
    counts = [step["layers"] for step in steps if step["layers"]]
    usual = max(dict.fromkeys(counts), key=counts.count, default=layers)
    if counts and layers not in counts:
        raise InputError(
            f"{where}: expected steps of {layers} layers as {model.name} has, got {usual}",
            "another model ran, or a pipeline stage of it: name its config.json with --model",
        )
    share = mapped_share(recovered.trace)
    if share < MAPPED:
        raise InputError(
            f"{where}: expected kernels of {model.name}, got {100 * share:.0f} % of device time "
            "that its operations explain",
            "another model ran: name its config.json with --model, or leave --model out",
        )


def _check_floor(itemized: Residuals, where: str) -> list[str]:
    """Refuse a model whose operations cannot have run in their time; note shapes that look odd."""
    sums = (
        itemized.operations.filter(
            (pl.col("phase") == "decode") & (pl.col("floor_ns") > 0) & (pl.col("kernel_ns") > 0)
        )
        .group_by("operation")
        .agg(pl.col("kernel_ns").sum(), pl.col("floor_ns").sum())
        .filter(pl.col("floor_ns") >= CHECKED_NS)
        .with_columns(times=pl.col("kernel_ns") / pl.col("floor_ns"))
        .sort("times")
    )
    if not sums.height:
        return []
    name, observed, floor, times = sums.row(0)
    whole = float(sums["kernel_ns"].sum()) / float(sums["floor_ns"].sum())
    # A dependent kernel may prefetch under the one before it, which then has the time of its reads;
    # over all of them nothing is gained by that.
    if times < (BELOW_FLOOR if whole < BELOW_FLOOR else PREFETCHED):
        raise InputError(
            f"{where}: expected {name} of at least {floor / 1e3:,.0f} us a step, its floor in "
            f"{itemized.graph.model} on {itemized.graph.hardware}, got {observed / 1e3:,.0f} us",
            "another model, weight format, context or GPU ran: --model, --dtype, --context, --gpu",
        )
    notes = [
        f"{name} takes {times:.2f} of its floor: it reads ahead under the operation before it, "
        "whose time then holds part of its reads"
        for name, _, _, times in sums.filter(pl.col("times") < BELOW_FLOOR).rows()
    ]
    gemms = sums.filter(
        pl.col("operation").is_in([name for name in sums["operation"] if set(parts(name)) & GEMMS])
    )
    usual = gemms["times"].median()
    if not isinstance(usual, float):
        return notes
    return notes + [
        f"{name} takes {times:.1f} times its floor, linear layers in the median {usual:.1f} times: "
        "another model may have run"
        for name, _, _, times in gemms.rows()
        if times > ODD * usual
    ]


def mapped_share(trace: Trace) -> float:
    """The share of device time in kernels and copies with an operation."""
    device = trace.events.lazy().filter(pl.col("kind").is_in(list(schema.DEVICE_KINDS)))
    sums = device.select(
        pl.col("dur_ns").sum().alias("all"),
        pl.col("dur_ns").filter(pl.col("op").is_not_null()).sum().alias("mapped"),
    ).collect()
    total, mapped = sums.row(0)
    return mapped / total if total else 0.0


def situation_of(trace: Trace, request: Request, where: str, notes: list[str]) -> Situation:
    """What ran, as far as the caller or the trace says."""
    engine = request.engine or subject.engine_of(trace)
    hardware = request.hardware
    tensor = request.tensor
    if tensor is None:
        tensor = subject.ranks_of(trace)
        if tensor > 1:
            notes.append(f"the {tensor} ranks of the trace are taken as tensor parallel: --tensor")
    lacking = _lacking(request.model, hardware, engine, trace)
    notes += lacking
    if not lacking:
        subject.check_batch(trace, where)
    return Situation(
        where,
        request.model.name if request.model else trace.header.model,
        hardware.name if hardware else None,
        engine,
        tensor,
        subject.uses_graphs(trace),
        can_predict=not lacking,
    )


def _lacking(
    model: ModelSpec | None, hardware: HardwareSpec | None, engine: str | None, trace: Trace
) -> list[str]:
    """Why no step can be predicted."""
    lacking = []
    if model is None:
        lacking.append("no prediction: no model given; --model names a configuration")
    if hardware is None:
        named = ", ".join(subject.gpu_names(trace)) or "none"
        lacking.append(
            f"no prediction: no GPU given, and the trace names {named}; --gpu names one of the "
            "catalog or a calibration"
        )
    if engine not in subject.ENGINES:
        lacking.append(
            f"no prediction: the engine is {engine or 'not recognized'}; --engine says whose "
            f"kernels to assume: {', '.join(subject.ENGINES)}"
        )
    if not trace.steps.height:
        lacking.append(
            "no prediction: no step found in the trace; the waterfall is of its whole time"
        )
    return lacking
