"""The captured trace, replayed under the changes that describe a lever."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from assay.errors import AssayError
from assay.improve.levers.lever import Candidate, Lever
from assay.improve.levers.schema import filled
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, amdahl, with_model_error
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting as KnobValue

if TYPE_CHECKING:
    from assay.diagnose.replay.changes import WhatIfChange
    from assay.diagnose.replay.planned_cost import Setting
    from assay.diagnose.replay.whatif import WhatIf

HOST_KINDS: Final = ("launch", "host")
"""Changes that take host time away, which profilers add to."""


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """The ratio by replay; a text says why there is none."""
    lever = known.levers.get(candidate.levers[0]) if len(candidate.levers) == 1 else None
    if lever is None or not lever.changes:
        return "no what-if change describes it"
    if known.trace is None:
        return "no trace to replay"
    from assay.diagnose.replay.changes import LOAD_KINDS

    before = {knob.knob: known.settings.get(knob.knob) for knob in lever.knobs}
    try:
        changes = _parsed(lever, {**before, **candidate.changes})
    except AssayError as error:
        return f"no replay: {error.message}"
    if any(change.kind in LOAD_KINDS for change in changes):
        return "it only shows under load"
    try:
        kept = _kept(known)
    except AssayError as error:
        return f"no replay of what was kept: {error.message}"
    treatment = _once(known, tuple((kept | _by_target(changes)).values()))
    if isinstance(treatment, str):
        return treatment
    control = _once(known, tuple(kept.values())) if kept else None
    if isinstance(control, str):
        return control
    # The trace shows neither what was kept nor the candidate: both sides are replayed.
    step = 1.0 if control is None else 1 + control.change.value
    low, middle, high = (
        step / (1 + change)
        for change in (treatment.change.hi, treatment.change.value, treatment.change.lo)
    )
    ratio = Interval(middle, min(low, middle), max(high, middle))
    if any(change.kind in HOST_KINDS for change in changes):
        ratio = _without_profiler(ratio, treatment.before["step_ns"].value * step, known)
    share = known.decode_share()
    return Prediction(
        amdahl(with_model_error(ratio), 1.0 if share is None else share),
        f"what-if replay of {treatment.steps} {treatment.phase} steps: {', '.join(treatment.changes)}",
    )


def _parsed(lever: Lever, values: Mapping[str, KnobValue]) -> tuple[WhatIfChange, ...]:
    from assay.diagnose.replay.changes import parse_all

    return parse_all([filled(text, values) for text in lever.changes])


def _by_target(changes: Sequence[WhatIfChange]) -> dict[tuple[str, str], WhatIfChange]:
    return {(change.kind, change.target): change for change in changes}


def _kept(known: Known) -> dict[tuple[str, str], WhatIfChange]:
    """What kept levers changed, as far as a replay can show it; a later one replaces an earlier."""
    from assay.diagnose.replay.changes import LOAD_KINDS

    kept: dict[tuple[str, str], WhatIfChange] = {}
    for candidate in known.kept:
        for lever in (known.levers[name] for name in candidate.levers if name in known.levers):
            values = {knob.knob: known.settings.get(knob.knob) for knob in lever.knobs}
            kept |= _by_target(_parsed(lever, values))
    return {key: change for key, change in kept.items() if change.kind not in LOAD_KINDS}


def _once(known: Known, changes: Sequence[WhatIfChange]) -> WhatIf | str:
    key = ("whatif", *(change.text for change in changes))
    replayed: WhatIf | str = known.once(key, partial(_replayed, known, changes))
    return replayed


def _without_profiler(ratio: Interval, traced: float, known: Known) -> Interval:
    """Host time that only the recording took is no gain: the untraced TPOT bounds the ratio."""
    tpot = known.figure("mean_tpot_ms")
    if tpot is None or tpot * 1e6 >= traced:
        return ratio
    slower = tpot * 1e6 / traced
    return Interval(ratio.value * math.sqrt(slower), ratio.lo * slower, ratio.hi)


def _replayed(known: Known, changes: Sequence[WhatIfChange]) -> WhatIf | str:
    from assay.diagnose.replay.whatif import whatif

    assert known.trace is not None
    try:
        return whatif(known.trace, changes, setting=_setting(known))
    except AssayError as error:
        return f"no replay: {error.message}"


def _setting(known: Known) -> Setting | None:
    """What the traced steps ran, for the planner's ratios."""
    from assay.diagnose.replay.planned_cost import Setting
    from assay.planner.specs import BatchConfig

    if known.model is None or known.hardware is None or known.diagnosis is None:
        return None
    batch = known.diagnosis.graph.batch
    if not batch:
        return None
    return Setting(known.model, known.hardware, BatchConfig(**dict(batch)))
