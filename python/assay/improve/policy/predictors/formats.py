"""Another format of the weights: bytes that a step streams, before and after."""

from __future__ import annotations

from typing import Final

from assay.errors import AssayError
from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, amdahl, between
from assay.improve.policy.step_now import kernel_share
from assay.load.workloads.measurement import Setting

KNOBS: Final = ("weight_format", "quantization")


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """Bounds of the ratio: nothing, or the bytes saved (or added); a text says why there are none."""
    knob = next((knob for knob in KNOBS if knob in candidate.changes), None)
    if knob is None or len(candidate.changes) > 1:
        return "not a change of the weights' format"
    before, after = _bytes(known.settings.get(knob), known), _bytes(candidate.changes[knob], known)
    if before is None or after is None:
        return "the bytes of a format are not known"
    bounds = between(1.0, before / after)
    share = kernel_share(known)
    return Prediction(
        bounds if share is None else amdahl(bounds, share),
        f"bounds: {before:.3g} to {after:.3g} bytes a weight, streamed in each step",
    )


def _bytes(value: Setting, known: Known) -> float | None:
    """Bytes of a weight in the format of a setting; the file's own where it names none."""
    from assay.planner.formats import stored_bytes

    name = value if isinstance(value, str) and value not in ("", "file") else None
    if name is None:
        stored = known.description.details.get("weight_format")
        own = known.model.weight_dtype if known.model is not None else None
        name = stored if isinstance(stored, str) else own
    if not name:
        return None
    try:
        return stored_bytes(name)
    except AssayError:
        return None
