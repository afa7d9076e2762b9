"""The question of a what-if: which trace, what ran in it, and what is changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.answers import Progress, silent
from assay.diagnose import subject
from assay.diagnose.examination import check_events, check_model, situation_of
from assay.diagnose.replay.changes import MEANINGS, NODE_KINDS, parse_all
from assay.diagnose.replay.planned_cost import Setting
from assay.diagnose.replay.whatif import WhatIf, whatif
from assay.diagnose.request import Request
from assay.diagnose.step_predictions import predict_steps
from assay.errors import InputError
from assay.observe.structure.opening import open_recovered
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

if TYPE_CHECKING:
    from assay.diagnose.replay.load_figures import Load
    from assay.observe.structure.recovery import Recovery
    from assay.observe.trace import Trace


def what_if(
    trace: str | Path,
    changes: Sequence[str],
    *,
    model: str | None = None,
    gpu: str | None = None,
    engine: str | None = None,
    batch: int | None = None,
    context: int | None = None,
    load: Load | None = None,
    progress: Progress = silent,
) -> WhatIf:
    """Say what changes, such as `batch=8` or `kv=fp8`, would do to the steps of a trace.

    What is not given is read from the trace; `load` are requests that meet the scheduler.
    """
    parsed = parse_all(changes)
    if not parsed:
        names = ", ".join(name.partition("=")[0] for name in MEANINGS)
        raise InputError("expected at least one --change, got none", f"changes: {names}")
    where = str(trace)
    recovered = open_recovered(trace, model, progress=progress)
    subject.check_sizes(batch=batch, context=context)
    check_events(recovered.trace, where)
    replayed = subject.with_batch(recovered.trace, batch, context)
    notes = [*replayed.header.degradations, *recovered.degradations]
    setting = None
    needed = load is not None or any(change.kind not in NODE_KINDS for change in parsed)
    if model is not None and needed:
        progress("predicting the steps")
        setting, replayed = _setting(where, recovered, replayed, model, gpu, engine, notes)
    progress("replaying")
    answer = whatif(replayed, parsed, setting=setting, load=load)
    return dataclasses.replace(
        answer,
        trace=where,
        model=setting.model.name if setting else None,
        gpu=setting.hardware.name if setting else None,
        notes=tuple(dict.fromkeys([*notes, *answer.notes])),
    )


def _setting(
    where: str,
    recovered: Recovery,
    trace: Trace,
    model: str,
    gpu: str | None,
    engine: str | None,
    notes: list[str],
) -> tuple[Setting, Trace]:
    """What the decode steps of the trace ran, as the planner takes it."""
    subject.check_engine(engine)
    subject.check_stated(trace, gpu=gpu, engine=engine, tensor=None)
    spec = model_spec(model)
    named = gpu or subject.gpu_of(trace)
    if named is None:
        listed = ", ".join(subject.gpu_names(trace)) or "none"
        raise InputError(
            f"{where}: expected a GPU of the catalog, the trace names {listed}",
            "--gpu names one, or a file of assay calibrate",
        )
    hardware = hardware_spec(named)
    check_model(recovered, spec, where)
    request = Request(spec, hardware, engine)
    situation = situation_of(trace, request, where, notes)
    if not situation.can_predict:
        raise InputError(f"{where}: {notes[-1]}")
    predicted = predict_steps(trace, request, situation)
    notes += predicted.notes
    if not predicted.graphs or predicted.batch is None:
        raise InputError(
            f"{where}: expected decode steps of known size, got none", "--batch says the size"
        )
    setting = Setting(spec, hardware, BatchConfig(**dict(predicted.graphs[0].batch)))
    return setting, subject.with_batch(trace, None, predicted.inferred)
