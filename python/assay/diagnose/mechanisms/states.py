"""Steps under different states of the machine, from samples of telemetry."""

from __future__ import annotations

from typing import Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.diagnose.mechanisms.findings import MechanismEstimate, NotExamined
from assay.diagnose.mechanisms.view import MechanismView
from assay.lazy_import import pl
from assay.observe.telemetry import reading

OLDEST_NS: Final = 2_000_000_000
"""A sample this old says nothing of a step."""
FEW: Final = 5
"""Steps of a state below which their median is not compared."""
DRAWS: Final = 400
RECORD: Final = "--telemetry names a recording of assay telemetry record"


def samples(view: MechanismView, source: str, *fields: str) -> pl.DataFrame | NotExamined:
    """The steps of the view with these fields of the newest sample; every field has a value."""
    if view.telemetry is None:
        return NotExamined(f"telemetry of {' and '.join(fields)}; {RECORD}")
    clock = view.residuals.trace.header.clock
    if clock not in ("realtime", "monotonic"):
        return NotExamined(f'a trace on a clock that telemetry has, this one is on "{clock}"')
    chosen = view.telemetry.filter(pl.col("source") == source)
    present = chosen.filter(pl.all_horizontal(pl.col(field).is_not_null() for field in fields))
    if not present.height:
        return NotExamined(f"{' and '.join(fields)}, which the telemetry lacks")
    steps = view.steps.select("step", "start_ns", pl.col("observed_ns").alias("dur_ns"))
    joined = reading.during(present, steps, clock).filter(pl.col("sample_age_ns") <= OLDEST_NS)
    if not joined.height:
        return NotExamined("telemetry of the time of the trace: no sample covers a step")
    return joined


def contrast(
    view: MechanismView, affected: Flags, took: Floats, what: str
) -> MechanismEstimate | NotExamined | None:
    """What steps in a state take longer than steps outside it, in the mean over all steps."""
    if not affected.any():
        return None
    if (~affected).sum() < FEW or affected.sum() < FEW:
        return NotExamined(
            f"{FEW} steps in the state and {FEW} outside to compare: {int(affected.sum())} of "
            f"{len(affected)} steps had {what}"
        )
    difference = float(np.median(took[affected]) - np.median(took[~affected]))
    choose = np.random.default_rng(0)
    draws = [
        float(
            np.median(choose.choice(took[affected], affected.sum()))
            - np.median(choose.choice(took[~affected], (~affected).sum()))
        )
        for _ in range(DRAWS)
    ]
    lo, hi = np.quantile(draws, [0.05, 0.95]).tolist()
    if lo <= 0:
        return None
    share = float(affected.mean())
    return MechanismEstimate(
        share * difference,
        share * lo,
        share * hi,
        (
            f"{int(affected.sum())} of {len(affected)} steps had {what}; their median is "
            f"{difference / 1e3:,.1f} us longer",
        ),
        source="telemetry",
        beyond_step=True,
    )
