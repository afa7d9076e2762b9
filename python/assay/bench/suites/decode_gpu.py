"""Decode steps of the engine on a GPU, beside the time of reading their bytes at the ceiling."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.bench.harness.case import Case, Check, PreparedCase, Settings, Subject
from assay.bench.harness.clocks import DeviceClock, SelfTimedClock
from assay.bench.rivals import process_start
from assay.bench.suites import prefill_gpu
from assay.bench.suites.engine_cache import BATCHES, OUTPUT, PROMPT, EngineCache

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.engine.models.model_shape import ModelShape

LONG: Final = 12_000
DETERMINISTIC: Final = (1, 8)
"""Batch sizes that are measured in deterministic mode too."""
KV_FORMATS: Final = ("fp8", "int8")
"""Formats of keys and values measured at long contexts, besides bf16."""
FORMATS: Final = ("fp8", "int4")
"""Weight formats measured at batch 1, besides the model's own."""

STEPS: Final = 16
"""Steps per sample; requests continue across samples until their outputs are complete."""
LOGIT_TOLERANCE: Final = 0.25
"""Allowed gap to the best logit: rounding to bfloat16 in every layer."""
CHECKED: Final = 2
"""Requests of a batch whose tokens are checked."""
TOP_LOGPROBS: Final = 20
STARTS: Final = 3

_SELF_TIMED: Final = SelfTimedClock()


class Batch:
    """A batch of requests, advanced a few steps per sample."""

    def __init__(self, engine: Engine, requests: int, prompt: int) -> None:
        self.engine = engine
        self.requests = requests
        self.prompt = prompt
        self.prompts: list[list[int]] = []
        self.tokens: dict[str, list[int]] = {}
        self._left = 0
        self._distinct: list[int] = []

    def advance(self, number: int) -> float:
        """Mean seconds of `STEPS` steps."""
        if self._left <= STEPS:
            self.start(number)
        # The device is idle after the other subjects: this step refills the pipeline.
        self._step()
        begun = time.perf_counter()
        for _ in range(STEPS):
            self._step()
        seconds = (time.perf_counter() - begun) / STEPS
        self._left -= STEPS + 1
        if self.engine.model.shape.experts is not None:
            chosen = self.engine.routed_experts(self.requests)
            self._distinct.append(len({expert for row in chosen for expert in row}))
        return seconds

    def start(self, number: int) -> None:
        """Submit new prompts, and step until every request has its first token."""
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
        """Abort all requests."""
        while self.engine.has_work:
            for name in tuple(self.tokens):
                if self.engine.is_under_way(name):
                    self.engine.abort(name)
            self.engine.step()
        self.tokens = {}
        self._left = 0

    def routed(self) -> list[str]:
        """How many experts of the last layer the measured steps touched, as a note."""
        if not self._distinct:
            return []
        mean = sum(self._distinct) / len(self._distinct)
        return [
            f"{mean:.1f} distinct experts in the last layer, mean of {len(self._distinct)} steps"
        ]

    def error(self, number: int) -> float:
        """Largest logit gap of some requests' tokens in a separate forward pass."""
        self.start(number)
        for _ in range(STEPS):
            self._step()
        sampled = list(self.tokens.values())[:CHECKED]
        self.stop()
        return max(map(self._logit_gap, self.prompts, sampled))

    def _logit_gap(self, prompt: Sequence[int], tokens: Sequence[int]) -> float:
        """The gap over all tokens; of the last one only where all logits would not fit."""
        from assay.engine import SamplingParams

        if self.prompt <= PROMPT:
            logits = self.engine.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
            best = logits.max(axis=1)
            return float(np.max(best - logits[np.arange(len(tokens)), list(tokens)]))
        params = SamplingParams(
            max_tokens=1, temperature=0.0, logprobs=TOP_LOGPROBS, ignore_eos=True
        )
        [answer] = self.engine.generate([[*prompt, *tokens[:-1]]], params)
        assert answer.logprobs is not None
        likely = dict(answer.logprobs[0].top_logprobs)
        return max(likely.values()) - likely.get(tokens[-1], -np.inf)

    def _step(self) -> None:
        for output in self.engine.step():
            self.tokens[output.request_id] += output.token_ids


def cases(settings: Settings) -> list[Case]:
    """Decode steps by batch and context, prefill, other weight formats, then process starts."""
    engines = EngineCache(settings)
    facts = {"model": engines.source}

    def step(
        requests: int,
        prompt: int,
        weight_format: str = "file",
        *,
        kv_format: str = "bf16",
        deterministic: bool = False,
    ) -> Case:
        name = f"batch {requests}, context {prompt:,} to {prompt + OUTPUT:,}"
        if weight_format != "file":
            name = f"{weight_format} weights, {name}"
        if deterministic:
            name = f"deterministic, {name}"
        parameters = {
            **facts,
            "requests": requests,
            "prompt": prompt,
            "weight_format": weight_format,
        }
        if kv_format != "bf16":
            name = f"{kv_format} KV cache, {name}"
            parameters["kv_format"] = kv_format

        def prepared() -> PreparedCase:
            engine = engines.engine(weight_format, kv_format=kv_format, deterministic=deterministic)
            return _step(engines, engine, requests, prompt)

        return Case(name, "ms", prepared, parameters)

    starts = ProcessStarts(engines, settings)
    return [
        *(step(requests, PROMPT) for requests in BATCHES),
        step(8, LONG),
        *(step(8, LONG, kv_format=kv_format) for kv_format in KV_FORMATS),
        *prefill_gpu.cases(engines),
        *(step(requests, PROMPT, deterministic=True) for requests in DETERMINISTIC),
        *(step(1, PROMPT, weight_format) for weight_format in FORMATS),
        Case("process start to first token", "s", starts.seconds_case, facts, STARTS),
        Case("peak anonymous memory until then", "MB", starts.memory_case, facts, STARTS),
    ]


def _step(engines: EngineCache, engine: Engine, requests: int, prompt: int) -> PreparedCase:
    batch = Batch(engine, requests, prompt)
    shape = engine.model.shape
    counts = engine.statistics()
    kv = engine.describe()["kv_bytes"] / (counts["blocks"] * counts["block_tokens"])
    context = prompt + OUTPUT // 2
    touched = touched_experts(shape, requests)
    nbytes = engine.model.step_bytes(touched) + requests * context * kv
    note = "the floor reads weights, keys and values once at the ceiling of the same rounds"
    if shape.experts is not None:
        note += f", of {shape.experts.experts} experts in each layer {touched:.1f} expected ones"
    # In deterministic mode another pass gives the same bits.
    tolerance = 0.0 if engine.settings.deterministic else LOGIT_TOLERANCE
    return PreparedCase(
        Subject("assay", batch.advance, _SELF_TIMED),
        Check("another pass over prompt and output, in logits", batch.error, tolerance),
        ceiling=_reading(engines, nbytes),
        bytes=nbytes,
        note=note,
        degradations=lambda: [*batch.routed(), *engine.describe()["degradations"]],
    )


def touched_experts(shape: ModelShape, tokens: int) -> float:
    """Experts of a layer that a batch is expected to touch, by the stack's occupancy equation."""
    if shape.experts is None:
        return 0.0
    from assay import stack

    scope = "kernels.experts"
    given = {"tokens": tokens, "experts": shape.experts.experts, "chosen": shape.experts.top_k}
    touched = stack.registry().resolve(
        f"{scope}.touched", {f"{scope}.{name}": float(value) for name, value in given.items()}
    )
    assert touched.value is not None, touched.missing
    return touched.value


def _reading(engines: EngineCache, nbytes: int) -> Subject:
    """Reading as many random bytes as a step does, far more than caches hold."""
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

    return Subject("floor", call, DeviceClock(device), buffer.nbytes / nbytes)


class ProcessStarts:
    """Whole processes of the program, from start to first token."""

    def __init__(self, engines: EngineCache, settings: Settings) -> None:
        self._engines = engines
        commands = process_start.commands(engines.source, None, "Gravity", settings.device.name)
        self._command = commands["assay"]
        self._measured: list[tuple[float, float]] = []
        self._texts: set[str] = set()

    def seconds_case(self) -> PreparedCase:
        """Seconds until the first token is written."""
        return PreparedCase(
            Subject("assay", lambda _: self._start()[0], _SELF_TIMED),
            self._check(),
            note="a whole process; weights in the page cache, kernels in the cache on disk",
        )

    def memory_case(self) -> PreparedCase:
        """Peak anonymous memory of the same processes."""

        def call(number: int) -> float:
            return (
                self._measured[number % len(self._measured)][1]
                if self._measured
                else self._start()[1]
            )

        return PreparedCase(
            Subject("assay", call, _SELF_TIMED),
            self._check(),
            note="RssAnon of the processes whose start was measured, sampled every 5 ms",
        )

    def _check(self) -> Check:
        return Check("the first token of every start is the same", lambda _: self._differ(), 0.0)

    def _differ(self) -> float:
        if not self._texts:
            self._start()
        return float(len(self._texts) != 1)

    def _start(self) -> tuple[float, float]:
        started = process_start.run_to_first_byte(self._command, monitor_memory=True)
        self._measured.append((started.seconds, started.anonymous_bytes))
        self._texts.add(started.text)
        return self._measured[-1]
