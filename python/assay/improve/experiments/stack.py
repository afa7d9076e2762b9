"""Several levers at once: joint candidates, the whole stack again, and each lever left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.errors import InputError
from assay.improve.engines.protocol import Engine
from assay.improve.experiments.experiment import run_experiment
from assay.improve.experiments.result import ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.settings_check import same
from assay.improve.levers.lever import CORRECTNESS, SAFETY, Candidate
from assay.load.figure import Figure
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Workload

OnResult = Callable[[ExperimentResult], None]


def joint(candidates: Sequence[Candidate], name: str | None = None) -> Candidate:
    """All of the changes in one candidate, with the strictest classes among them.

    Predictions multiply, as if the levers did not interact: what the measured joint ratio differs
    from that is the interaction.
    """
    changes: dict[str, Setting] = {}
    for one in candidates:
        for knob, value in one.changes.items():
            if knob in changes and not same(changes[knob], value):
                raise InputError(
                    f"joint candidate: expected one value of {knob}, got {changes[knob]!r} and {value!r}"
                )
            changes[knob] = value
    predictions = [one.prediction for one in candidates]
    known = [one for one in predictions if one is not None]
    return Candidate(
        name=name or " + ".join(one.name for one in candidates),
        levers=tuple(dict.fromkeys(lever for one in candidates for lever in one.levers)),
        changes=changes,
        correctness=max((one.correctness for one in candidates), key=CORRECTNESS.index),
        safety=max((one.safety for one in candidates), key=SAFETY.index),
        hot=all(one.hot for one in candidates),
        prediction=_product(known) if len(known) == len(predictions) and known else None,
        predicted_by="product of the single predictions" if len(known) == len(predictions) else "",
        cost_s=max((one.cost_s for one in candidates), default=0.0),
    )


def confirm(
    engine: Engine,
    workload: Workload,
    kept: Sequence[Candidate],
    start: Mapping[str, Setting],
    settings: ExperimentSettings,
    *,
    name: str = "confirmation",
    **given: Any,
) -> ExperimentResult:
    """Measure the whole stack again, against the settings at the start.

    The engine has the stack on entry and on return; in between the start is its control.
    """
    stack = joint(kept, name)
    undo = engine.configure({knob: start[knob] for knob in stack.changes})
    try:
        return run_experiment(engine, workload, stack, settings, name=name, **given)
    finally:
        undo()


def leave_one_out(
    engine: Engine,
    workload: Workload,
    kept: Sequence[Candidate],
    start: Mapping[str, Setting],
    settings: ExperimentSettings,
    *,
    on_result: OnResult | None = None,
    **given: Any,
) -> dict[str, ExperimentResult]:
    """Each kept candidate against the stack without it: what it adds now that the others are there.

    By the candidate's name; improved is a credit that it earns. The engine has the stack on entry
    and on return.
    """
    found: dict[str, ExperimentResult] = {}
    for one in kept:
        others = [other.changes for other in kept if other is not one]
        without = {
            knob: next((change[knob] for change in others if knob in change), start[knob])
            for knob in one.changes
        }
        undo = engine.configure(without)
        try:
            result = run_experiment(
                engine, workload, one, settings, name=f"without {one.name}", **given
            )
        finally:
            undo()
        found[one.name] = result
        if on_result is not None:
            on_result(result)
    return found


def _product(figures: Sequence[Figure]) -> Figure:
    return Figure(
        math.prod(one.value for one in figures),
        math.prod(one.lo for one in figures),
        math.prod(one.hi for one in figures),
    )
