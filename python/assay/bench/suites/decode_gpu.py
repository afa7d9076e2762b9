"""The engine on a GPU: a step of so many requests beside the time that reading its bytes takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.bench.harness.case import Case, Check, Contestant, Settings, Trial
from assay.bench.harness.clocks import DeviceClock, ToldClock
from assay.bench.rivals import process_start
from assay.bench.suites import prefill_gpu
from assay.bench.suites.engine_cache import BATCHES, OUTPUT, PROMPT, EngineCache

if TYPE_CHECKING:
    from assay.engine import Engine

LONG: Final = 12_000
DETERMINISTIC: Final = (1, 8)
"""Batches that are measured in deterministic mode too."""
FORMATS: Final = ("fp8",)
"""Formats of weights that one request is measured with, besides the model's own."""

STEPS: Final = 16
"""Steps of a sample; requests go on from sample to sample until their outputs are long enough."""
LOGIT_TOLERANCE: Final = 0.25
"""How far below the best logit a chosen token may be: rounding to bfloat16, layer by layer."""
CHECKED: Final = 2
"""Requests of a batch whose tokens are checked."""
LIKELY: Final = 20
STARTS: Final = 3

_TOLD: Final = ToldClock()


class Batch:
    """Requests that decode side by side, a few steps at a time."""

    def __init__(self, engine: Engine, requests: int, prompt: int) -> None:
        self.engine = engine
        self.requests = requests
        self.prompt = prompt
        self.prompts: list[list[int]] = []
        self.tokens: dict[str, list[int]] = {}
        self._left = 0

    def advance(self, number: int) -> float:
        """Seconds of a step, over a few of them."""
        if self._left <= STEPS:
            self.start(number)
        # Whatever ran meanwhile let the device run dry: this step sets the next one going.
        self._step()
        begun = time.perf_counter()
        for _ in range(STEPS):
            self._step()
        seconds = (time.perf_counter() - begun) / STEPS
        self._left -= STEPS + 1
        return seconds

    def start(self, number: int) -> None:
        """Begin with other prompts, and step until every request has its first token."""
        from assay.engine import SamplingParams

        self.stop()
        vocabulary = self.engine.model.shape.vocabulary
        source = np.random.default_rng(number)
        self.prompts = source.integers(0, vocabulary, (self.requests, self.prompt)).tolist()
        params = SamplingParams(max_tokens=OUTPUT, temperature=0.0, ignore_eos=True)
        names = [self.engine.add_request(prompt, params) for prompt in self.prompts]
        self.tokens = {name: [] for name in names}
        while not all(self.tokens.values()):
            self._step()
        self._left = OUTPUT - max(len(tokens) for tokens in self.tokens.values())

    def stop(self) -> None:
        """End what is under way."""
        while self.engine.has_work:
            for name in tuple(self.tokens):
                if self.engine.is_under_way(name):
                    self.engine.abort(name)
            self.engine.step()
        self.tokens = {}
        self._left = 0

    def error(self, number: int) -> float:
        """How far the chosen tokens of some requests are below the best of another pass."""
        self.start(number)
        for _ in range(STEPS):
            self._step()
        chosen = list(self.tokens.values())[:CHECKED]
        self.stop()
        return max(map(self._gap, self.prompts, chosen))

    def _gap(self, prompt: Sequence[int], tokens: Sequence[int]) -> float:
        """The gap over all tokens, or that of the last one where all logits would be too many."""
        from assay.engine import SamplingParams

        if self.prompt <= PROMPT:
            logits = self.engine.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
            best = logits.max(axis=1)
            return float(np.max(best - logits[np.arange(len(tokens)), list(tokens)]))
        params = SamplingParams(max_tokens=1, temperature=0.0, logprobs=LIKELY, ignore_eos=True)
        [answer] = self.engine.generate([[*prompt, *tokens[:-1]]], params)
        assert answer.logprobs is not None
        likely = dict(answer.logprobs[0].top_logprobs)
        return max(likely.values()) - likely.get(tokens[-1], -np.inf)

    def _step(self) -> None:
        for output in self.engine.step():
            self.tokens[output.request_id] += output.token_ids


def cases(settings: Settings) -> list[Case]:
    """Steps of batches, of a long context, prompts, other weights; then starts of the program."""
    engines = EngineCache(settings)
    facts = {"model": engines.source}

    def step(
        requests: int, prompt: int, weight_format: str = "file", *, deterministic: bool = False
    ) -> Case:
        name = f"batch {requests}, context {prompt:,} to {prompt + OUTPUT:,}"
        if weight_format != "file":
            name = f"{weight_format} weights, {name}"
        if deterministic:
            name = f"deterministic, {name}"
        told = {**facts, "requests": requests, "prompt": prompt, "weight_format": weight_format}

        def trial() -> Trial:
            engine = engines.engine(weight_format, deterministic=deterministic)
            return _step(engines, engine, requests, prompt)

        return Case(name, "ms", trial, told)

    starts = Starts(engines, settings)
    return [
        *(step(requests, PROMPT) for requests in BATCHES),
        step(8, LONG),
        *prefill_gpu.cases(engines),
        *(step(requests, PROMPT, deterministic=True) for requests in DETERMINISTIC),
        *(step(1, PROMPT, weight_format) for weight_format in FORMATS),
        Case("process start to first token", "s", starts.seconds_trial, facts, STARTS),
        Case("peak anonymous memory until then", "MB", starts.memory_trial, facts, STARTS),
    ]


def _step(engines: EngineCache, engine: Engine, requests: int, prompt: int) -> Trial:
    batch = Batch(engine, requests, prompt)
    shape = engine.model.shape
    kv = 2 * shape.kv_values
    context = prompt + OUTPUT // 2
    nbytes = engine.model.streamed_bytes + requests * context * kv
    # In deterministic mode another pass gives the same bits.
    tolerance = 0.0 if engine.settings.deterministic else LOGIT_TOLERANCE
    return Trial(
        Contestant("assay", batch.advance, _TOLD),
        Check("another pass over prompt and output, in logits", batch.error, tolerance),
        ceiling=_reading(engines, nbytes),
        bytes=nbytes,
        note="the floor reads weights, keys and values once at the ceiling of the same rounds",
        degradations=lambda: engine.describe()["degradations"],
    )


def _reading(engines: EngineCache, nbytes: int) -> Contestant:
    """Reading so many bytes: random ones, far more than caches hold, as often as it takes."""
    from assay import xp

    device, buffer = engines.device, engines.read
    out = xp.empty((1,), dtype=xp.float32, device=device)

    def call(_: int) -> None:
        device.operate(
            "stream_read",
            [(buffer, 0, buffer.nbytes, 0), (out.buffer, out.offset, out.nbytes, 0)],
            [buffer.nbytes // 4],
            label="read",
            bytes=buffer.nbytes,
            flops=0.0,
        )

    return Contestant("floor", call, DeviceClock(device), buffer.nbytes / nbytes)


class Starts:
    """The program from its start to the first token, in processes of their own."""

    def __init__(self, engines: EngineCache, settings: Settings) -> None:
        self._engines = engines
        commands = process_start.commands(engines.source, None, "Gravity", settings.device.name)
        self._command = commands["assay"]
        self._kept: list[tuple[float, float]] = []
        self._texts: set[str] = set()

    def seconds_trial(self) -> Trial:
        """Seconds until the first token is written."""
        return Trial(
            Contestant("assay", lambda _: self._start()[0], _TOLD),
            self._check(),
            note="a whole process; weights in the page cache, kernels in the cache on disk",
        )

    def memory_trial(self) -> Trial:
        """The most anonymous memory that the same processes had."""

        def call(number: int) -> float:
            return self._kept[number % len(self._kept)][1] if self._kept else self._start()[1]

        return Trial(
            Contestant("assay", call, _TOLD),
            self._check(),
            note="RssAnon of the processes whose start was measured, looked at every 5 ms",
        )

    def _check(self) -> Check:
        return Check("the first token of every start is the same", lambda _: self._differ(), 0.0)

    def _differ(self) -> float:
        if not self._texts:
            self._start()
        return float(len(self._texts) != 1)

    def _start(self) -> tuple[float, float]:
        found = process_start.start(self._command, watches_memory=True)
        self._kept.append((found.seconds, found.anonymous_bytes))
        self._texts.add(found.text)
        return self._kept[-1]
