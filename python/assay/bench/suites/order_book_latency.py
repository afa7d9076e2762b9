"""Batches of order-book events beside a flood: latency alone, as an equal, and in the guaranteed class.

Both are tasks of the runtime's scheduler on one device, where every launch waits for a grant. A latency
is the time from the arrival of a batch to its last top of book.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from assay import xp
from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.seeding import current_seed
from assay.bench.harness.statistics import quantile
from assay.runtime.hardware import Device
from assay.runtime.scheduling import SECOND_NS, QoS, Rates, Scheduler, Task
from assay.workloads.order_book.books import OrderBooks, Tops
from assay.workloads.order_book.events import Events, generate
from assay.workloads.order_book.plain import plain_tops

INSTRUMENTS: Final = 4
RESTING: Final = 500
BATCH: Final = 200
"""Events of a batch."""
BATCHES: Final = 400
QUICK_BATCHES: Final = 60
PAUSE_S: Final = 0.0005
"""Between a batch and the arrival of the next one."""
ROUNDS: Final = 21
QUICK_ROUNDS: Final = 3
TENANTS: Final = 8
"""Tasks of the flood: an equal has a ninth of the device."""
FLOOD: Final = 128
"""Rows and columns of the flood's matrix products, of bfloat16: NumPy's of float32 wait for a BLAS's own threads."""
WINDOW_NS: Final = 50_000
"""Work in flight: a batch waits for the one product that runs. What fits into a window is granted at once,
whatever the class, and the flood's products all fit into the default of a millisecond."""
AS_AN_EQUAL: Final = "as an equal"
"""The same batches beside the same flood without a guarantee."""
_LINK_BYTES_PER_SECOND: Final = 1 << 40
_CLOCK: Final = SelfTimedClock()


class BatchLatencies:
    """The same batches in several arrangements."""

    def __init__(self, device: Device, batches: int) -> None:
        """Generate the events of the current seed."""
        self._device = device
        self._events = generate(
            current_seed(), batches * BATCH, instruments=INSTRUMENTS, resting=RESTING
        )
        self._tops = Tops.empty(len(self._events))

    def quantile(self, share: float, *, flooded: bool, qos: QoS) -> float:
        """A quantile of the seconds from the arrival of a batch to its answer."""
        scheduler = Scheduler(
            self._device,
            upload_bytes_per_second=_LINK_BYTES_PER_SECOND,
            download_bytes_per_second=_LINK_BYTES_PER_SECOND,
            windows={"compute": WINDOW_NS},
        )
        # Half of the device's time is promised, and may be used at once.
        reserved: Rates | None = {"compute": SECOND_NS // 2} if qos == "guaranteed" else None
        task = scheduler.task("order book", qos=qos, reserved=reserved)
        with _flood(self._device, scheduler, TENANTS if flooded else 0):
            return quantile(self._latencies(task), share)

    def _latencies(self, task: Task) -> list[float]:
        order_books, taken, columns = OrderBooks(INSTRUMENTS), [], self._tops.columns
        with task:
            for first in range(0, len(self._events), BATCH):
                rows = slice(first, first + BATCH)
                replay = functools.partial(
                    _replay,
                    order_books,
                    self._events[rows],
                    Tops(*(column[rows] for column in columns)),
                )
                time.sleep(PAUSE_S)
                start = time.perf_counter()
                self._device.launch("replay", replay, [], [], bytes=0)
                task.stream.synchronize()
                taken.append(time.perf_counter() - start)
        return taken

    def error(self) -> float:
        """The share of events after which the top of book is another than the plain book's."""
        for column in self._tops.columns:
            column.fill(math.nan if column.dtype.kind == "f" else 77)
        self.quantile(0.5, flooded=True, qos="guaranteed")
        expected, _ = plain_tops(self._events, INSTRUMENTS)
        return max(
            float(np.mean(~np.isclose(column, expected[name], rtol=0.0, atol=0.0, equal_nan=True)))
            for name, column in self._tops.arrays.items()
        )


def _replay(order_books: OrderBooks, batch: Events, tops: Tops) -> None:
    order_books.replay(batch, tops)


@contextmanager
def _flood(device: Device, scheduler: Scheduler, tenants: int) -> Iterator[None]:
    """Matrix products of other tasks, of each one after the other, while the block runs."""
    is_over = threading.Event()

    def products(task: Task) -> None:
        with task:
            left = xp.ones((FLOOD, FLOOD), dtype="bfloat16", device=device)
            while not is_over.is_set():
                left @ left
                task.stream.synchronize()

    threads = [
        threading.Thread(target=products, args=(scheduler.task(f"flood {number}"),))
        for number in range(tenants)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def cases(settings: Settings) -> list[Case]:
    """The median and the 99th percentile."""
    batches = QUICK_BATCHES if settings.quick else BATCHES
    return [
        Case(
            f"p{100 * share:.0f} latency of {BATCH} events, guaranteed beside a flood",
            "us",
            functools.partial(_prepare, settings.device, batches, share),
            rounds=QUICK_ROUNDS if settings.quick else ROUNDS,
        )
        for share in (0.5, 0.99)
    ]


def _prepare(device: Device, batches: int, share: float) -> PreparedCase:
    latencies = BatchLatencies(device, batches)

    def subject(name: str, *, flooded: bool, qos: QoS) -> Subject:
        return Subject(name, lambda _: latencies.quantile(share, flooded=flooded, qos=qos), _CLOCK)

    return PreparedCase(
        subject("guaranteed", flooded=True, qos="guaranteed"),
        Check("dictionaries and sorted lists in Python", lambda _: latencies.error(), 0.0),
        ceiling=subject("alone", flooded=False, qos="best-effort"),
        rivals=[subject(AS_AN_EQUAL, flooded=True, qos="best-effort")],
        note=f"{batches} batches a round; the flood is {TENANTS} tasks of {FLOOD} x {FLOOD} products",
    )


SUITE = Suite("order-book-latency", cases, devices=("cpu",), seeding="inputs")
