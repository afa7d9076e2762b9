"""The order book as a workload: events to top of book, trades, microprice and VWAP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import numpy as np

from assay.load.workloads.measurement import Setting
from assay.runtime.hardware import Device
from assay.workloads.contract import (
    Arrays,
    ArrayWorkload,
    DataSet,
    Program,
    Sizes,
    Verified,
    Work,
    WorkloadSetting,
)
from assay.workloads.order_book.books import DTYPES, WIDTH, LevelStructure, Lookup, OrderBooks, Tops
from assay.workloads.order_book.cuda_replay import CudaProgram
from assay.workloads.order_book.events import Events, generate
from assay.workloads.order_book.plain import plain_tops
from assay.workloads.order_book.rivals import RIVALS

INSTRUMENTS: Final = 8
RESTING: Final = 2_000
"""Orders that rest in each book: with 8 books some hundreds of kilobytes, more than an L1 cache."""
_CHAIN: Final = 3
"""Memory accesses of an event of which each needs the one before: the order by its id, its level by
its price, its neighbor in the level."""


class BookProgram(Program):
    """Our books; a run begins with empty ones, whose memory is kept.

    It is one operation of the device, so that traces have it and a scheduler's task can wait for it.
    """

    def __init__(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> None:
        """Make books and room for the answers."""
        self._device = device
        self._work = work_of(data)
        # Of its own: loading other data must not write over the caller's.
        self._events = Events.of({name: np.array(column) for name, column in data.arrays.items()})
        self._tops = Tops.empty(len(self._events))
        self._grouped = settings["order of events"] == "by instrument"
        self._books = OrderBooks(
            INSTRUMENTS,
            levels=cast(LevelStructure, settings["levels"]),
            lookup=cast(Lookup, settings["lookup"]),
            width=int(cast(int, settings["ladder width"])),
        )
        self.load(data)

    def load(self, data: DataSet) -> None:
        """Copy events."""
        for column, given in zip(self._events.columns, Events.of(data.arrays).columns, strict=True):
            np.copyto(column, given)

    def run(self) -> Mapping[str, float]:
        """Replay all events into empty books."""
        work = self._work
        self._device.launch("replay", self._replay, [], [], bytes=int(work.bytes), flops=work.flops)
        self._device.synchronize()
        return {}

    def _replay(self) -> None:
        self._books.clear()
        self._books.replay(self._events, self._tops, grouped=self._grouped)

    def outputs(self) -> Arrays:
        """Copies of the columns."""
        return {name: column.copy() for name, column in self._tops.arrays.items()}

    def poison(self) -> None:
        """Overwrite the columns with what no book has."""
        for column in self._tops.columns:
            column.fill(np.nan if column.dtype.kind == "f" else 77)


class OrderBook(ArrayWorkload):
    """Price-time priority matching of eight instruments."""

    name = "order-book"
    unit = "event"
    figure = "ns/event"
    sizes = Sizes(quick=20_000, usual=400_000)
    rivals = RIVALS
    instruments = INSTRUMENTS
    resting = RESTING

    def generate(self, seed: int, size: int) -> DataSet:
        """Events of a random market."""
        events = generate(seed, size, instruments=self.instruments, resting=self.resting)
        return DataSet(events.arrays, size)

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """How books are made and events are taken."""
        return (
            WorkloadSetting(
                name="levels",
                meaning="how a level is found by its price",
                mechanism="a price minus the ladder's first price is the place of its level: one "
                "memory access instead of a walk down a tree",
                values=("tree", "ladder"),
                plain="tree",
                default="ladder",
            ),
            WorkloadSetting(
                name="lookup",
                meaning="how an order is found by its id",
                mechanism="ids that come one after the other are places in an array; no hash is "
                "computed and no table is searched",
                values=("map", "hash", "dense"),
                plain="map",
                default="dense",
            ),
            WorkloadSetting(
                name="ladder width",
                meaning="prices that a ladder covers",
                mechanism="a wider ladder keeps more orders out of the tree beside it, a narrower "
                "one leaves more of the cache to orders",
                values=(256, WIDTH, 65_536),
                plain=256,
                default=WIDTH,
            ),
            WorkloadSetting(
                name="order of events",
                meaning="as they came, or those of an instrument together",
                mechanism="the book of an instrument stays in the cache while its events are taken",
                values=("as they came", "by instrument"),
                plain="as they came",
                default="as they came",
            ),
        )

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """Our books on the CPU."""
        return BookProgram(data, device, settings)

    def verify(self, outputs: Arrays, data: DataSet) -> Verified:
        """Event by event against dictionaries and sorted lists in Python."""
        expected, rejected = plain_tops(Events.of(data.arrays), self.instruments)
        # Rivals that have no trades to tell leave those columns out.
        wrong = max(
            float(np.mean(~_same(outputs[name], expected[name])))
            for name in DTYPES
            if name in outputs
        )
        units = len(expected["bid_price"]) - rejected
        return Verified(
            wrong, 0.0, "dictionaries and sorted lists in Python, event by event", units
        )

    def work(self, data: DataSet) -> Work:
        """Columns read and written once; each event's accesses wait for each other."""
        return work_of(data)


def work_of(data: DataSet) -> Work:
    """The work of a replay."""
    read = sum(column.nbytes for column in data.arrays.values())
    written = sum(np.dtype(dtype).itemsize for dtype in DTYPES.values()) * data.units
    # Events of an instrument need each other, those of two do not: the busiest has the longest chain.
    longest = int(np.bincount(data.arrays["instrument"]).max()) if data.units else 0
    # Microprice: two products, two sums, a quotient; VWAP: a quotient.
    return Work(6.0 * data.units, float(read + written), float(_CHAIN * longest), "load")


def _same(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    same: np.ndarray = left == right
    if left.dtype.kind == "f":
        same |= np.isnan(left) & np.isnan(right)
    return same


class BatchedOrderBook(OrderBook):
    """Books of many instruments on a GPU, a block for each."""

    devices = ("cuda",)

    def __init__(self, instruments: int) -> None:
        """As many orders rest in all books together, whatever their number."""
        self.instruments = instruments
        self.resting = max(RESTING * INSTRUMENTS // instruments, 1)
        self.case = f"{instruments:,} instruments"

    def title(self, size: int) -> str:
        """Events and instruments."""
        return f"{super().title(size)}, {self.case}"

    def settings(self, device: Device) -> tuple[WorkloadSetting, ...]:
        """There is one way."""
        return ()

    def prepare(self, data: DataSet, device: Device, settings: Mapping[str, Setting]) -> Program:
        """Our books on the GPU."""
        return CudaProgram(data, self.instruments, device)


class EveryOrderBook(OrderBook):
    """Books of eight instruments on a CPU, and of as many as a GPU has room for."""

    gpu_cases = tuple(BatchedOrderBook(count) for count in (132, INSTRUMENTS, 1_056))


WORKLOAD: Final = EveryOrderBook()
