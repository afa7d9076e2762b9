"""What mechanisms look at: the intervals of comparable steps, with the events around them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from assay.array_types import Flags, Floats, Ints
from assay.diagnose.critical_path.path import CriticalPath
from assay.diagnose.mechanisms.findings import MechanismClaim
from assay.diagnose.residuals import Residuals
from assay.diagnose.statistics.observations import observe
from assay.diagnose.statistics.telemetry_claims import TelemetryClaims, claims_of
from assay.diagnose.terms import TERMS
from assay.diagnose.waterfall import of_interest
from assay.errors import InputError
from assay.lazy_import import pl
from assay.observe import operations
from assay.planner.graph import Graph

IDLE: Final = ("launch_gaps", "host_stalls", "synchronization", "queueing", "profiler_overhead")
"""Terms in which the device does nothing."""

COMPARED: Final = ("throttling", "noisy neighbor", "host CPU starvation")
"""Mechanisms that compare steps in a state with steps outside it."""

PROFILERS: Final = ("kineto", "nsys", "rocprofv3", "cupti")
"""Sources of traces that slow the host down while they record."""


@dataclass(frozen=True)
class MechanismView:
    """A trace against its prediction, as mechanisms read it."""

    residuals: Residuals
    graph: Graph
    path: CriticalPath | None = None
    telemetry: pl.DataFrame | None = None

    @cached_property
    def step(self) -> int | None:
        """The step of the waterfall; None where that is a mean."""
        return self.residuals.waterfall.step

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Steps that the waterfall stands for: those like its own, on its rank and device."""
        like = of_interest(self.residuals.steps)
        own = like.filter(
            (pl.col("step") == self.step)
            & (pl.col("observed_ns") == self.residuals.waterfall.observed_ns)
        )
        if not own.height:
            return like.sort("step")
        lane = own.row(0, named=True)
        return like.filter(
            pl.col("rank").eq_missing(lane["rank"]) & pl.col("device").eq_missing(lane["device"])
        ).sort("step")

    @cached_property
    def telemetry_claims(self) -> TelemetryClaims | None:
        """What telemetry says of these steps; None without telemetry of their time."""
        clock = self.residuals.trace.header.clock
        if self.telemetry is None or clock not in ("realtime", "monotonic"):
            return None
        steps = self.all_steps.with_columns(dur_ns=pl.col("observed_ns"))
        try:
            return claims_of(observe(self.telemetry, steps, clock), COMPARED)
        except InputError as error:
            return TelemetryClaims({}, None, (error.message,))

    @cached_property
    def all_steps(self) -> pl.DataFrame:
        """Steps of every phase on the rank and device of the waterfall, by time."""
        lanes = self.steps.select("rank", "device").unique()
        return self.residuals.steps.join(
            lanes, on=["rank", "device"], how="semi", nulls_equal=True
        ).sort("start_ns")

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """Intervals of these steps by time, with what their event is."""
        chosen = self.residuals.intervals.join(
            self.steps.select("rank", "device", "step"),
            on=["rank", "device", "step"],
            how="semi",
            nulls_equal=True,
        ).sort("start_ns")
        events = self.residuals.trace.events.select(
            "kind", "name", "op", pl.col("dur_ns").alias("event_ns"), "correlation"
        )
        return chosen.hstack(events.select(pl.all().gather(chosen["row"].cast(pl.UInt32))))

    @cached_property
    def dur(self) -> Ints:
        """The length of each interval."""
        durations: Ints = self.intervals["dur_ns"].to_numpy()
        return durations

    def of_terms(self, *terms: str) -> Flags:
        """Intervals of some terms."""
        wanted = np.zeros(len(TERMS), bool)
        wanted[[list(TERMS).index(term) for term in terms]] = True
        is_wanted: Flags = wanted[self._terms]
        return is_wanted

    @cached_property
    def _terms(self) -> Ints:
        """The place of each interval's term in `TERMS`."""
        enum = pl.Enum(list(TERMS))
        terms: Ints = self.intervals["term"].cast(enum).to_physical().cast(pl.Int64).to_numpy()
        return terms

    @cached_property
    def _operations(self) -> tuple[Ints, tuple[str, ...]]:
        """A number for the operation of each interval's kernel, -1 for none, and their names."""
        column = self.intervals["op"]
        names = tuple(column.unique().drop_nulls().cast(pl.String).sort())
        enum = pl.Enum(list(names))
        codes = column.cast(enum).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        return codes, names

    def with_operation(self, names: Collection[str]) -> Flags:
        """Intervals whose kernel computes one of these operations."""
        codes, known = self._operations
        wanted = np.zeros(len(known) + 1, bool)
        for place, operation in enumerate(known):
            wanted[place] = any(part in names for part in operations.parts(operation))
        # The last entry is for intervals without a kernel.
        is_wanted: Flags = wanted[codes]
        return is_wanted

    def bound_by(self, bound: str) -> Flags:
        """Intervals whose kernel computes what the prediction has as limited by this."""
        limited = {
            part
            for node in self.graph.nodes
            if node.bound == bound
            for part in operations.parts(node.operation)
        }
        return self.with_operation(limited)

    @cached_property
    def is_device(self) -> Flags:
        """Intervals in which the device runs their event."""
        is_device: Flags = self.intervals["row"].is_not_null().to_numpy()
        return is_device

    @cached_property
    def in_replay(self) -> Flags:
        """Idle intervals between two kernels of one graph replay."""
        correlation = self.intervals["correlation"].fill_null(-1).to_numpy()
        place = np.arange(len(correlation))
        before = np.maximum.accumulate(np.where(self.is_device, place, -1))
        after = np.minimum.accumulate(np.where(self.is_device, place, len(place))[::-1])[::-1]
        known = (before >= 0) & (after < len(place)) & ~self.is_device
        first = correlation[np.where(known, before, 0)]
        second = correlation[np.where(known, after, 0)]
        in_one_replay: Flags = known & (first >= 0) & (first == second)
        return in_one_replay

    @cached_property
    def is_late(self) -> Flags:
        """Launch gaps that the host made: the call that ends one returned after it had begun.

        Also those whose call the trace does not have: the device was then not known to be ahead.
        """
        events = self.residuals.trace.events.select("start_ns", "dur_ns")
        calls = events.select(pl.all().gather(self.intervals["cause"].cast(pl.UInt32)))
        returned = (calls["start_ns"] + calls["dur_ns"]).fill_null(np.iinfo(np.int64).max)
        begun = self.intervals["start_ns"]
        late: Flags = (returned > begun).to_numpy()
        return self.of_terms("launch_gaps") & ~self.in_replay & late

    @cached_property
    def is_launch_bound(self) -> bool:
        """Whether the device mostly idles because the next kernel is launched late."""
        idle = self.of_terms(*IDLE)
        return 2 * int(self.dur[self.is_late].sum()) >= int(self.dur[idle].sum()) > 0

    def per_step(self, chosen: Flags) -> Floats:
        """The time of some intervals in each of `steps`."""
        known = self.steps["step"].to_numpy()
        place = np.searchsorted(known, self.intervals["step"].to_numpy()[chosen])
        return np.bincount(place, self.dur[chosen], minlength=len(known)).astype(np.float64)

    def in_step(self, chosen: Flags) -> float:
        """The time of some intervals in the step of the waterfall."""
        times = self.per_step(chosen)
        if self.step is None:
            return float(times.mean()) if len(times) else 0.0
        return float(times[self.steps["step"].to_numpy() == self.step].sum())

    def above_floor(self, chosen: Flags, what: str) -> MechanismClaim | None:
        """A claim to the time of some kernels above their floor, with their share of it."""
        above = chosen & self.of_terms("kernel_inefficiency")
        if not above.any():
            return None
        floor, over = self.in_step(chosen & self.of_terms("floor")), self.in_step(above)
        share = f", {100 * floor / (floor + over):.0f} % of it their floor" if floor + over else ""
        count = self.intervals.filter(chosen & self.in_shown_step)["row"].n_unique()
        return MechanismClaim(
            above, (f"{count:,} {what} take {(floor + over) / 1e3:,.1f} us{share}",)
        )

    def gaps_claim(self, idle: Flags, where: str) -> MechanismClaim | None:
        """A claim to some idle intervals, with how many and how long they are in the step."""
        if not idle.any():
            return None
        lengths = self.dur[idle & self.in_shown_step]
        mean = float(lengths.mean()) if len(lengths) else 0.0
        return MechanismClaim(idle, (f"{len(lengths):,} gaps {where}, {mean:,.0f} ns each",))

    def read_efficiency(self, reading: Flags) -> float | None:
        """The share of the read ceiling that kernels which stream weights reach in this step."""
        floor = self.in_step(reading & self.of_terms("floor"))
        above = self.in_step(reading & self.of_terms("kernel_inefficiency"))
        return floor / (floor + above) if floor else None

    def host_sections(self, chosen: Flags) -> tuple[str, ...]:
        """What the host did in some idle intervals of the waterfall's step, the longest first."""
        events = self.residuals.trace.events["name"].cast(pl.String)
        mine = self.intervals.filter(chosen & self.in_shown_step).select("cause", "dur_ns")
        named = mine.with_columns(events.gather(mine["cause"].cast(pl.UInt32)).alias("name"))
        sums = named.group_by("name").agg(pl.col("dur_ns").sum()).sort("dur_ns", descending=True)
        listed = [
            f"{took / 1e3:,.1f} us before or in {name}"
            for name, took in sums.head(3).select("name", "dur_ns").rows()
            if name is not None
        ]
        return (f"the device idled {', '.join(listed)}",) if listed else ()

    @cached_property
    def window(self) -> tuple[int, int]:
        """Start and end of the waterfall's step, or of all steps where it is a mean."""
        shown = self.intervals.filter(self.in_shown_step)
        start = shown["start_ns"].to_numpy()
        end = start + shown["dur_ns"].to_numpy()
        return int(start.min(initial=end.max(initial=0))), int(end.max(initial=0))

    @cached_property
    def host_records(self) -> int:
        """Events of the host that began in the waterfall's step."""
        low, high = self.window
        kinds = pl.col("kind").is_in(["host", "api", "sync"])
        inside = (pl.col("start_ns") >= low) & (pl.col("start_ns") < high)
        return int(self.residuals.trace.events.select((kinds & inside).sum()).item())

    @cached_property
    def is_mapped(self) -> Flags:
        """Intervals whose kernel has an operation."""
        is_mapped: Flags = self.intervals["op"].is_not_null().to_numpy()
        return is_mapped

    def rows(self, chosen: Flags, limit: int = 20) -> tuple[int, ...]:
        """Rows of the events behind some intervals of the waterfall's step, the longest first."""
        mine = chosen & self.in_shown_step
        behind = pl.coalesce("row", "cause").alias("row")
        ranked = self.intervals.select(behind, "dur_ns").filter(pl.Series(mine))
        ranked = ranked.drop_nulls("row").group_by("row").agg(pl.col("dur_ns").sum())
        ranked = ranked.sort(["dur_ns", "row"], descending=[True, False]).head(limit)
        return tuple(ranked["row"].to_list())

    @cached_property
    def in_shown_step(self) -> Flags:
        """Intervals of the waterfall's step; all of them where it is a mean."""
        if self.step is None:
            return np.ones(self.intervals.height, bool)
        is_shown: Flags = self.intervals["step"].to_numpy() == self.step
        return is_shown
