"""The device's own time: floor, inefficiency, throttling and work that was to run beside other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.array_types import Flags, Floats, Ints
from assay.diagnose.itemizing import intervals
from assay.diagnose.itemizing.matching import Site, Sites
from assay.diagnose.terms import CODES
from assay.lazy_import import pl
from assay.observe.structure.collectives import OPERATIONS as COLLECTIVES

if TYPE_CHECKING:
    from assay.planner.graph import Graph


FLOOR, ABOVE = CODES["floor"], CODES["kernel_inefficiency"]
BESIDE, THROTTLED, UNKNOWN = CODES["lost_overlap"], CODES["throttling"], CODES["unknown"]

CLOCK_BOUND: Final = ("compute", "launch")
"""Bounds of nodes whose time grows as the SM clock falls; memory has a clock of its own."""


@dataclass(frozen=True, slots=True)
class DeviceEvents:
    """The device events of a lane as arrays."""

    row: Ints
    start: Ints
    end: Ints
    stream: Ints
    correlation: Ints
    step: Ints
    """The step that an event belongs to, -1 for none."""
    layer: Ints
    operation: Ints
    """Index into `operations`, -1 for none."""
    operations: tuple[str, ...]
    is_kernel: Flags
    """Kernels and fills; a copy has engines of its own, beside which kernels can run."""
    is_collective: Flags

    def __len__(self) -> int:
        return len(self.row)


def device_arrays(device: pl.DataFrame) -> DeviceEvents:
    """The device events of one lane, in order of their start."""
    names = device.select(pl.col("op").cast(pl.String))["op"]
    operations = tuple(names.drop_nulls().unique().sort().to_list())
    code = names.replace_strict(
        list(operations), range(len(operations)), default=None, return_dtype=pl.Int64
    )
    kind = device["kind"].cast(pl.String)
    is_copy = kind == "memcpy"
    start = device["start_ns"].to_numpy()

    def integers(name: str) -> Ints:
        return device[name].cast(pl.Int64).fill_null(-1).to_numpy()

    return DeviceEvents(
        integers("row"),
        start,
        start + device["dur_ns"].to_numpy(),
        integers("stream"),
        integers("correlation"),
        integers("step"),
        integers("layer"),
        code.fill_null(-1).to_numpy(),
        operations,
        ~is_copy.to_numpy(),
        (names.is_in(list(COLLECTIVES)).fill_null(False) & ~is_copy).to_numpy(),
    )


def levels(events: DeviceEvents) -> list[tuple[Ints, Ints, Ints]]:
    """Who owns time that several events cover: the main stream's kernels before all others.

    Kernels of other streams come next, then collectives, then copies: what runs beside the main
    stream is hidden, and owns only the time in which it runs alone.
    """
    compute = events.is_kernel & ~events.is_collective
    streams, times = np.unique(events.stream[compute], return_inverse=True)
    weight = np.bincount(times, (events.end - events.start)[compute], minlength=1)
    main = streams[int(np.argmax(weight))] if len(streams) else -1
    on_main = events.stream == main
    ranks = [
        compute & on_main,
        compute & ~on_main,
        events.is_collective,
        ~events.is_kernel & ~events.is_collective,
    ]
    places = [np.flatnonzero(rank) for rank in ranks]
    return [(events.start[place], events.end[place], place) for place in places]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of wall time that device events own."""

    start: Ints
    end: Ints
    event: Ints
    """Index into the device events."""
    term: Ints


def split(
    start: Ints,
    end: Ints,
    event: Ints,
    events: DeviceEvents,
    prediction: Prediction,
    clock_share: Floats,
) -> Pieces:
    """Cut owned pieces into terms; `clock_share` is the clock of each over the predicted one."""
    operation, layer = events.operation[event], events.layer[event]
    graph = prediction.graph_of(events.step[event])
    site = prediction.site_codes[operation]
    key = prediction.key(graph, site, layer)
    budget = prediction.floor[key]
    is_copy = ~events.is_kernel[event]
    is_beside = is_copy | prediction.beside[key]
    unpredicted = ~is_beside & ((operation < 0) | (graph < 0))
    # A site of one step and layer has one floor, whichever of its kernels comes first.
    group = (events.step[event] + 1) * len(prediction.floor) + key
    plain = np.flatnonzero(~is_beside & ~unpredicted)
    length = end - start
    paid = np.zeros_like(length)
    paid[plain] = intervals.within_budget(group[plain], length[plain], budget[plain])
    above = length - paid
    slow = np.zeros_like(length)
    lost = np.where(prediction.clock_bound[key], 1.0 - np.minimum(clock_share, 1.0), 0.0)
    slow[plain] = np.minimum((lost[plain] * length[plain]).astype(np.int64), above[plain])
    whole = np.where(is_beside, BESIDE, UNKNOWN)
    parts = (
        (start, start + paid, np.full_like(start, FLOOR), plain),
        (start + paid, end - slow, np.full_like(start, ABOVE), plain),
        (end - slow, end, np.full_like(start, THROTTLED), plain),
        (start, end, whole, np.flatnonzero(is_beside | unpredicted)),
    )
    columns = [np.concatenate([part[column][part[3]] for part in parts]) for column in range(3)]
    owner = np.concatenate([event[part[3]] for part in parts])
    kept = np.flatnonzero(columns[0] < columns[1])
    order = kept[np.argsort(columns[0][kept], kind="stable")]
    return Pieces(columns[0][order], columns[1][order], owner[order], columns[2][order])


class Prediction:
    """Graphs as tables over steps, sites and layers."""

    def __init__(
        self, operations: Sequence[str], graphs: Sequence[Graph], graph_of_step: Mapping[int, int]
    ) -> None:
        """Tables for the operations of a lane; `graph_of_step` lacks steps without a graph."""
        self.sites = Sites(operations, graphs)
        self.names = tuple(dict.fromkeys(self.sites.of(operation) for operation in operations))
        number = {name: code for code, name in enumerate(self.names)}
        self.site_codes = np.array(
            [*(number[self.sites.of(operation)] for operation in operations), -1]
        )
        self.by_graph = [self.sites.predicted(graph) for graph in graphs]
        self._steps = np.array(sorted(graph_of_step), np.int64)
        self._graphs = np.array([graph_of_step[step] for step in self._steps.tolist()], np.int64)
        layers = [layer for sites in self.by_graph for _, layer in sites if layer is not None]
        self._layers = max(layers, default=-1) + 2
        size = len(graphs) * len(self.names) * self._layers
        # The last entry is for what no graph predicts.
        self.floor = np.zeros(size + 1, np.int64)
        self.beside = np.zeros(size + 1, bool)
        self.clock_bound = np.zeros(size + 1, bool)
        for graph, sites in enumerate(self.by_graph):
            for (name, layer), site in sites.items():
                if name in number:
                    place = self._place(graph, number[name], -1 if layer is None else layer)
                    self.floor[place] = round(site.floor_ns)
                    self.beside[place] = site.beside
                    self.clock_bound[place] = site.bound in CLOCK_BOUND

    def graph_of(self, step: Ints) -> Ints:
        """The graph of each step, -1 for none."""
        if not len(self._steps):
            return np.full_like(step, -1)
        place = np.minimum(np.searchsorted(self._steps, step), len(self._steps) - 1)
        return np.where(self._steps[place] == step, self._graphs[place], -1)

    def key(self, graph: Ints, site: Ints, layer: Ints) -> Ints:
        """Where the tables have a site of a layer; the last entry where no graph has it."""
        known = (graph >= 0) & (site >= 0) & (layer < self._layers - 1)
        return np.where(known, self._place(graph, site, layer), len(self.floor) - 1)

    def find(self, graph: int, site: str, layer: int | None) -> Site | None:
        """What a graph says of a site in a layer."""
        return self.by_graph[graph].get((site, layer))

    def _place(self, graph: int | Ints, site: int | Ints, layer: int | Ints) -> int | Ints:
        return (graph * len(self.names) + site) * self._layers + layer + 1
