"""An engine with planted effects, noise and faults, on a clock of its own: no test waits for it."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.errors import InputError
from assay.improve.engines.protocol import (
    RESIDENT,
    Engine,
    EngineDescription,
    EngineKnob,
    EngineLostError,
    Failure,
    Followed,
    Given,
    ProbeAnswer,
    TrialFailedError,
    Undo,
)
from assay.load.metrics import figures
from assay.load.workloads.measurement import LoadState, Measurement, RequestRecord, Setting
from assay.load.workloads.workload import PlannedRequest, Window, Workload

START: Mapping[str, Setting] = {"threads": 1, "max_batch": 1, "graphs": False, "kv": "bf16"}

Effect = Callable[[Mapping[str, Setting]], float]
"""Settings to a factor of the speed."""


def planted(settings: Mapping[str, Setting]) -> float:
    """1.6x for two threads, 1.25x for batch 4, nothing for graphs."""
    threads = 1.6 if settings["threads"] == 2 else 1.0
    batch = {1: 1.0, 2: 1.1, 4: 1.25, 8: 0.9}.get(int(settings["max_batch"] or 0), 1.0)
    return threads * batch


@dataclass
class PlantedEngine(Engine):
    """Runs requests in simulated time. Every field may be changed by a test."""

    effect: Effect = planted
    rate: float = 100.0
    """Output tokens a second with the settings at the start."""
    noise: float = 0.01
    """Standard deviation of the logarithm of a window's speed."""
    correlation: float = 0.0
    """Of one window's noise with that before it."""
    drift: float = 0.0
    """Change of the logarithm of the speed in a second."""
    seed: int = 0
    hot: bool = True
    restart_s: float = 0.1
    warmup: Sequence[float] = ()
    """Factors of the speed of the windows after a change of settings."""
    synthetic: bool = False
    disturb: Callable[[int], str] = lambda window: ""
    """What disturbs a window, by its number."""
    load_state: Callable[[Mapping[str, Setting]], LoadState] = lambda settings: "stable"
    output_tokens: Callable[[Mapping[str, Setting], int], int] = lambda settings, asked: asked
    """How many tokens a request really gets."""
    flips: Callable[[Mapping[str, Setting]], float | None] = lambda settings: None
    """Top-2 margin at which the third token of answers flips; None where none flips."""
    logprob_jitter: float = 0.0
    """A/A difference of log-probabilities between batches."""
    garbage: str = ""
    """empty, nan or repeat: what the model answers instead."""
    lie: Mapping[str, Setting] = field(default_factory=dict)
    """Settings that it reports whatever they are."""
    garbles: Callable[[Mapping[str, Setting], int], bool] = lambda settings, request: False
    """Requests whose answers of the workload are wrong; probes are not."""
    later: Callable[[Mapping[str, Setting], int], float] = lambda settings, windows: 1.0
    """Factor of the speed by the windows since the last change of settings."""
    follows: bool = True
    """Whether it gives log-probabilities along an answer."""
    memory: Callable[[int], float] | None = None
    """Memory after a window, by the windows since the last change; None says nothing of it."""
    fails: Callable[[Mapping[str, Setting]], Failure | None] = lambda settings: None
    """Settings with which it does not start."""
    crash_at: int | None = None
    """Window in which it crashes, once."""
    dies_at: int | None = None
    """Window from which on it is lost."""

    def __post_init__(self) -> None:
        """Start with `START`."""
        self.now = 0.0
        self.windows = 0
        self.followed = 0
        self.configured: list[dict[str, Setting]] = []
        self.closed = False
        self._settings = dict(START)
        self._random = random.Random(self.seed)
        self._last = 0.0
        self._since_change = 0

    def clock(self) -> float:
        """Seconds of simulated time."""
        return self.now

    def describe(self) -> EngineDescription:
        """A made-up engine."""
        return EngineDescription(
            engine="fake",
            release="1",
            model="planted",
            device="cpu",
            hardware={"cpu": "fake", "usable_cores": 2},
            capabilities=frozenset({"cpu", "hot-knobs", "logprobs"}),
            synthetic=self.synthetic,
            details={} if self.hot else {"start_seconds": self.restart_s},
        )

    def knobs(self) -> Mapping[str, EngineKnob]:
        """Four knobs."""
        return {
            "threads": EngineKnob("threads", "threads", 1, self.hot, 1, 2),
            "max_batch": EngineKnob("max_batch", "batch", 1, self.hot, 1, 64),
            "graphs": EngineKnob("graphs", "graphs", False, self.hot),
            "kv": EngineKnob("kv", "KV cache", "bf16", self.hot, choices=("bf16", "fp8")),
        }

    def settings(self) -> Mapping[str, Setting]:
        """What it runs with, or what it says."""
        self._check_alive()
        return {**self._settings, **self.lie}

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        """Change settings; a failing one leaves the old ones in place."""
        self._check_alive()
        for name, value in changes.items():
            knob = self.knobs().get(name)
            if knob is None:
                raise InputError(f"{name}: unknown knob")
            if knob.most is not None and not knob.least <= float(value or 0) <= knob.most:  # type: ignore[operator]
                raise InputError(f"{name}: expected {knob.least:g} to {knob.most:g}, got {value}")
        before = dict(self._settings)
        self.now += self.restart_s
        failure = self.fails({**before, **changes})
        if failure is not None:
            raise TrialFailedError(f"did not start: {failure}", failure=failure)
        self._apply({**before, **changes})

        def undo() -> None:
            self._check_alive()
            self.now += self.restart_s
            self._apply(before)

        return undo

    def measure(self, workload: Workload, window: Window) -> Measurement:
        """A window of requests, one after the other."""
        self._check_alive()
        number = self.windows
        self.windows += 1
        if number == self.crash_at:
            raise EngineLostError("crashed", failure="crash")
        speed = self._speed()
        started = self.now
        records = []
        count = window.requests or max(1, round((window.seconds or 0.0) * speed / 16))
        at = 0.0
        for place in range(count):
            asked = workload.requests[(window.offset + place) % len(workload.requests)]
            tokens = self.output_tokens(self._settings, asked.max_tokens)
            took = tokens / speed
            is_wrong = self.garbles(self._settings, asked.number)
            text = "garbled" if is_wrong else self._text_seed()
            records.append(_record(asked, at, took, tokens, text))
            at += took
        self.now += at
        disturbed = self.disturb(number)
        return Measurement(
            workload=workload.name,
            started_at=1e9 + started,
            seconds=at,
            records=tuple(records),
            figures=figures(records, at, workload.slo),
            load_state=self.load_state(self._settings),
            settings=dict(self.settings()),
            disturbances=(disturbed,) if disturbed else (),
            details={} if self.memory is None else {RESIDENT: self.memory(self._since_change)},
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        """Answers that follow from the prompt, in any batch."""
        self._check_alive()
        self.now += 0.05
        jitter = self.logprob_jitter * self._random.random()
        return [self._answer(prompt, max_tokens, jitter) for prompt in prompts]

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Along its own answers without a gap; along others with that of the flipped token."""
        self._check_alive()
        self.followed += len(answers)
        return [self._along(request, str(answer)) for request, answer in answers]

    def _along(self, request: PlannedRequest, answer: str) -> Followed | None:
        if not self.follows:
            return None
        if answer.startswith(f"{request.prompt} {self._text_seed()} "):
            return Followed((0.0,) * request.max_tokens)
        flipped = self.flips(self._settings)
        gap = 2.0 if flipped is None else flipped
        return Followed((*(0.0,) * (request.max_tokens - 1), gap))

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        """No trace."""
        return None

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        """A command line."""
        return "fake serve " + " ".join(f"--{name} {value}" for name, value in settings.items())

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def _answer(self, prompt: str, max_tokens: int, jitter: float) -> ProbeAnswer:
        flipped = self.flips(self._settings)
        if self.garbage == "empty":
            return ProbeAnswer((), (), (), ())
        seed = int.from_bytes(hashlib.sha256(prompt.encode()).digest()[:4], "big")
        tokens = [
            0 if self.garbage == "repeat" else (seed + 7 * at) % 997 for at in range(max_tokens)
        ]
        margins = [2.0] * max_tokens
        margins[2] = 2.0 if flipped is None else flipped
        if self._flipped_now(flipped):
            tokens[2:] = [token + 1000 for token in tokens[2:]]
        logprob = math.nan if self.garbage == "nan" else -0.5 - jitter
        return ProbeAnswer(
            token_ids=tuple(tokens),
            texts=tuple(f" {token}" for token in tokens),
            logprobs=(logprob,) * max_tokens,
            margins=tuple(margins),
            top_logprobs=({"a": -0.5 - jitter, "b": -1.0},) * max_tokens,
        )

    def _flipped_now(self, flipped: float | None) -> bool:
        return flipped is not None and self._settings != dict(START)

    def _text_seed(self) -> str:
        return "flipped" if self._flipped_now(self.flips(self._settings)) else "plain"

    def _speed(self) -> float:
        fresh = self._random.gauss(0.0, self.noise)
        kept = self.correlation
        self._last = kept * self._last + math.sqrt(1.0 - kept * kept) * fresh
        factor = self.warmup[self._since_change] if self._since_change < len(self.warmup) else 1.0
        self._since_change += 1
        factor *= self.later(self._settings, self._since_change)
        trend = math.exp(self._last + self.drift * self.now)
        return self.rate * self.effect(self._settings) * factor * trend

    def _apply(self, settings: Mapping[str, Setting]) -> None:
        self._settings = dict(settings)
        self.configured.append(dict(settings))
        self._since_change = 0

    def _check_alive(self) -> None:
        if self.dies_at is not None and self.windows >= self.dies_at:
            raise EngineLostError("the engine is gone", failure="hang")


def _record(asked: PlannedRequest, at: float, took: float, tokens: int, text: str) -> RequestRecord:
    first = at + took / max(tokens, 1)
    return RequestRecord(
        number=asked.number,
        sent_s=at,
        first_token_s=first,
        end_s=at + took,
        prompt_tokens=8,
        output_tokens=tokens,
        itls_s=(took / max(tokens, 1),) * max(tokens - 1, 0),
        digest=hashlib.sha256(f"{asked.prompt}{text}{tokens}".encode()).hexdigest(),
        output=_text(asked.prompt, text, tokens),
    )


def _text(prompt: str, kind: str, tokens: int) -> str:
    return f"{prompt} {kind} {tokens}"


def planted_workload(requests: int = 32, output_tokens: int = 16) -> Workload:
    """A closed loop of one client."""
    return Workload(
        name="fake",
        description="requests of equal length",
        requests=tuple(
            PlannedRequest(number, f"prompt {number}", output_tokens) for number in range(requests)
        ),
    )
