"""Time that threads wait for a core."""

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from assay.bench.harness.run_queue import waited_seconds


def test_sums_the_threads_that_can_be_read(tmp_path: Path) -> None:
    assert waited_seconds(tmp_path) is None
    for name, text in (("1", "5 2000000000 7\n"), ("2", "0 500000000 1\n"), ("3", "odd\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(text)
    (tmp_path / "4").mkdir()
    assert waited_seconds(tmp_path) == 2.5


def test_threads_that_share_a_core_wait() -> None:
    before = waited_seconds()
    if before is None or not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system does not count waiting")
    allowed = os.sched_getaffinity(0)

    block = bytes(1 << 18)
    counted = threading.Event()

    def spin() -> None:
        os.sched_setaffinity(0, {min(allowed)})
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            # Hashing releases the interpreter's lock, for which threads wait without a core.
            hashlib.sha256(block)
        # The waiting of a thread that has ended is no longer told.
        counted.wait(60)

    # Four threads on one core: the last one waits for the others at least once.
    threads = [threading.Thread(target=spin) for _ in range(4)]
    for one in threads:
        one.start()
    end, waited = time.monotonic() + 30, 0.0
    while waited <= 0.01 and time.monotonic() < end:
        time.sleep(0.02)
        waited = (waited_seconds() or 0.0) - before
    counted.set()
    for one in threads:
        one.join()
    assert waited > 0.01
