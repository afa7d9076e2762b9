"""Batches of order-book events beside a flood of matrix products, as equals and with a guarantee.

Both are tasks of the runtime's scheduler on one device: every launch waits for a grant. Prints how long
a batch takes from its arrival to its last top of book.
"""

import threading
import time

import numpy as np

from assay import xp
from assay.runtime import device as device_named
from assay.runtime.scheduling import SECOND_NS, QoS, Scheduler, Task
from assay.workloads.order_book.books import OrderBooks, Tops
from assay.workloads.order_book.events import generate

BATCHES, EVENTS, PAUSE_S = 100, 200, 0.001
LINK_BYTES_PER_SECOND = 1 << 40

device = device_named("cpu")
events = generate(1, BATCHES * EVENTS, instruments=4, resting=500)


def flood(task: Task, stop: threading.Event) -> None:
    """Matrix products, one after the other, until somebody stops them."""
    with task:
        left = xp.ones((128, 128), dtype="float32", device=device)
        while not stop.is_set():
            left @ left
            task.stream.synchronize()


def latencies(task: Task) -> list[float]:
    """Seconds from the arrival of each batch to its answer."""
    order_books, tops, taken = OrderBooks(4), Tops.empty(EVENTS), []
    with task:
        for first in range(0, len(events), EVENTS):
            time.sleep(PAUSE_S)
            batch = events[first : first + EVENTS]
            start = time.perf_counter()
            device.launch(
                "order book", lambda batch=batch: order_books.replay(batch, tops), [], [], bytes=0
            )
            task.stream.synchronize()
            taken.append(time.perf_counter() - start)
    order_books.verify()
    return taken


def measure(title: str, *, with_flood: bool, qos: QoS) -> None:
    """Print percentiles of one arrangement."""
    scheduler = Scheduler(
        device,
        upload_bytes_per_second=LINK_BYTES_PER_SECOND,
        download_bytes_per_second=LINK_BYTES_PER_SECOND,
    )
    # Half of the device's time is promised to the guaranteed task, and may be used at once.
    reserved = {"compute": SECOND_NS // 2} if qos == "guaranteed" else None
    task = scheduler.task("order book", qos=qos, reserved=reserved)
    stop = threading.Event()
    thread = threading.Thread(target=flood, args=(scheduler.task("flood"), stop))
    if with_flood:
        thread.start()
    try:
        taken = latencies(task)
    finally:
        stop.set()
        if with_flood:
            thread.join()
    p50, p99 = np.percentile(taken, (50, 99)) * 1e6
    print(f"{title:24s} p50 {p50:8.0f} us   p99 {p99:8.0f} us")


measure("alone", with_flood=False, qos="best-effort")
measure("beside a flood", with_flood=True, qos="best-effort")
measure("guaranteed, beside it", with_flood=True, qos="guaranteed")
