"""A whole model: decode, prefill, concurrent requests, and process start to first token."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.bench.harness import ceilings
from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.rivals import decoders, process_start
from assay.bench.rivals.decoder import AssayDecoder, Decoder, Tokens
from assay.bench.suites import decode_gpu

if TYPE_CHECKING:
    from assay.engine import Engine

MODEL: Final = "smollm2"
PREFILL: Final = 256
REQUESTS: Final = 8
TOKENS: Final = 64
QUICK_TOKENS: Final = 8
LOGIT_TOLERANCE: Final = 0.25
"""Allowed gap to the best logit: rounding of quantized activations."""

PROMPT: Final = "Gravity is the force that"
PROMPTS: Final = (
    PROMPT,
    "The lighthouse keeper counted",
    "To bake a loaf of bread, first",
    "In the year 1815 the volcano",
    "A prime number is",
    "My favorite season is",
    "The train to the coast leaves",
    "Light travels faster than",
)

_SELF_TIMED: Final = SelfTimedClock()


class LoadedModels:
    """Our engine and the rivals, each with the model loaded once for all cases of a run."""

    def __init__(self, settings: Settings) -> None:
        self.source = settings.model or MODEL
        self._settings = settings

    @functools.cached_property
    def engine(self) -> Engine:
        """Our engine, without prefix caching."""
        from assay.engine import Engine

        return Engine.load(self.source, self._settings.device, prefix_caching=False)

    @functools.cached_property
    def own(self) -> AssayDecoder:
        """Our engine as a decoder."""
        return AssayDecoder(self.engine)

    @functools.cached_property
    def deterministic(self) -> AssayDecoder:
        """Our engine in deterministic mode, over the same weights."""
        from assay.engine import Engine

        files, device = self.engine.files, self._settings.device
        return AssayDecoder(Engine.load(files, device, prefix_caching=False, deterministic=True))

    @functools.cached_property
    def rivals(self) -> list[Decoder | Absent]:
        """The rivals of `--rival`, or all known ones."""
        names = self._settings.rivals or tuple(decoders.RIVALS)
        return [decoders.rival(name, self.engine.files.path) for name in names]

    def subjects(
        self, call: Callable[[Decoder, int], float], amount: float
    ) -> tuple[Subject, list[Subject | Absent]]:
        """Subjects for our engine and the rivals; `call` returns the seconds of one."""

        def entry(decoder: Decoder) -> Subject:
            return Subject(decoder.name, lambda i: call(decoder, i), _SELF_TIMED, amount)

        rivals = [rival if isinstance(rival, Absent) else entry(rival) for rival in self.rivals]
        return entry(self.own), rivals

    def encode(self, text: str) -> list[int]:
        """A prompt's tokens."""
        return self.engine.files.tokenizer.encode(text)

    def logit_gap(self, prompt: Tokens, tokens: Tokens) -> float:
        """Largest gap between the best logit and that of the sampled token, in one forward pass."""
        logits = self.engine.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
        return float(np.max(logits.max(axis=1) - logits[np.arange(len(tokens)), list(tokens)]))


def cases(settings: Settings) -> list[Case]:
    """The cases of a CPU; on a GPU those of `decode_gpu`."""
    if settings.device.capabilities.is_gpu:
        return decode_gpu.cases(settings)
    models = LoadedModels(settings)
    count = QUICK_TOKENS if settings.quick else TOKENS
    facts = {"model": models.source, "tokens": count}
    return [
        Case(f"decode {count} tokens", "tok/s", lambda: _decode(models, count), facts),
        Case(f"prefill {PREFILL} tokens", "tok/s", lambda: _prefill(models), facts),
        Case(
            f"{REQUESTS} requests at once, {count} tokens each",
            "tok/s",
            lambda: _concurrent(models, count),
            {**facts, "requests": REQUESTS},
        ),
        Case(
            f"prefill {PREFILL} tokens, deterministic",
            "tok/s",
            lambda: _deterministic_prefill(models),
            facts,
        ),
        Case(
            f"{REQUESTS} requests at once, deterministic",
            "tok/s",
            lambda: _deterministic_concurrent(models, count),
            {**facts, "requests": REQUESTS},
        ),
        Case(
            "process start to first token",
            "ms",
            lambda: _start(models, settings.device.name),
            facts,
        ),
    ]


def _decode(models: LoadedModels, count: int) -> PreparedCase:
    prompt = models.encode(PROMPT)
    own, rivals = models.subjects(lambda subject, _: subject.decode(prompt, count)[0], 1.0)
    nbytes = models.engine.describe()["streamed_bytes"]
    agreement = [
        _agreement(models.own, rival, prompt, count)
        for rival in models.rivals
        if not isinstance(rival, Absent)
    ]
    return PreparedCase(
        own,
        Check(
            "one pass over prompt and output, in logits",
            lambda _: models.logit_gap(prompt, models.own.decode(prompt, count)[1]),
            LOGIT_TOLERANCE,
        ),
        ceiling=ceilings.weight_read(models.engine.device, nbytes),
        rivals=rivals,
        bytes=nbytes,
        note="; ".join(["the floor reads the weights once for each token", *agreement]),
        degradations=lambda: models.engine.describe()["degradations"],
    )


def _agreement(own: Decoder, other: Decoder, prompt: Tokens, count: int) -> str:
    pairs = zip(own.decode(prompt, count)[1], other.decode(prompt, count)[1], strict=True)
    same = next((i for i, (mine, theirs) in enumerate(pairs) if mine != theirs), count)
    return f"the first {same} of {count} tokens are those of {other.name}"


def _prompts(models: LoadedModels) -> list[list[int]]:
    """Prompts to rotate through, the same for every subject."""
    vocabulary = models.engine.describe()["vocabulary"]
    source = np.random.default_rng(0)
    prompts: list[list[int]] = source.integers(0, vocabulary, (16, PREFILL)).tolist()
    return prompts


def _prefill(models: LoadedModels) -> PreparedCase:
    prompts = _prompts(models)
    own, rivals = models.subjects(
        lambda subject, i: subject.prefill(prompts[i % len(prompts)])[0], PREFILL
    )

    def error(number: int) -> float:
        prompt = prompts[number % len(prompts)]
        return models.logit_gap(prompt, [models.own.prefill(prompt)[1]])

    return PreparedCase(
        own, Check("a pass with the logits of every token", error, LOGIT_TOLERANCE), rivals=rivals
    )


def _concurrent(models: LoadedModels, count: int) -> PreparedCase:
    prompts = [models.encode(text) for text in PROMPTS]
    own, rivals = models.subjects(
        lambda subject, _: subject.decode_batch(prompts, count)[0], REQUESTS * count
    )

    def error(_: int) -> float:
        answers = models.own.decode_batch(prompts, count)[1]
        return max(map(models.logit_gap, prompts, answers))

    nbytes = models.engine.describe()["streamed_bytes"]
    return PreparedCase(
        own,
        Check("one pass over each prompt and output, in logits", error, LOGIT_TOLERANCE),
        ceiling=ceilings.weight_read(models.engine.device, nbytes, REQUESTS),
        rivals=rivals,
        note="rivals take one request after another; prompts included",
    )


def _deterministic_prefill(models: LoadedModels) -> PreparedCase:
    prompts = _prompts(models)

    def call(decoder: Decoder, i: int) -> float:
        return decoder.prefill(prompts[i % len(prompts)])[0]

    def error(number: int) -> float:
        prompt = prompts[number % len(prompts)]
        return models.logit_gap(prompt, [models.deterministic.prefill(prompt)[1]])

    check = Check("a pass with the logits of every token", error, LOGIT_TOLERANCE)
    return _beside_default(models, call, check, PREFILL)


def _deterministic_concurrent(models: LoadedModels, count: int) -> PreparedCase:
    prompts = [models.encode(text) for text in PROMPTS]

    def call(decoder: Decoder, _: int) -> float:
        return decoder.decode_batch(prompts, count)[0]

    def error(_: int) -> float:
        batched = models.deterministic.decode_batch(prompts, count)[1]
        alone = [models.deterministic.decode_batch([prompt], count)[1][0] for prompt in prompts]
        return float(batched != alone)

    check = Check("each request alone, token for token", error, 0.0)
    return _beside_default(models, call, check, REQUESTS * count)


def _beside_default(
    models: LoadedModels, call: Callable[[Decoder, int], float], check: Check, amount: float
) -> PreparedCase:
    """The cost of deterministic mode: the same work with and without it."""

    def entry(name: str, decoder: Decoder) -> Subject:
        return Subject(name, lambda i: call(decoder, i), _SELF_TIMED, amount)

    return PreparedCase(
        entry("assay", models.deterministic),
        check,
        rivals=[entry("default mode", models.own)],
        note="the cost of outputs that do not depend on the other requests of a batch",
    )


def _start(models: LoadedModels, device: str) -> PreparedCase:
    path = models.engine.files.path
    commands = process_start.commands(models.source, path, PROMPT, device)
    first = models.own.prefill(models.encode(PROMPT))[1]
    expected = models.engine.files.tokenizer.decode([first])

    def subject(name: str) -> Subject:
        return Subject(
            name, lambda _: process_start.run_to_first_byte(commands[name]).seconds, _SELF_TIMED
        )

    rivals: list[Subject | Absent] = []
    for rival in models.rivals:
        if isinstance(rival, Absent):
            rivals.append(rival)
        elif rival.name in commands:
            rivals.append(subject(rival.name))
        else:
            rivals.append(Absent(rival.name, "its start is not measured"))
    return PreparedCase(
        subject("assay"),
        Check(
            "the engine in this process",
            lambda _: float(
                process_start.run_to_first_byte(commands["assay"]).text != f"{expected}\n"
            ),
            0.0,
        ),
        rivals=rivals,
        note="whole processes, files in the page cache",
    )


SUITE: Final = Suite("decode", cases, rivals=tuple(decoders.RIVALS), has_model=True)
