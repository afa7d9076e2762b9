"""`--maximize rate` on a simulated server whose capacity is known, from the first ramp to the report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from planted_engine import PlantedEngine

from assay.errors import AssayError, InputError, NoDataError
from assay.improve.loop.controller import run_loop
from assay.improve.loop.options import RunOptions
from assay.load.window import summarize
from assay.load.workloads.arrivals import schedule
from assay.load.workloads.builtin import workload
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.ramp import SPAN, ramp_length
from assay.load.workloads.workload import ServiceLevel, Window, Workload
from assay.report.run import write_run
from assay.report.verify import verify
from assay.runs.maximizing import maximizing_rate
from assay.runs.subject import opened
from assay.runs.subject_options import SubjectOptions

pytestmark = pytest.mark.usefixtures("without_fsync")

LEVERS = """\
format: assay.levers/1
engine: fake
levers:
  - name: more-threads
    mechanism: planted
    knobs: {threads: [2]}
    safety: safe
    hot: true
    correctness: rounding
    reference: a test
"""


@dataclass
class QueueEngine(PlantedEngine):
    """Serves one request after the other, in `service_s` over the effect of its settings."""

    service_s: float = 0.1

    def measure(self, workload: Workload, window: Window) -> Measurement:
        assert window.requests is not None
        free, records, began = 0.0, [], self.now
        jitter = self._random.gauss(1.0, self.noise)
        service_s = self.service_s * jitter / self.effect(self._settings)
        at_once: list[float] = []
        for position, request, due_s in schedule(workload, window.offset):
            if position >= window.requests:
                break
            sent = due_s
            if workload.arrival == "closed":
                width = workload.concurrency or 1
                sent = at_once[position - width] if position >= width else 0.0
            free = max(free, sent) + service_s
            text = f"{request.prompt} plain {request.max_tokens}"
            records.append(
                RequestRecord(
                    window.offset + position,
                    sent,
                    free,
                    free + 0.01 * request.max_tokens,
                    20,
                    request.max_tokens,
                    digest=hashlib.sha256(text.encode()).hexdigest(),
                    output=text,
                )
            )
            at_once.append(records[-1].end_s)
        seconds = max(record.end_s for record in records)
        self.now += seconds
        return summarize(
            workload, records, seconds, started_at=1e9 + began, settings=dict(self.settings())
        )


def load(limit_ms: float = 400.0) -> Workload:
    planned = workload("chat", requests=400)
    requests = tuple(replace(request, max_tokens=8, sampling={}) for request in planned.requests)
    return replace(planned, requests=requests, slo=ServiceLevel(ttft_ms=limit_ms))


@pytest.mark.parametrize("first", [None, 3.0, 5.5, 8.0, 12.0, 40.0])
def test_the_ramp_lies_around_what_the_server_keeps(first: float | None) -> None:
    asked = replace(load(), rate=first) if first else load()
    ramp = maximizing_rate(QueueEngine(noise=0.0), asked, 600.0)
    assert ramp.rate is not None
    assert ramp.rate / 2 < 10.0 < 2 * ramp.rate
    assert ramp.objective.metric == "slo_rate"
    assert any("requests/s in each block" in note for note in ramp.notes)


@dataclass
class ShortSighted(PlantedEngine):
    """Keeps every rate of a ramp shorter than its answers, or none, by what comes later."""

    lengths: list[float] = field(default_factory=list)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        assert workload.rate is not None
        seconds = ramp_length(workload) / workload.rate
        self.lengths.append(seconds)
        low, high = workload.rate / SPAN, workload.rate * SPAN
        # Within one ramp, or of all that would follow it.
        edge = 100.0 if seconds < 12.0 else 70.0
        kept = min(max(edge, low), high)
        if seconds < 12.0:
            kept = high if kept > workload.rate else low
        return Measurement(
            workload.name, 0.0, seconds, (), {"slo_rate": kept}, "stable", dict(self.settings())
        )


def test_ramps_that_contradict_each_other_are_made_longer() -> None:
    engine = ShortSighted()
    ramp = maximizing_rate(engine, replace(load(), rate=20.0), 480.0)
    assert ramp.rate == pytest.approx(1.25 * 70.0)
    assert engine.lengths[0] < 12.0 < engine.lengths[-1]
    assert ramp_length(ramp) / ramp.rate > 11.9


@dataclass
class Contradicting(PlantedEngine):
    """Keeps every rate of one ramp and none of the next, however long they are."""

    asked_s: float = 0.0

    def measure(self, workload: Workload, window: Window) -> Measurement:
        assert workload.rate is not None
        seconds = ramp_length(workload) / workload.rate
        self.asked_s += seconds
        kept = workload.rate * SPAN if workload.rate < 40.0 else workload.rate / SPAN
        return Measurement(
            workload.name, 0.0, seconds, (), {"slo_rate": kept}, "stable", dict(self.settings())
        )


def test_ramps_too_long_for_a_verdict_end_before_the_budget_does() -> None:
    """Lengthened twice they are 24 s of 480, and a trial would be nine of them."""
    engine = Contradicting()
    with pytest.raises(
        NoDataError, match=r"expected ramps of at most .* got 24\.0 s for"
    ) as caught:
        maximizing_rate(engine, replace(load(), rate=30.0), 480.0)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("--budget 10m")
    assert engine.asked_s < 0.1 * 480.0
    # Requests that arrive slowly make long ramps by themselves: this server keeps 1 of them a second.
    slow = QueueEngine(noise=0.0, service_s=0.9)
    with pytest.raises(NoDataError, match=r"expected ramps of at most .* for 48 requests at"):
        maximizing_rate(slow, load(4000.0), 240.0)
    assert slow.now < 240.0
    assert maximizing_rate(slow, load(4000.0), 1200.0).rate is not None


def test_the_end_of_a_ramp_refuses_nothing(tmp_path: Path) -> None:
    """Beyond the rate that is kept most requests miss the limits, by a little more or less."""
    levers = tmp_path / "levers.yaml"
    levers.write_text(LEVERS)
    engine = QueueEngine(noise=0.003, effect=lambda settings: 0.9999)
    ramp = maximizing_rate(engine, load(), 600.0)
    engine.effect = lambda settings: 0.9995 if settings["threads"] == 2 else 0.9999
    chosen = RunOptions(budget_s=1200.0, lever_files=(levers,), use_history=False, force=True)
    outcome = run_loop(
        engine, ramp, chosen, lambda *_: None, root=tmp_path / "runs", clock=engine.clock
    )
    assert not [result for result in outcome.rejected if "SLO" in result.reason], outcome.rejected


def test_limits_out_of_reach_are_said() -> None:
    engine = QueueEngine(noise=0.0)
    with pytest.raises(NoDataError, match="expected a rate that keeps the service levels"):
        maximizing_rate(engine, load(50.0), 600.0)
    # Ramps get longer with lower rates: the search ends before they take the budget.
    assert engine.now < 0.2 * 600.0
    with pytest.raises(NoDataError, match="expected a rate at which the service levels break"):
        maximizing_rate(QueueEngine(noise=0.0, service_s=1e-5), load(), 600.0)
    with pytest.raises(InputError, match="expected service levels to keep"):
        maximizing_rate(QueueEngine(), replace(load(), slo=ServiceLevel()), 600.0)


def test_a_faster_server_keeps_a_higher_rate_and_the_report_has_the_front(tmp_path: Path) -> None:
    levers = tmp_path / "levers.yaml"
    levers.write_text(LEVERS)
    engine = QueueEngine(noise=0.003)
    ramp = maximizing_rate(engine, load(), 1200.0)
    outcome = run_loop(
        engine,
        ramp,
        RunOptions(budget_s=2400.0, lever_files=(levers,), use_history=False, force=True),
        write_run,
        root=tmp_path / "runs",
        clock=engine.clock,
    )
    assert outcome.verdict == "improved", outcome.notes
    assert outcome.metric == "slo_rate"
    assert outcome.ratio is not None
    # Two threads serve in 1 / 1.6 of the time. Of the limit, waits of 3 and of 5.4 services are left,
    # which a tenth exceeds at a load of 2k / (2k + ln 10): 1.6 * 0.824 / 0.723 in heavy traffic.
    assert outcome.ratio.lo < 1.82 < outcome.ratio.hi
    text = (outcome.run / "report.md").read_text()
    assert "## Throughput against interactivity" in text
    assert "| start |" in text
    assert "| kept |" in text
    assert "Throughput against interactivity" in (outcome.run / "report.html").read_text()
    assert not verify(outcome.run).failures


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"maximize": "tokens"}, "objective of --maximize"),
        ({"maximize": "rate"}, "expected service levels"),
        ({"maximize": "rate", "slo": "ttft=1s", "metric": "goodput"}, "neither --metric"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, str], match: str) -> None:
    from assay.improve.loop.progress import Silent

    asked = SubjectOptions(engine="vllm", budget_s=60.0, **options)
    with pytest.raises(AssayError, match=match), opened(asked, Silent()):
        pass
