"""Two models on one device, as `assay serve` runs them, one under a flood of requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from assay.engine.core.device_sharing import DeviceSharing, engine_settings, shares_of
from assay.engine.core.worker import EngineWorker, Failure
from assay.runtime.hardware import Device

if TYPE_CHECKING:
    from assay.engine.requests.outputs import StepOutput

NAMES: Final = ("a", "b")
DUTY: Final = 0.5
"""Part of the time in which the paced model has a request, alone on the device."""

WARM_UP_SECONDS: Final = 3.0
"""Time for a guaranteed model to use up its burst before shares are measured."""


@dataclass(frozen=True)
class Load:
    """Requests: tokens of a prompt and of an output, and how many a flood keeps under way."""

    prompt: int
    tokens: int
    requests: int


@dataclass
class Latencies:
    """Seconds of the requests of a run."""

    to_first_token: list[float] = field(default_factory=list)
    between_tokens: list[float] = field(default_factory=list)
    to_last_token: list[float] = field(default_factory=list)

    def p99(self, what: str) -> float:
        """The 99th percentile, interpolated."""
        return float(np.quantile(getattr(self, what), 0.99))


@dataclass
class _Timing:
    submitted: float
    expected: int
    first: float | None = None
    last: float = 0.0
    tokens: int = 0


class MeasuredShare(NamedTuple):
    """The device time of one model."""

    of_device_time: float
    """Over that of all models."""
    of_wall_time: float
    busy: float
    """The device time of all models over wall time."""


class Client:
    """Submits requests to one engine's worker, and times their tokens."""

    def __init__(self, engine: Any, place: Any, load: Load) -> None:
        """Requests are of this size."""
        from assay.engine import SamplingParams

        self._random = np.random.default_rng(7)
        self._vocabulary = engine.model.shape.vocabulary
        self._params = SamplingParams(temperature=0.0, ignore_eos=True)
        self._load = load
        self._timings: dict[str, _Timing] = {}
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._flooding = False
        self.latencies = Latencies()
        self.errors: list[BaseException] = []
        self.wrong = 0
        """Requests that ended with another number of tokens."""
        self.worker = EngineWorker(engine, self._sink, place=place)

    def submit(self, tokens: int | None = None) -> None:
        """Submit one request with a prompt of its own."""
        tokens = tokens or self._load.tokens
        prompt = self._random.integers(0, self._vocabulary, self._load.prompt).tolist()
        begun = time.perf_counter()
        with self._lock:
            [name] = self.worker.submit([prompt], [replace(self._params, max_tokens=tokens)])
            self._timings[name] = _Timing(begun, tokens)

    def wait_idle(self) -> None:
        """Wait until every request has finished."""
        with self._idle:
            self._idle.wait_for(lambda: not self._timings)
        if self.errors:
            raise self.errors[0]

    @contextmanager
    def flooding(self) -> Iterator[None]:
        """Keep the load's number of requests under way inside the block."""
        self._flooding = True
        for _ in range(self._load.requests):
            self.submit(self._uneven())
        try:
            yield
        finally:
            self._flooding = False
            self.wait_idle()

    def paced(self, count: int, mean_gap: float, seed: int) -> Latencies:
        """Requests that arrive at random, independent of the responses (open loop)."""
        self.latencies = Latencies()
        arrivals = np.cumsum(np.random.default_rng(seed).exponential(mean_gap, count))
        begun = time.perf_counter()
        for arrival in arrivals:
            time.sleep(max(0.0, begun + arrival - time.perf_counter()))
            self.submit()
        self.wait_idle()
        return self.latencies

    def _uneven(self) -> int:
        """Tokens of a request of a flood: outputs of one length would all end in one step."""
        least = max(1, self._load.tokens // 2)
        return int(self._random.integers(least, 3 * least + 1))

    def _sink(self, events: Sequence[StepOutput | Failure]) -> None:
        now = time.perf_counter()
        again = 0
        with self._lock:
            for event in events:
                if isinstance(event, Failure):
                    self.errors.append(event.error)
                    self._timings.pop(event.request_id, None)
                    continue
                timing = self._timings[event.request_id]
                self._record(timing, now, len(event.token_ids))
                if event.finished:
                    self.latencies.to_last_token.append(now - timing.submitted)
                    self.wrong += timing.tokens != timing.expected
                    del self._timings[event.request_id]
                    again += self._flooding
            self._idle.notify_all()
        for _ in range(again):
            self.submit(self._uneven())

    def _record(self, timing: _Timing, now: float, tokens: int) -> None:
        if not tokens:
            return
        if timing.first is None:
            timing.first = now
            self.latencies.to_first_token.append(now - timing.submitted)
        else:
            self.latencies.between_tokens.append((now - timing.last) / tokens)
        timing.last = now
        timing.tokens += tokens


class SharedModels:
    """Two engines that share a device, 70 to 30."""

    def __init__(
        self,
        device: Device,
        source: str,
        *,
        formats: Sequence[str],
        guaranteed: bool,
        load: Load,
        percents: tuple[float, float] = (70, 30),
    ) -> None:
        """Load the source twice, in these weight formats."""
        from assay.engine import Engine

        given = dict(zip(NAMES, percents, strict=True))
        shares = shares_of(NAMES, given, NAMES[:1] if guaranteed else ())
        self.sharing = DeviceSharing(device, shares)
        self.engines = []
        for share, weight_format in zip(shares, formats, strict=True):
            with self.sharing.loading(share.name):
                engine = Engine.load(
                    source,
                    device,
                    kv_tokens=2 * load.requests * (load.prompt + 2 * load.tokens) + 1024,
                    prefix_caching=False,
                    max_batch=2 * load.requests,
                    weight_format=weight_format,
                    **engine_settings(share, shares),
                )
                engine.warm_up()
            self.engines.append(engine)
        self.sharing.admit()
        places = [self.sharing.places[name] for name in NAMES]
        self.clients = [
            Client(engine, place, load) for engine, place in zip(self.engines, places, strict=True)
        ]
        for client in self.clients:
            # Captures the graphs of these batch sizes.
            with client.flooding():
                pass
        self._gap = self._request_seconds() / DUTY

    def _request_seconds(self) -> float:
        """The time of one request alone on the device, the second of two."""
        first = self.clients[0]
        for _ in range(2):
            begun = time.perf_counter()
            first.submit()
            first.wait_idle()
        return time.perf_counter() - begun

    def shares(self, seconds: float, warm_up: float = WARM_UP_SECONDS) -> MeasuredShare:
        """The first model's share while both have requests all the time."""
        first, second = self.clients
        with first.flooding(), second.flooding():
            time.sleep(warm_up)
            before, start = self._device_ns(), time.perf_counter_ns()
            time.sleep(seconds)
            after, end = self._device_ns(), time.perf_counter_ns()
        gained = [late - early for early, late in zip(before, after, strict=True)]
        total, wall = max(sum(gained), 1), end - start
        return MeasuredShare(gained[0] / total, gained[0] / wall, total / wall)

    def paced(self, count: int, *, flooded: bool, seed: int = 0) -> Latencies:
        """Latencies of the first model at half load, beside a flood of the second or alone."""
        first, second = self.clients
        if not flooded:
            return first.paced(count, self._gap, seed)
        with second.flooding():
            return first.paced(count, self._gap, seed)

    def wrong(self) -> int:
        """Requests that ended with another number of tokens than they asked for."""
        return sum(client.wrong for client in self.clients)

    def close(self) -> None:
        """End both models."""
        for client in self.clients:
            client.worker.close()

    def _device_ns(self) -> list[int]:
        return [self.sharing.places[name].device_ns() for name in NAMES]
