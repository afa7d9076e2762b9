"""More or fewer threads: bandwidth and arithmetic, calibrated for each number of cores."""

from __future__ import annotations

from typing import Final

from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import Known
from assay.improve.policy.prediction import Prediction, amdahl, between
from assay.improve.policy.step_now import kernel_share
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

KNOBS: Final = ("threads", "threads_batch")


def predict(candidate: Candidate, known: Known) -> Prediction | str:
    """The ratio for another number of threads; a text says why there is none."""
    knob = next((knob for knob in KNOBS if knob in candidate.changes), None)
    if knob is None or len(candidate.changes) > 1:
        return "not a change of the threads"
    if "cuda" in known.description.capabilities:
        return "the kernels run on a GPU"
    before, after = _used(known.settings[knob], known), _used(candidate.changes[knob], known)
    if before == after:
        return Prediction(Interval(1.0, 1.0, 1.0), f"{after} threads either way")
    measured = _measured(known, before, after)
    if measured is None:
        # Memory that one core saturates gains nothing, arithmetic in proportion.
        cores = known.cores
        bounds = between(1.0, min(after, cores) / min(before, cores))
        return Prediction(bounds, f"bounds: {before} to {after} threads of {cores} cores")
    share = kernel_share(known)
    by = f"calibrated bandwidth and arithmetic of {before} and {after} threads"
    if share is None:
        return Prediction(measured, by)
    return Prediction(
        amdahl(measured, share), f"{by}, of the {share:.0%} of a step that kernels take"
    )


def _measured(known: Known, before: int, after: int) -> Interval | None:
    """The ratio between reading memory and computing, from the calibration's ceilings."""
    if known.hardware is None:
        return None
    ratios = []
    for operation in ("read", "linear", "arithmetic"):
        rates: dict[int, dict[tuple[tuple[str, object], ...], float]] = {before: {}, after: {}}
        for ceiling in known.hardware.ceilings.values():
            threads = ceiling.parameters.get("threads")
            if ceiling.parameters.get("operation") != operation or threads not in rates:
                continue
            rest = tuple(sorted((name, value) for name, value in ceiling.parameters.items()
                                if name != "threads"))  # fmt: skip
            rates[threads][rest] = 1 / ceiling.value if ceiling.unit == "s" else ceiling.value
        ratios += [
            rates[after][key] / rates[before][key] for key in rates[before].keys() & rates[after]
        ]
    if not ratios:
        return None
    ratios.sort()
    middle = ratios[len(ratios) // 2]
    return Interval(middle, ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10])


def _used(value: Setting, known: Known) -> int:
    """Threads that a setting means: 0 and null are one for each core."""
    return value if isinstance(value, int) and value > 0 else known.cores
