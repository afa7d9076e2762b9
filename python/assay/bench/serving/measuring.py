"""Windows of a scenario on one server: saturated, and at rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from assay.bench.serving.scenarios import Scenario
from assay.bench.serving.servers import RunningServer
from assay.load.client import ClientOptions, LoadClient
from assay.load.intervals import intervals
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.texts import CountTokens
from assay.load.workloads.workload import Window

AT_ONCE: Final = 512
"""Requests under way at once where a server is saturated."""
WARMUP: Final = 2
FIGURES: Final = (
    "completed", "failed", "total_input_tokens", "total_output_tokens", "duration",
    "request_throughput", "output_throughput", "request_goodput",
    *(f"{level}_{name}_ms" for name in ("ttft", "tpot", "itl") for level in ("p50", "p90", "p99")),
)  # fmt: skip
"""Figures of a window that are kept."""


@dataclass(frozen=True, slots=True)
class Point:
    """One window."""

    server: str
    scenario: str
    load: str
    """`saturated`, or the share of the reference rate."""
    rate: float | None
    """Requests per second that were sent; None where the server was saturated."""
    figures: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """95 % intervals of some of them."""
    load_state: str = ""
    errors: int = 0
    client_cpu_share: float | None = None
    notes: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """The window as JSON."""
        return asdict(self)


def saturated(
    server: RunningServer,
    scenario: Scenario,
    count: CountTokens,
    requests: int,
    seed: int,
    at_once: int = AT_ONCE,
) -> Point:
    """So many requests under way, by default as many as the server takes, and what it then delivers."""
    return _point(server, scenario, count, requests, seed, None, "saturated", at_once)


def at_rate(
    server: RunningServer,
    scenario: Scenario,
    count: CountTokens,
    requests: int,
    seed: int,
    rate: float,
    share: float,
) -> Point:
    """Requests at a rate."""
    return _point(server, scenario, count, requests, seed, rate, f"{share:.0%}")


def _point(
    server: RunningServer,
    scenario: Scenario,
    count: CountTokens,
    requests: int,
    seed: int,
    rate: float | None,
    load: str,
    at_once: int = AT_ONCE,
) -> Point:
    planned = scenario.planned(requests + WARMUP, seed, count, rate=rate, at_once=at_once)
    before = server.counters()
    with LoadClient(server.url, ClientOptions(timeout_s=600.0)) as client:
        window = client.run_window(planned, Window(requests=requests, warmup_requests=WARMUP))
        notes = tuple(client.notes)
    after = server.counters()
    return _reduced(server, scenario, window, rate, load, _steps(before, after), notes)


def _reduced(
    server: RunningServer,
    scenario: Scenario,
    window: Measurement,
    rate: float | None,
    load: str,
    steps: dict[str, float],
    notes: tuple[str, ...],
) -> Point:
    figures = {name: window.figures[name] for name in FIGURES if name in window.figures}
    figures |= steps
    certain = intervals(window.records, window.seconds)
    return Point(
        server.command.name,
        scenario.name,
        load,
        rate,
        figures,
        {name: (one.lo, one.hi) for name, one in certain.items() if name in figures},
        window.load_state,
        window.errors,
        window.client_cpu_share,
        (*notes, *_unequal(scenario, window.records), *_first_error(window.records)),
    )


def _steps(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Device and idle time of a step, where the server counts them."""

    def grown(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    steps = grown("assay:engine_steps_total")
    if steps <= 0:
        return {}
    device_s, idle_s = (grown(f"assay:step_{name}_seconds_total") for name in ("device", "idle"))
    figures = {
        "steps": steps,
        "preemptions": grown("vllm:num_preemptions_total"),
        "prefix_hits": grown("vllm:prefix_cache_hits_total"),
    }
    if device_s > 0.0:
        figures["step_ms"] = 1e3 * device_s / steps
        figures["idle_ms_per_step"] = 1e3 * idle_s / steps
        figures["idle_share"] = idle_s / (idle_s + device_s)
    return figures


def _unequal(scenario: Scenario, records: Sequence[RequestRecord]) -> tuple[str, ...]:
    """A note where answers were shorter than asked for: then the work was not equal."""
    short = sum(
        record.error is None and record.output_tokens != scenario.output for record in records
    )
    return (f"{short} answers have another length than {scenario.output}",) if short else ()


def _first_error(records: Sequence[RequestRecord]) -> tuple[str, ...]:
    """A note of the first request that failed, of however many."""
    errors = [record.error for record in records if record.error is not None]
    return (f"{len(errors)} requests failed: {errors[0][:200]}",) if errors else ()
