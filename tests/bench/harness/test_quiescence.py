"""A turn begins only when threads that another contestant left behind have gone to sleep."""

import hashlib
import sys
import threading
import time

import pytest

from assay.bench.harness import quiescence

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells what threads do"
)

WORK = bytes(64 << 20)


def _spinner() -> tuple[threading.Thread, list[float]]:
    """A thread at work outside the interpreter, as those of a library are, and when it ended."""
    ended: list[float] = []

    def work() -> None:
        hashlib.sha256(WORK)
        ended.append(time.perf_counter())

    thread = threading.Thread(target=work)
    thread.start()
    return thread, ended


def test_waits_for_a_thread_that_works() -> None:
    thread, ended = _spinner()
    time.sleep(0.005)
    assert quiescence.settle()
    assert ended
    thread.join()


def test_gives_up_on_a_thread_that_never_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiescence, "_LONGEST_SECONDS", 0.002)
    thread, ended = _spinner()
    time.sleep(0.005)
    assert not quiescence.settle()
    assert not ended
    thread.join()


def test_does_not_wait_where_nothing_runs() -> None:
    start = time.perf_counter()
    assert quiescence.settle()
    assert time.perf_counter() - start < 0.25
