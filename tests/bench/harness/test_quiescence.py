"""A sample waits until worker threads of the previous subject sleep."""

import hashlib
import sys
import threading
import time

import pytest

from assay.bench.harness import quiescence

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells what threads do"
)

SHORT, LONG = 100_000, 2_000_000
"""Iterations of some hundredths of a second, and of about a second."""


def _spinner(iterations: int) -> tuple[threading.Thread, list[float]]:
    """A thread that works without the GIL, and the times at which it ended."""
    ended: list[float] = []

    def work() -> None:
        hashlib.pbkdf2_hmac("sha256", b"", b"", iterations)
        ended.append(time.perf_counter())

    thread = threading.Thread(target=work)
    thread.start()
    return thread, ended


def test_waits_for_a_running_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiescence, "_TIMEOUT_SECONDS", 60.0)
    thread, ended = _spinner(SHORT)
    time.sleep(0.005)
    assert quiescence.wait_until_idle()
    assert ended
    thread.join()


def test_times_out_on_a_thread_that_keeps_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiescence, "_TIMEOUT_SECONDS", 0.002)
    thread, ended = _spinner(LONG)
    time.sleep(0.005)
    assert not quiescence.wait_until_idle()
    assert not ended
    thread.join()


def test_does_not_poll_twice_where_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[bool] = []
    monkeypatch.setattr(quiescence, "_any_other_runs", lambda: bool(polls.append(True)))
    assert quiescence.wait_until_idle()
    assert polls == [True]
