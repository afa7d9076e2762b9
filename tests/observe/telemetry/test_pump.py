"""A sink's thread: order, bounded backlog, retries, counts that add up."""

import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st
from samples import HEADER, samples

from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sinks import pump as pumps
from assay.observe.telemetry.sinks.pump import Pump, SinkStatus
from assay.observe.telemetry.sinks.sink import RejectedError, Sink, Summary


class Scripted:
    """A sink that fails as its script says: ok, fail, late (durable, then fails), reject."""

    name = "scripted"
    batch_s = 0.0

    def __init__(self, script: Sequence[str] = (), batch: int = 7) -> None:
        self.batch_samples = batch
        self.script = list(script)
        self.ticks: dict[int, int] = {}
        self.order: list[int] = []
        self.summary: Summary | None = None

    def open(self, header: RunHeader) -> None:
        pass

    def write(self, samples: Sequence[Sample]) -> None:
        assert len(samples) <= self.batch_samples
        act = self.script.pop(0) if self.script else "ok"
        if act == "fail":
            raise OSError("disk full")
        if act == "reject":
            raise RejectedError("schema")
        for sample in samples:
            if sample.tick not in self.ticks:
                self.order.append(sample.tick)
            self.ticks[sample.tick] = self.ticks.get(sample.tick, 0) + 1
        if act == "late":
            raise TimeoutError("no answer")

    def close(self, summary: Summary) -> None:
        self.summary = summary


def deliver(sink: Sink, count: int, backlog: int = 1000, deadline: float = 10.0) -> SinkStatus:
    pump = Pump(sink, backlog)
    pump.start()
    for sample in samples(count):
        pump.offer([sample])
    return pump.close(time.monotonic() + deadline, Summary())


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pumps, "_FIRST_PAUSE_S", 0.0005)
    monkeypatch.setattr(pumps, "_CLOSING_PAUSE_S", 0.001)


@settings(max_examples=40, deadline=None)
@given(
    script=st.lists(st.sampled_from(["ok", "fail", "late", "reject"]), max_size=12),
    count=st.integers(0, 60),
    batch=st.integers(1, 9),
    backlog=st.integers(1, 80),
)
def test_nothing_acknowledged_is_lost_and_counts_add_up(
    script: list[str], count: int, batch: int, backlog: int
) -> None:
    sink = Scripted(script, batch)
    rejects = script.count("reject")
    status = deliver(sink, count, backlog)
    assert status.offered == count
    assert status.backlog == 0
    assert status.acknowledged + status.dropped + status.rejected == count
    assert status.rejected <= rejects * batch
    # What was acknowledged is in the sink, in order, and what is not was dropped or rejected.
    assert sink.order == sorted(sink.order)
    assert status.acknowledged <= len(sink.ticks) <= count
    assert set(range(count)) - set(sink.ticks) == set() or status.dropped + status.rejected > 0
    assert sink.summary is not None


def test_a_full_backlog_drops_the_oldest_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    free = threading.Event()

    class Stuck(Scripted):
        def write(self, samples: Sequence[Sample]) -> None:
            free.wait(5)
            super().write(samples)

    sink = Stuck(batch=1)
    pump = Pump(sink, 5)
    pump.start()
    for sample in samples(100):
        pump.offer([sample])
    assert pump.status().dropped >= 94
    assert pump.status().backlog <= 5
    assert "samples dropped" in caplog.text
    free.set()
    status = pump.close(time.monotonic() + 5, Summary())
    assert sink.order[-1] == 99
    assert status.acknowledged + status.dropped == 100
    assert "dropped, for the backlog was full" in (status.sentence() or "")


def test_a_dead_sink_is_given_up_at_the_deadline_and_its_samples_counted() -> None:
    begun = time.monotonic()
    status = deliver(Scripted(["fail"] * 100_000), 20, deadline=0.3)
    assert time.monotonic() - begun < 20
    assert status.acknowledged == 0
    assert status.backlog == 20
    assert status.error == "disk full"
    assert status.sentence() == "sink scripted: 20 samples not delivered (disk full)"


def test_offering_never_waits() -> None:
    free, written = threading.Event(), threading.Event()

    class Stuck(Scripted):
        def write(self, samples: Sequence[Sample]) -> None:
            free.wait(60)
            written.set()

    pump = Pump(Stuck(), 10)
    pump.start()
    for sample in samples(1000):
        pump.offer([sample])
    # All were offered while the first write was still under way.
    assert not written.is_set()
    free.set()
    pump.close(time.monotonic(), Summary())


def test_a_scripted_sink_is_a_sink() -> None:
    assert isinstance(Scripted(), Sink)
    assert HEADER.run == "run-1"
