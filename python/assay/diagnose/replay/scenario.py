"""A trace ready for replay: its dependency graph, its steps, and the times that changes alter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.array_types import Flags, Ints
from assay.diagnose.replay import clock
from assay.diagnose.replay.changes import Amount, matching
from assay.diagnose.replay.columns import starts
from assay.diagnose.replay.edges import GRAPH, STREAM, THREAD, WAIT, Edges, dependencies
from assay.errors import InputError
from assay.lazy_import import np, pl
from assay.observe import schema
from assay.observe.operations import parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.observe.trace import Trace


@dataclass(slots=True)
class Scenario:
    """A dependency graph whose delays and durations may be changed, and the notes of changes.

    Arrays have one entry a node, in the order of `edges.rows`.
    """

    edges: Edges
    start: Ints
    """Observed starts: the order of the replay."""
    step: Ints
    is_device: Flags
    is_copy: Flags
    operation: NDArray[np.object_]
    name: NDArray[np.object_]
    is_layer: Flags
    steps: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    """What was assumed, in words."""
    log_error: float = 0.0
    """Standard deviation of the logarithm of the step time from the models of its changes."""

    @classmethod
    def of(cls, trace: Trace) -> Scenario:
        """The scenario of a trace as it was recorded."""
        events = trace.events
        if events.is_empty():
            raise InputError("expected a trace with events, got none")
        edges = dependencies(trace)
        rows = edges.rows
        kind = events["kind"].cast(pl.String)
        is_device = kind.is_in(list(schema.DEVICE_KINDS)).to_numpy()[rows]
        if not is_device.any():
            raise InputError(
                "expected a trace with kernels or copies of a device, got host events only"
            )
        return cls(
            edges,
            starts(events)[rows],
            events["step"].fill_null(-1).to_numpy()[rows],
            is_device,
            (kind == "memcpy").to_numpy()[rows],
            events["op"].cast(pl.String).fill_null("").to_numpy()[rows],
            events["name"].cast(pl.String).fill_null("").to_numpy()[rows],
            events["layer"].is_not_null().to_numpy()[rows],
            trace.steps,
            list(edges.degradations),
        )

    def replayed(self) -> clock.Times:
        """The times of all nodes under the changes."""
        return clock.run(self.edges, self.start)

    def with_work(self, work: Ints) -> None:
        """Replace the durations."""
        self.edges = dataclasses.replace(self.edges, work_ns=work)

    def place(self) -> Ints:
        """For each row of the event table the place of its node, or -1."""
        rows = self.edges.rows
        place_of_row = np.full(int(rows.max()) + 1, -1, np.int64)
        place_of_row[rows] = np.arange(len(rows))
        return place_of_row


def scale(scenario: Scenario, chosen: Flags, amount: Amount) -> None:
    """Change the durations of nodes by a factor, or to a time each."""
    work = scenario.edges.work_ns.copy()
    if amount.factor is not None:
        work[chosen] = np.rint(work[chosen] * amount.factor).astype(np.int64)
    else:
        work[chosen] = round(amount.ns or 0.0)
    scenario.with_work(work)


def of_operation(scenario: Scenario, operation: str, text: str) -> Flags:
    """Nodes of an operation, fused ones included."""
    wanted = set(parts(operation))
    is_wanted = {name: bool(wanted & set(parts(name))) for name in set(scenario.operation) if name}
    chosen = np.array([is_wanted.get(name, False) for name in scenario.operation], np.bool_)
    if not chosen.any():
        known = ", ".join(sorted(is_wanted)) or "none"
        raise InputError(
            f'change "{text}": the trace has no kernels of {operation}', f"its operations: {known}"
        )
    return chosen & scenario.is_device


def of_name(scenario: Scenario, pattern: str, text: str) -> Flags:
    """Device events whose name matches a pattern."""
    names = sorted(set(scenario.name[scenario.is_device]))
    is_match = dict(zip(names, matching(names, pattern, text), strict=True))
    chosen = np.array([is_match.get(name, False) for name in scenario.name], np.bool_)
    chosen &= scenario.is_device
    if not chosen.any():
        raise InputError(f'change "{text}": no kernel or copy of the trace has such a name')
    return chosen


def scale_host(scenario: Scenario, amount: Amount) -> None:
    """Change host work: time between calls, and of host events that do not wait."""
    edges = scenario.edges
    factor = amount.factor
    if factor is None:
        raise InputError("change host: expected a factor such as 0 or 0.5x, got a time")
    lag = edges.lag_ns.copy()
    thread = edges.kind == THREAD
    lag[thread] = np.rint(lag[thread] * factor).astype(np.int64)
    work = edges.work_ns.copy()
    chosen = ~scenario.is_device
    # What a wait costs after the device is done is not work of the host program.
    chosen[scenario.place()[edges.dst[edges.kind == WAIT]]] = False
    work[chosen] = np.rint(work[chosen] * factor).astype(np.int64)
    scenario.edges = dataclasses.replace(edges, lag_ns=lag, work_ns=work)


def delay_steps(scenario: Scenario, ns: float) -> None:
    """Delay the first device event of each step by so much more than it was."""
    chosen = np.flatnonzero(scenario.is_device & (scenario.step >= 0))
    order = chosen[np.lexsort((scenario.start[chosen], scenario.step[chosen]))]
    first = np.ones(len(order), np.bool_)
    first[1:] = scenario.step[order[1:]] != scenario.step[order[:-1]]
    is_first = np.zeros(len(scenario.start), np.bool_)
    is_first[order[first]] = True
    edges = scenario.edges
    into = is_first[scenario.place()[edges.dst]] & np.isin(edges.kind, (STREAM, GRAPH))
    lag = edges.lag_ns.copy()
    lag[into] = np.maximum(lag[into] + round(ns), np.minimum(lag[into], 0))
    scenario.edges = dataclasses.replace(edges, lag_ns=lag)


def overlap_copies(scenario: Scenario) -> None:
    """Copies on a stream with kernels no longer delay them, unless the host waits for the copy."""
    edges, place = scenario.edges, scenario.place()
    waited = np.zeros(len(edges.rows), np.bool_)
    waited[place[edges.src[edges.kind == WAIT]]] = True
    src, dst = place[edges.src], place[edges.dst]
    kernel = scenario.is_device & ~scenario.is_copy
    beside = np.zeros(len(edges.rows), np.bool_)
    order = np.isin(edges.kind, (STREAM, GRAPH))
    beside[src[order & kernel[dst]]] = True
    beside[dst[order & kernel[src]]] = True
    chosen = scenario.is_copy & beside & ~waited
    if not chosen.any():
        raise InputError(
            'change "overlap=copies": no copy of the trace delays a kernel',
            "copies are on streams of their own already, or the host waits for them",
        )
    lag, work = edges.lag_ns.copy(), edges.work_ns.copy()
    work[chosen] = 0
    into = order & chosen[dst]
    lag[into] = np.minimum(lag[into], 0)
    # The launch of a copy may come late without holding up the kernel behind it.
    kept = ~((~order) & chosen[dst])
    scenario.edges = dataclasses.replace(
        edges, src=edges.src[kept], dst=edges.dst[kept], kind=edges.kind[kept],
        lag_ns=lag[kept], binding=edges.binding[kept], work_ns=work,
    )  # fmt: skip


def scale_operations(scenario: Scenario, ratios: Mapping[str, float], steps: Ints) -> float:
    """Scale device events of steps by the ratio of their operation; returns the share scaled."""
    factor = np.array([ratios.get(operation, 1.0) for operation in scenario.operation])
    chosen = scenario.is_device & np.isin(scenario.step, steps)
    known = np.array([operation in ratios for operation in scenario.operation], np.bool_) & chosen
    work = scenario.edges.work_ns
    share = float(work[known].sum()) / max(float(work[chosen].sum()), 1.0)
    changed = np.where(known, np.rint(work * factor), work).astype(np.int64)
    scenario.with_work(changed)
    return share
