"""From the events of a foreign trace to its steps, and to the operation of each kernel."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.answers import data_of
from assay.array_types import Ints
from assay.lazy_import import pl
from assay.observe import schema
from assay.observe.structure import capture, grammar, labels, phases, step_annotations
from assay.observe.structure.alignment import Aligner, Alignment
from assay.observe.structure.layout import LayerKind, Layout
from assay.observe.structure.names import CLASS_CODES
from assay.observe.structure.passes import Run, find_passes
from assay.observe.structure.sequence import Names, Sequence, sequences
from assay.observe.structure.step_annotations import Annotation
from assay.observe.trace import Trace


@dataclass(slots=True)
class Recovery:
    """A trace with steps, phases, layers and operations, and how far they can be trusted."""

    trace: Trace
    degradations: list[str] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    """The steps table as rows, with `layers` found and whether a step is `complete`."""
    replays: int = 0
    """Graph replays: kernels of one launch of a CUDA graph."""
    captured: dict[str, int] | None = None
    """Replayed kernels whose callers are known, and those that their operation agrees with."""
    annotated: dict[str, Any] | None = None
    """How recovered steps agree with the annotations of the engine; None without any."""


def is_tagged(trace: Trace) -> bool:
    """Whether the events carry operations already, as those of the own engine do."""
    if trace.events["op"].null_count() == trace.events.height:
        return False
    device = pl.col("kind").is_in(list(schema.DEVICE_KINDS))
    return bool(trace.events.select((device & pl.col("op").is_not_null()).any()).item())


def recover(trace: Trace, layout: Layout | None = None, captured: Trace | None = None) -> Recovery:
    """Find the structure of a trace and write it into its tables.

    A trace whose events carry operations already is passed through untouched. `captured` is a
    trace of the capture of its graphs, where that is another file.
    """
    if is_tagged(trace):
        return Recovery(trace, steps=_known_steps(trace))
    names, launched = sequences(trace.events)
    result = Recovery(trace)
    if layout is None:
        result.degradations.append(
            "no model given: layers are counted by repetition, operations follow from names and "
            "order alone; --model names a configuration"
        )
    columns = _Columns(trace.events.height)
    rows: list[dict[str, Any]] = []
    aligners = _aligners(names, layout)
    captures = capture.find_captures((captured or trace).events)
    for sequence in launched:
        known = _Known(names, aligners)
        if captures:
            sequence, known = _with_callers(sequence, known, layout, captures, result)
        _recover_sequence(
            trace, known.names, sequence, layout, known.aligners, columns, rows, result
        )
    header = trace.header
    if layout is not None and header.model is None:
        header = dataclasses.replace(header, model=layout.name)
    result.trace = Trace(header, columns.apply(trace.events), _steps_table(rows))
    result.steps = rows
    return result


@dataclass(slots=True)
class _Known:
    """The names of a trace's kernels, and the grammars that were built for them."""

    names: Names
    aligners: list[Aligner]


def _with_callers(
    sequence: Sequence,
    known: _Known,
    layout: Layout | None,
    captures: list[capture.Capture],
    result: Recovery,
) -> tuple[Sequence, _Known]:
    """A sequence that knows the callers of its replays; says how they agree with it without them."""
    names, merged, callers = capture.merge(known.names, sequence, captures)
    passes = _passes(sequence, layout)
    if not passes or not (callers >= 0).any():
        return sequence, known
    aligned = _aligned(sequence, known.aligners, passes)
    kinds = np.array([grammar.KIND_CODES[state.kind] for state in aligned.automaton.states])
    rows = np.flatnonzero(callers >= 0)
    costs = grammar.name_costs()[callers[rows], kinds[aligned.states[rows]]]
    before = result.captured or {"kernels": 0, "agreeing": 0}
    result.captured = {
        "kernels": before["kernels"] + len(rows),
        "agreeing": before["agreeing"] + int((costs < grammar.CONTRADICTS).sum()),
    }
    return merged, _Known(names, _aligners(names, layout))


class _Columns:
    """The columns that are recovered, as arrays over all events."""

    def __init__(self, height: int) -> None:
        self.step = np.full(height, -1, np.int64)
        self.layer = np.full(height, -1, np.int32)
        self.op = np.full(height, -1, np.int32)
        self.phase = np.full(height, -1, np.int8)
        self.operations: dict[str, int] = {}

    def apply(self, events: pl.DataFrame) -> pl.DataFrame:
        names = list(self.operations)
        return events.with_columns(
            _nullable(self.step, pl.Int64).alias("step"),
            _nullable(self.layer, pl.Int32).alias("layer"),
            _texts(self.phase, list(schema.PHASES)).alias("phase"),
            _texts(self.op, names).alias("op"),
        )


def _nullable(values: NDArray[Any], kind: Any) -> pl.Series:
    column = pl.Series(values, dtype=kind)
    return column.set(column < 0, None)


def _texts(codes: NDArray[Any], names: list[str]) -> pl.Series:
    """Codes as text of few distinct values, null where negative."""
    table = pl.Series(names, dtype=pl.String).cast(pl.Categorical())
    if not names:
        return pl.Series([None] * len(codes), dtype=pl.Categorical())
    picked = _nullable(codes.astype(np.int64), pl.Int64).cast(pl.UInt32)
    return table.gather(picked)


def _recover_sequence(
    trace: Trace,
    names: Names,
    sequence: Sequence,
    layout: Layout | None,
    aligners: list[Aligner],
    columns: _Columns,
    rows: list[dict[str, Any]],
    result: Recovery,
) -> None:
    where = f"rank {sequence.rank} device {sequence.device}"
    result.replays += int(sequence.replay.max(initial=-1)) + 1
    passes = _passes(sequence, layout)
    if not passes:
        result.degradations.append(
            f"{where}: no forward pass found among {len(sequence)} kernels and copies: no sequence "
            "of kernels repeats as layers do"
        )
        return
    aligned = _aligned(sequence, aligners, passes)
    if not aligned.believed:
        result.degradations.append(
            f"{where}: names of kernels contradict their durations: only order and durations count"
        )
    elif (silent := _silent_share(names, sequence)) > 0.5:
        result.degradations.append(
            f"{where}: names say nothing of {100 * silent:.0f} % of kernel time: order and "
            "durations count"
        )
    table, ops = labels.label(aligned)
    offset = {code: columns.operations.setdefault(name, len(columns.operations))
              for code, name in enumerate(table)}  # fmt: skip
    renumber = np.array([*offset.values(), -1], np.int32)
    bounds = _bounds(aligned)
    whole = [_is_pass(aligned, bound) for bound in bounds]
    kept = [bound for bound, keep in zip(bounds, whole, strict=True) if keep]
    numbers = np.cumsum(whole) - 1
    ordinal = np.cumsum(np.diff(aligned.passes, prepend=aligned.passes[:1]) != 0)
    step = np.where(np.array(whole), numbers, -1)[ordinal]
    columns.step[sequence.rows] = step
    columns.layer[sequence.rows] = aligned.layers
    columns.op[sequence.rows] = renumber[ops]
    decided = _describe(trace, names, sequence, aligned, kept, where, layout, rows, result)
    codes = [schema.PHASES.index(phase) if phase else -1 for phase in decided]
    coded = np.array(codes or [-1], np.int8)
    columns.phase[sequence.rows] = np.where(step >= 0, coded[np.maximum(step, 0)], -1)


def _passes(sequence: Sequence, layout: Layout | None) -> list[list[Run]]:
    count = len(layout.layers) if layout else None
    passes = find_passes(sequence.codes, count, layout.period if layout else 1)
    # Where nothing repeats as often as the model has layers, something may repeat less often.
    return passes or find_passes(sequence.codes, None)


def _silent_share(names: Names, sequence: Sequence) -> float:
    """Share of device time in kernels whose names are of no class."""
    unknown = (names.classes == CLASS_CODES["unknown"])[sequence.names]
    return float(sequence.dur[unknown].sum()) / max(float(sequence.dur.sum()), 1.0)


def _aligners(names: Names, layout: Layout | None) -> list[Aligner]:
    """Grammars to try: the model's, or without a configuration those of usual models."""
    if layout is not None:
        return [Aligner(names, layout)]
    return [
        Aligner(names, Layout("unknown", (LayerKind(*kind),), qk_norm=qk_norm))
        for kind in (("attention", "dense"), ("attention", "moe"), ("mla", "moe"))
        for qk_norm in (False, True)
    ]


def _aligned(sequence: Sequence, aligners: list[Aligner], passes: list[list[Run]]) -> Alignment:
    """The alignment by the grammar that fits best."""
    alignments = (aligner.align(sequence, passes) for aligner in aligners)
    return min(alignments, key=lambda alignment: alignment.cost)


def _bounds(aligned: Alignment) -> list[slice]:
    edges = [0, *(np.flatnonzero(np.diff(aligned.passes)) + 1).tolist(), len(aligned.passes)]
    return [slice(first, last) for first, last in pairwise(edges)]


def _is_pass(aligned: Alignment, where: slice) -> bool:
    """Whether a step has layers: the trace may end with the inputs of one that it cuts off."""
    return bool((aligned.layers[where] >= 0).any())


def _scale(aligned: Alignment, where: slice) -> float:
    number = int(aligned.passes[where.start])
    return aligned.scales[number] if 0 <= number < len(aligned.scales) else 0.0


def _describe(
    trace: Trace,
    names: Names,
    sequence: Sequence,
    aligned: Alignment,
    steps: list[slice],
    where: str,
    layout: Layout | None,
    rows: list[dict[str, Any]],
    result: Recovery,
) -> list[str | None]:
    """Add the steps of one sequence to the table; returns their phases."""
    scales = [_scale(aligned, step) for step in steps]
    shapes = phases.shapes_of(sequence, names, aligned, steps, scales)
    decided, notes = phases.decide(shapes)
    annotated = _annotations(trace, sequence, aligned, steps)
    if annotated:
        result.annotated = _agreement(annotated, decided, result.annotated)
        decided = [
            annotation.phase if annotation and annotation.phase else phase
            for annotation, phase in zip(annotated, decided, strict=True)
        ]
    else:
        result.degradations += [f"{where}: {note}" for note in notes]
    layers = [_layer_count(aligned.layers[step]) for step in steps]
    expected = len(layout.layers) if layout else max(set(layers), key=layers.count)
    if odd := [number for number, count in enumerate(layers) if count != expected]:
        listed = ", ".join(f"{number} ({layers[number]})" for number in odd[:5])
        more = f" and {len(odd) - 5} more" if len(odd) > 5 else ""
        # Operations are then those of a model that did not run.
        doubt = "; another model ran, or a pipeline stage" if len(odd) == len(steps) else ""
        result.degradations.append(
            f"{where}: {len(odd)} of {len(steps)} steps do not have {expected} layers: step "
            f"{listed}{more}{doubt}"
        )
    for number, kernels in enumerate(steps):
        shape, note = shapes[number], annotated[number] if annotated else None
        start = int(sequence.start[kernels].min())
        end = int((sequence.start[kernels] + sequence.dur[kernels]).max())
        phase = decided[number]
        rows.append(
            {
                "step": number,
                "rank": sequence.rank if sequence.rank >= 0 else None,
                "device": sequence.device if sequence.device >= 0 else None,
                "phase": phase,
                "start_ns": start,
                "dur_ns": end - start,
                "device_ns": int(sequence.dur[kernels].sum()),
                **_sizes(phase, shape, note),
                "source": "periodicity",
                "kernels": kernels.stop - kernels.start,
                "layers": layers[number],
                "complete": layers[number] == expected,
            }
        )
    return decided


def _layer_count(layers: Ints) -> int:
    """Layers of a step; those of a first step that is cut off are numbered from the last."""
    layer = layers[layers >= 0]
    return int(layer.max() - layer.min()) + 1


def _sizes(
    phase: str | None, shape: phases.StepShape, note: Annotation | None
) -> dict[str, int | None]:
    if note is not None and note.phase:
        return {**data_of(note, "batch prefill_tokens context requests")}
    decode = phase == "decode"
    prompt = shape.tokens if phase == "prefill" else 0 if decode else None
    return {
        "batch": shape.sequences if decode else None,
        "prefill_tokens": prompt,
        "context": None,
        "requests": shape.sequences,
    }


def _annotations(
    trace: Trace, sequence: Sequence, aligned: Alignment, steps: list[slice]
) -> list[Annotation | None] | None:
    ranges = step_annotations.find_ranges(trace.events)
    if ranges is None:
        return None
    middles = []
    for step in steps:
        inside = np.flatnonzero(aligned.layers[step] >= 0) + step.start
        middles.append(int(inside[len(inside) // 2]))
    rows = sequence.rows[middles]
    correlations = trace.events["correlation"].gather(pl.Series(rows.astype(np.uint32))).to_list()
    calls = trace.events.filter(
        (pl.col("kind") == "api")
        & pl.col("correlation").is_in(
            [correlation for correlation in correlations if correlation is not None]
        )
    )
    launched = dict(zip(calls["correlation"].to_list(), calls["start_ns"].to_list(), strict=True))
    host = np.array([launched.get(correlation, -1) for correlation in correlations], np.int64)
    device = (sequence.start + sequence.dur // 2)[middles]
    matched = step_annotations.match(ranges, device, host)
    return matched if any(annotation is not None for annotation in matched) else None


def _agreement(
    annotated: list[Annotation | None], decided: list[str | None], earlier: dict[str, Any] | None
) -> dict[str, Any]:
    """Steps in an annotated range of their own, and those whose recovered phase is the same."""
    known = [annotation for annotation in annotated if annotation is not None]
    same = sum(
        annotation is not None and annotation.phase == phase
        for annotation, phase in zip(annotated, decided, strict=True)
    )
    before = earlier or {"steps": 0, "in_range": 0, "same_phase": 0}
    return {
        "steps": before["steps"] + len(annotated),
        "in_range": before["in_range"] + len(known),
        "same_phase": before["same_phase"] + same,
    }


def _steps_table(rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = schema.step_columns()
    return pl.DataFrame([{name: row[name] for name in columns} for row in rows], schema=columns)


def _known_steps(trace: Trace) -> list[dict[str, Any]]:
    """Steps that a trace brings; their layers are those of its events."""
    counted = (
        trace.events.filter(
            pl.col("kind").is_in(list(schema.DEVICE_KINDS)) & pl.col("step").is_not_null()
        )
        .group_by("step", "rank")
        .agg(
            kernels=pl.len(),
            layers=(pl.col("layer").max() + 1).fill_null(0),
            device=pl.col("device").min(),
        )
    )
    joined = trace.steps.join(counted, on=["step", "rank"], how="left", nulls_equal=True)
    return [
        {**row, "kernels": row["kernels"] or 0, "layers": row["layers"] or 0, "complete": True}
        for row in joined.sort("start_ns").iter_rows(named=True)
    ]
