"""The clock of a device during the steps of a trace, over the clock that a prediction assumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.array_types import Floats
from assay.diagnose.itemizing.lanes import Lane
from assay.lazy_import import pl
from assay.observe.header import TraceHeader
from assay.observe.telemetry import reading
from assay.planner.graph import Graph

OLDEST_NS: Final = 2_000_000_000
"""A sample this old says nothing of a step."""
CLOCK: Final = "sm_clock"
"""The total of a graph that holds the SM clock of the prediction, in Hz."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clock of each step of a lane over the predicted one; 1 where it is not known."""

    share: Floats
    note: str | None
    """Why it is not known."""

    @classmethod
    def during(
        cls, lane: Lane, header: TraceHeader, telemetry: pl.DataFrame | None, graph: Graph
    ) -> Clocks:
        """Clocks from samples of telemetry that cover the steps."""
        unknown = np.ones(lane.steps.height)
        if telemetry is None:
            return cls(unknown, "throttling not examined: needs telemetry of the SM clock")
        if CLOCK not in graph.totals:
            return cls(unknown, "throttling not examined: the prediction names no SM clock")
        if header.clock not in ("realtime", "monotonic"):
            return cls(
                unknown,
                f'throttling not examined: the trace is on the clock "{header.clock}", which '
                "telemetry is not",
            )
        samples = telemetry.filter(
            pl.col("gpu_sm_clock_hz").is_not_null()
            & ((pl.col("index") == lane.key[2]) | (lane.key[2] < 0))
        )
        if not samples.height:
            return cls(unknown, "throttling not examined: telemetry has no SM clock of the device")
        steps = lane.steps.select("step", "start_ns", "dur_ns").with_row_index("place")
        joined = reading.during(samples, steps, header.clock).filter(
            pl.col("sample_age_ns") <= OLDEST_NS
        )
        if not joined.height:
            return cls(unknown, "throttling not examined: no sample of telemetry covers a step")
        share = unknown.copy()
        share[joined["place"].to_numpy()] = (
            joined["gpu_sm_clock_hz"].to_numpy() / graph.totals[CLOCK].value
        )
        missing = lane.steps.height - joined["place"].n_unique()
        note = f"{missing} steps have no sample of the SM clock" if missing else None
        return cls(share, note)
