"""Batched replay on a GPU; an H200 gave the plain book's answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from assay import jit, xp
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
ID_LIMIT: Final = 1 << 40
"""Ids of orders are below it: more places than a GPU has memory for."""


class CudaProgram(Program):
    """Books on a GPU: rows are sorted by instrument, then a block takes each book."""

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
        events = Events.of(data.arrays)
        check(events, self._instruments)
        columns = (events.kind, events.side, events.order, events.price, events.quantity)
        self._events = [self._copy(column) for column in columns]
        self._instrument = self._copy(events.instrument)

    def run(self) -> Mapping[str, float]:
        """Replay all events into empty books; a price outside of its ladder is an error."""
        start = time.perf_counter()
        _, _, order, price, _ = self._events
        layout = Layout(self._instrument, order, price, self._instruments)
        orders = self._zeros(4 * layout.orders, np.uint32)
        # The kernel empties the levels.
        levels = xp.empty(2 * WIDTH * self._instruments, dtype=xp.uint64, device=self._device)
        self._device.synchronize()
        sorted_at = time.perf_counter()
        KERNEL(
            *self._events,
            *(layout.rows, layout.row_starts, orders, layout.order_starts, levels, layout.bases),
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
    """Where the events and orders of each instrument are, by sorts on the device of the columns."""

    def __init__(self, instrument: Array, order: Array, price: Array, instruments: int) -> None:
        """Sort rows by instrument, as they came within one."""
        count = instrument.shape[0]
        wide = xp.astype(instrument, xp.int64)
        rows = xp.argsort(wide, stable=True)
        each = xp.arange(instruments + 1, dtype=xp.int64, device=instrument.device)
        starts = xp.searchsorted(xp.take(wide, rows), each)
        begins, ends = starts[:-1], starts[1:]
        has_events = ends > begins
        # The highest id of an instrument is the last of its ids, sorted.
        ids = xp.sort(wide * ID_LIMIT + xp.astype(order, xp.int64))
        highest = xp.take(ids, xp.maximum(ends - 1, 0)) % ID_LIMIT
        held = xp.where(has_events, highest + 1, 0)
        order_starts = xp.cumulative_sum(held, include_initial=True)
        # The middle of the ladder is the first price of the instrument.
        first = xp.take(rows, xp.minimum(begins, count - 1))
        bases = xp.where(has_events, xp.take(price, first) - WIDTH // 2, 0)
        self.orders: int = int(order_starts[-1])
        """Places for orders, of all instruments."""
        self.rows: Array = xp.astype(rows, xp.uint32)
        self.row_starts: Array = xp.astype(starts, xp.uint32)
        self.order_starts: Array = xp.astype(order_starts, xp.uint64)
        self.bases: Array = xp.astype(bases, xp.int32)


def check(events: Events, instruments: int) -> None:
    """Refuse what there is no place for."""
    if len(events) == 0:
        raise InputError("events: expected at least one, got none")
    most = int(events.instrument.max())
    if most >= instruments:
        raise InputError(f"instrument: expected below {instruments}, got {most}")
    if (highest := int(events.order.max())) >= ID_LIMIT:
        raise InputError(f"order: expected ids below {ID_LIMIT:,} on a GPU, got {highest}")
