"""The stretch of a trace that is drawn: all of it, a step, or between two times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.lazy_import import pl

if TYPE_CHECKING:
    from assay.observe.trace import Trace


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, on the trace's clock."""

    from_ns: int
    to_ns: int
    step: int | None = None
    title: str = "whole trace"

    @property
    def dur_ns(self) -> int:
        """Its length, 1 at least."""
        return max(self.to_ns - self.from_ns, 1)


def step_window(trace: Trace, step: int) -> Window:
    """The window of a step, over all ranks."""
    rows = trace.steps.filter((pl.col("step") == step) & pl.col("start_ns").is_not_null())
    if rows.height:
        end = (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).max()
        low, high = rows.select(pl.col("start_ns").min(), end.alias("end")).row(0)
        words = [f"step {step}"]
        first = rows.row(0, named=True)
        if first["phase"] is not None:
            words.append(first["phase"])
        if first["batch"] is not None:
            words.append(f"batch {first['batch']}")
        return Window(low, high, step, ", ".join(words))
    tagged = trace.events.filter((pl.col("step") == step) & pl.col("start_ns").is_not_null())
    if tagged.height:
        end = (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).max()
        low, high = tagged.select(pl.col("start_ns").min(), end.alias("end")).row(0)
        return Window(low, high, step, f"step {step}")
    raise _unknown_step(trace, step)


def _unknown_step(trace: Trace, step: int) -> InputError:
    known = trace.steps["step"].drop_nulls()
    if known.is_empty():
        known = trace.events["step"].drop_nulls()
    if known.is_empty():
        return InputError(
            f"step {step}: the trace has no steps",
            "assay trace steps finds the steps of a trace of another tool",
        )
    steps = known.to_list()
    low, high = min(steps), max(steps)
    return InputError(f"step {step}: expected a step from {low} to {high}")


def time_window(origin_ns: int, end_ns: int, since_ns: int | None, until_ns: int | None) -> Window:
    """The window between two times, counted from the trace's first event."""
    # A trace of one moment is a nanosecond long.
    end_ns = max(end_ns, origin_ns + 1)
    low = origin_ns if since_ns is None else origin_ns + since_ns
    high = end_ns if until_ns is None else origin_ns + until_ns
    length = end_ns - origin_ns
    if low >= end_ns or (since_ns or 0) < 0:
        raise InputError(
            f"from: expected a time from 0 to {length / 1e6:g} ms, the trace's length, "
            f"got {(since_ns or 0) / 1e6:g} ms"
        )
    if high <= low:
        raise InputError(
            f"to: expected a time after {(low - origin_ns) / 1e6:g} ms, "
            f"got {(high - origin_ns) / 1e6:g} ms"
        )
    is_whole = since_ns is None and until_ns is None
    return Window(low, high, None, "whole trace" if is_whole else "part of the trace")
