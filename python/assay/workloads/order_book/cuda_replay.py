"""Batched replay on a GPU; no GPU has run it yet, so the workload does not offer it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from assay import jit
from assay.errors import InputError
from assay.runtime.array import Array
from assay.runtime.hardware import Device
from assay.workloads.contract import Arrays, DataSet, HostArray, Program
from assay.workloads.order_book.books import DTYPES
from assay.workloads.order_book.cuda_source import SOURCE, WIDTH
from assay.workloads.order_book.events import Events
from assay.xp import asarray, zeros

KERNEL: Final = jit.kernel(SOURCE, options=(f"-DWIDTH={WIDTH}",))
_THREADS: Final = 128


class CudaProgram(Program):
    """Books on a GPU: rows are sorted by instrument on the host, then a block takes each book."""

    def __init__(self, data: DataSet, instruments: int, device: Device) -> None:
        """Make room for events and answers."""
        self._device = device
        self._instruments = instruments
        self._tops = [self._zeros(data.units, dtype) for dtype in DTYPES.values()]
        self._rejected = self._zeros(instruments, np.uint32)
        self._outside = self._zeros(instruments, np.int32)
        self.load(data)

    def load(self, data: DataSet) -> None:
        """Copy events to the device."""
        self._host = Events.of(data.arrays)
        host = self._host
        columns = (host.kind, host.side, host.order, host.price, host.quantity)
        self._events = [self._copy(column) for column in columns]

    def run(self) -> Mapping[str, float]:
        """Replay all events into empty books; a price outside of its ladder is an error."""
        start = time.perf_counter()
        layout = Layout(self._host, self._instruments)
        parts = (layout.rows, layout.row_starts, layout.order_starts, layout.bases)
        rows, row_starts, order_starts, bases = (self._copy(part) for part in parts)
        orders = self._zeros(4 * int(layout.order_starts[-1]), np.uint32)
        levels = self._zeros(2 * WIDTH * self._instruments, np.uint64)
        sorted_at = time.perf_counter()
        KERNEL(
            *self._events,
            *(rows, row_starts, orders, order_starts, levels, bases),
            *self._tops,
            *(self._rejected, self._outside),
            grid=self._instruments,
            block=_THREADS,
        )
        outside = np.asarray(self._outside)
        replayed_at = time.perf_counter()
        if (outside >= 0).any():
            instrument = int(np.argmax(outside >= 0))
            raise InputError(
                f"event {outside[instrument]} of instrument {instrument}: expected a price within "
                f"the {WIDTH:,} of the ladder, got one beyond it",
                "replay this instrument on the CPU, whose ladder follows the market",
            )
        if refused := int(np.asarray(self._rejected).sum()):
            raise InputError(f"{refused} events were rejected: expected valid ones")
        return {"sort": sorted_at - start, "replay": replayed_at - sorted_at}

    def outputs(self) -> Arrays:
        """Copies of the columns."""
        columns = (np.asarray(column).copy() for column in self._tops)
        return dict(zip(DTYPES, columns, strict=True))

    def poison(self) -> None:
        """Overwrite the columns with what no book has."""
        for place, (column, dtype) in enumerate(zip(self._tops, DTYPES.values(), strict=True)):
            value = np.nan if np.dtype(dtype).kind == "f" else 77
            self._tops[place] = self._copy(np.full(column.shape, value, dtype))

    def _copy(self, column: HostArray) -> Array:
        return asarray(column, device=self._device, copy=True)

    def _zeros(self, count: int, dtype: npt.DTypeLike) -> Array:
        return zeros(count, dtype=np.dtype(dtype).name, device=self._device)


class Layout:
    """Where the events and orders of each instrument are."""

    def __init__(self, events: Events, instruments: int) -> None:
        """Sort rows by instrument, as they came within one."""
        if len(events) and int(events.instrument.max()) >= instruments:
            raise InputError(
                f"instrument: expected below {instruments}, got {events.instrument.max()}"
            )
        self.rows: HostArray = np.argsort(events.instrument, kind="stable").astype(np.uint32)
        counts = np.bincount(events.instrument, minlength=instruments)
        self.row_starts: HostArray = np.concatenate(([0], np.cumsum(counts))).astype(np.uint32)
        highest = np.zeros(instruments, np.int64)
        np.maximum.at(highest, events.instrument, events.order.astype(np.int64) + 1)
        self.order_starts: HostArray = np.concatenate(([0], np.cumsum(highest))).astype(np.uint64)
        # The middle of the ladder is the first price of the instrument.
        bases = np.zeros(instruments, np.int32)
        first = self.rows[self.row_starts[:-1][counts > 0]]
        bases[counts > 0] = events.price[first] - WIDTH // 2
        self.bases: HostArray = bases
