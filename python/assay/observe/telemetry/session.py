"""`assay.telemetry`: record what the machine is like while a block of code runs."""

from __future__ import annotations

import platform
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

from assay._native import build_info
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sample import Missing, Reading, RunHeader, Sample
from assay.observe.telemetry.sampler import Sampler, check_rate
from assay.observe.telemetry.sinks.opening import open_sink
from assay.observe.telemetry.sinks.pump import BACKLOG, Pump, SinkStatus
from assay.observe.telemetry.sinks.sink import Sink, Summary
from assay.observe.telemetry.sources.discovery import find_sources
from assay.observe.telemetry.sources.source import Source

FLUSH_S: Final = 10.0
"""Seconds that sinks have at the end to deliver their backlog."""

Listener = Callable[[Sequence[Sample]], None]


class State:
    """A recording: a context manager; what it says can be asked at any time, and after the end."""

    def __init__(
        self,
        sources: Sequence[Source],
        sinks: Sequence[Sink],
        header: RunHeader,
        gaps: Gaps,
        *,
        backlog: int = BACKLOG,
        flush_s: float = FLUSH_S,
        listener: Listener | None = None,
    ) -> None:
        self.header = header
        self._gaps = gaps
        self._pumps = [Pump(sink, backlog) for sink in sinks]
        self._flush_s = flush_s
        self._listener = listener
        self._phase: str | None = None
        self._latest: dict[tuple[str, str], Sample] = {}
        self._lock = threading.Lock()
        self._sampler = Sampler(sources, self._deliver, gaps, header.rate_hz)
        self._begun_s: float | None = None
        self._ended_s: float | None = None
        self._ends: list[SinkStatus] | None = None
        self.samples = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def run(self) -> str:
        """The name of the recording."""
        return self.header.run

    def start(self) -> None:
        """Open the sinks and begin to sample."""
        opened: list[Sink] = []
        try:
            for pump in self._pumps:
                pump.sink.open(self.header)
                opened.append(pump.sink)
        except BaseException:
            # One sink that cannot open must not leave another one's file or port behind.
            for sink in opened:
                sink.close(Summary())
            self._sampler.stop()
            raise
        for pump in self._pumps:
            pump.start()
        self._begun_s = time.monotonic()
        self._sampler.start()

    def close(self) -> None:
        """Stop sampling and flush the sinks, each until the same deadline."""
        if self._ends is not None or self._begun_s is None:
            return
        self._sampler.stop()
        self._ended_s = time.monotonic()
        deadline_s = self._ended_s + self._flush_s
        missing = [asdict(gap) for gap in self.missing]
        ends: dict[int, SinkStatus] = {}

        def finish(number: int, pump: Pump) -> None:
            summary = Summary(missing, sum(self.missed.values()), [], self.cost())
            ends[number] = pump.close(deadline_s, summary)

        # Side by side: a dead sink must not eat the time of the others.
        threads = [
            threading.Thread(target=finish, args=item, daemon=True)
            for item in enumerate(self._pumps)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(deadline_s + 1.0 - time.monotonic(), 0.0))
        self._ends = [ends.get(number) or pump.status() for number, pump in enumerate(self._pumps)]

    def phase(self, name: str | None) -> _Phase:
        """Set the phase of the samples from now on; as a context manager, until its end."""
        before, self._phase = self._phase, name
        return _Phase(self, before)

    @property
    def latest(self) -> dict[tuple[str, str], Sample]:
        """The newest sample of every device, by source and device."""
        with self._lock:
            return dict(self._latest)

    @property
    def missing(self) -> list[Missing]:
        """Fields that could not be read, each once, with the reason."""
        return self._gaps.listed()

    @property
    def missed(self) -> dict[str, int]:
        """Ticks that a source missed, by source."""
        return self._sampler.missed

    @property
    def sinks(self) -> list[SinkStatus]:
        """What each sink has acknowledged, holds, and has lost."""
        if self._ends is not None:
            return self._ends
        return [pump.status() for pump in self._pumps]

    def cost(self) -> dict[str, float]:
        """What the recording cost: CPU seconds of its threads, and their share of a core."""
        if self._begun_s is None:
            return {"cpu_seconds": 0.0, "wall_seconds": 0.0, "core_share": 0.0}
        wall_s = (self._ended_s or time.monotonic()) - self._begun_s
        cpu_s = self._sampler.cpu_s + sum(pump.cpu_s for pump in self._pumps)
        return {
            "cpu_seconds": cpu_s,
            "wall_seconds": wall_s,
            "core_share": cpu_s / wall_s if wall_s > 0 else 0.0,
        }

    def costs(self) -> dict[str, float]:
        """CPU seconds by source and group of fields."""
        return self._sampler.costs()

    def notes(self) -> list[str]:
        """What a reader of the samples must know: missed ticks, losses of sinks."""
        missed = [
            f"source {name}: {count:,} ticks missed, for reading took longer than an interval"
            for name, count in self.missed.items()
        ]
        return [*missed, *(text for sink in self.sinks if (text := sink.sentence()))]

    def _deliver(
        self, realtime_ns: int, monotonic_ns: int, tick: int, readings: Sequence[Reading]
    ) -> None:
        header = self.header
        samples = [
            Sample(
                realtime_ns,
                monotonic_ns,
                tick,
                header.run,
                header.workload,
                header.fingerprint,
                self._phase,
                reading,
            )
            for reading in readings
        ]
        with self._lock:
            self.samples += len(samples)
            for sample in samples:
                self._latest[sample.reading.source, sample.reading.device] = sample
        for pump in self._pumps:
            pump.offer(samples)
        if self._listener is not None:
            self._listener(samples)


class _Phase:
    """Restores the phase before when its block ends."""

    def __init__(self, state: State, before: str | None) -> None:
        self._state = state
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._state.phase(self._before)


def telemetry(
    sinks: Sequence[str | Sink] | None = None,
    *,
    rate: float = 1.0,
    run: str | None = None,
    workload: str | None = None,
    fingerprint: str | None = None,
    endpoints: Sequence[str] | None = None,
    engine: Any = None,
    sources: Sequence[Source] | None = None,
    labels: Mapping[str, str] | None = None,
    backlog: int = BACKLOG,
    flush_s: float = FLUSH_S,
    listener: Listener | None = None,
) -> State:
    """Record what the machine is like: a context manager that yields a `State`.

    Sources find themselves: GPUs, the host, and metrics of local servers (`endpoints` names them
    instead; an empty list looks for none). `engine` adds the counters of an engine in this process.
    Sinks are names such as `jsonl:PATH` or objects; without any, Parquet under the scratch folder.
    `rate` is in Hz: above 2 Hz only the fast fields are read.

        with assay.telemetry(sinks=["jsonl:run.jsonl"]) as state:
            with state.phase("decode"):
                ...
    """
    check_rate(rate)
    name = run or default_run()
    chosen = [
        open_sink(sink, name) if isinstance(sink, str) else sink
        for sink in (["parquet"] if sinks is None else sinks)
    ]
    gaps = Gaps()
    read_from = (
        find_sources(gaps, endpoints=endpoints, engine=engine) if sources is None else sources
    )
    header = RunHeader(
        run=name,
        workload=workload,
        fingerprint=fingerprint if fingerprint is not None else machine_fingerprint(),
        hostname=platform.node(),
        rate_hz=rate,
        fast_only=False,
        versions={"assay": build_info()["version"], "python": platform.python_version()},
        labels=dict(labels or {}),
    )
    state = State(
        read_from, chosen, header, gaps, backlog=backlog, flush_s=flush_s, listener=listener
    )
    header.fast_only = state._sampler.fast_only
    return state


def default_run() -> str:
    """A name that sorts by time and does not repeat."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def machine_fingerprint() -> str:
    """The fingerprint of this machine; the GPUs are named in the samples themselves."""
    from assay.runtime.fingerprint import machine
    from assay.runtime.hardware import device

    return machine(device("cpu")).fingerprint
