"""A whole model: decoding, prompts, many requests at once, and the way to the first token."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.bench.harness import ceilings
from assay.bench.harness.case import Absent, Case, Check, Contestant, Settings, Suite, Trial
from assay.bench.harness.clocks import ToldClock
from assay.bench.rivals import decoders, process_start
from assay.bench.rivals.decoder import Decoder, OwnDecoder, Tokens
from assay.bench.suites import decode_gpu

if TYPE_CHECKING:
    from assay.engine import Engine

MODEL: Final = "smollm2"
PREFILL: Final = 256
REQUESTS: Final = 8
TOKENS: Final = 64
QUICK_TOKENS: Final = 8
LOGIT_TOLERANCE: Final = 0.25
"""How far below the best logit a chosen token may be: rounding of quantized activations."""

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

_TOLD: Final = ToldClock()


class Contest:
    """The model loaded once by everyone, for all cases of a run."""

    def __init__(self, settings: Settings) -> None:
        self.source = settings.model or MODEL
        self._settings = settings

    @functools.cached_property
    def engine(self) -> Engine:
        """Our engine; prompts are computed each time."""
        from assay.engine import Engine

        return Engine.load(self.source, self._settings.device, prefix_caching=False)

    @functools.cached_property
    def own(self) -> OwnDecoder:
        """Our engine as a decoder."""
        return OwnDecoder(self.engine)

    @functools.cached_property
    def deterministic(self) -> OwnDecoder:
        """Our engine in deterministic mode, over the same weights."""
        from assay.engine import Engine

        files, device = self.engine.files, self._settings.device
        return OwnDecoder(Engine.load(files, device, prefix_caching=False, deterministic=True))

    @functools.cached_property
    def rivals(self) -> list[Decoder | Absent]:
        """Those that were asked for, or all that are known."""
        names = self._settings.rivals or tuple(decoders.RIVALS)
        return [decoders.rival(name, self.engine.files.path) for name in names]

    def contestants(
        self, call: Callable[[Decoder, int], float], amount: float
    ) -> tuple[Contestant, list[Contestant | Absent]]:
        """Ourselves and the rivals, each doing `call`, which returns its seconds."""

        def entry(decoder: Decoder) -> Contestant:
            return Contestant(decoder.name, lambda i: call(decoder, i), _TOLD, amount)

        rivals = [one if isinstance(one, Absent) else entry(one) for one in self.rivals]
        return entry(self.own), rivals

    def encode(self, text: str) -> list[int]:
        """A prompt's tokens."""
        return self.engine.files.tokenizer.encode(text)

    def gap(self, prompt: Tokens, tokens: Tokens) -> float:
        """How far chosen tokens are below the best of one pass over prompt and output."""
        logits = self.engine.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
        return float(np.max(logits.max(axis=1) - logits[np.arange(len(tokens)), list(tokens)]))


def cases(settings: Settings) -> list[Case]:
    """Ways to look at one model; on a GPU, steps of a large one and how it starts."""
    if settings.device.capabilities.is_gpu:
        return decode_gpu.cases(settings)
    contest = Contest(settings)
    count = QUICK_TOKENS if settings.quick else TOKENS
    facts = {"model": contest.source, "tokens": count}
    return [
        Case(f"decode {count} tokens", "tok/s", lambda: _decode(contest, count), facts),
        Case(f"prefill {PREFILL} tokens", "tok/s", lambda: _prefill(contest), facts),
        Case(
            f"{REQUESTS} requests at once, {count} tokens each",
            "tok/s",
            lambda: _together(contest, count),
            {**facts, "requests": REQUESTS},
        ),
        Case(
            f"prefill {PREFILL} tokens, deterministic",
            "tok/s",
            lambda: _deterministic_prefill(contest),
            facts,
        ),
        Case(
            f"{REQUESTS} requests at once, deterministic",
            "tok/s",
            lambda: _deterministic_together(contest, count),
            {**facts, "requests": REQUESTS},
        ),
        Case(
            "process start to first token",
            "ms",
            lambda: _start(contest, settings.device.name),
            facts,
        ),
    ]


def _decode(contest: Contest, count: int) -> Trial:
    prompt = contest.encode(PROMPT)
    own, rivals = contest.contestants(lambda one, _: one.decode(prompt, count)[0], 1.0)
    nbytes = contest.engine.describe()["streamed_bytes"]
    agreement = [
        _agreement(contest.own, one, prompt, count)
        for one in contest.rivals
        if not isinstance(one, Absent)
    ]
    return Trial(
        own,
        Check(
            "one pass over prompt and output, in logits",
            lambda _: contest.gap(prompt, contest.own.decode(prompt, count)[1]),
            LOGIT_TOLERANCE,
        ),
        ceiling=ceilings.weight_read(contest.engine.device, nbytes),
        rivals=rivals,
        bytes=nbytes,
        note="; ".join(["the floor reads the weights once for each token", *agreement]),
        degradations=lambda: contest.engine.describe()["degradations"],
    )


def _agreement(own: Decoder, other: Decoder, prompt: Tokens, count: int) -> str:
    pairs = zip(own.decode(prompt, count)[1], other.decode(prompt, count)[1], strict=True)
    same = next((i for i, (mine, theirs) in enumerate(pairs) if mine != theirs), count)
    return f"the first {same} of {count} tokens are those of {other.name}"


def _prompts(contest: Contest) -> list[list[int]]:
    """Another prompt each time, the same ones for everyone."""
    vocabulary = contest.engine.describe()["vocabulary"]
    source = np.random.default_rng(0)
    prompts: list[list[int]] = source.integers(0, vocabulary, (16, PREFILL)).tolist()
    return prompts


def _prefill(contest: Contest) -> Trial:
    prompts = _prompts(contest)
    own, rivals = contest.contestants(
        lambda one, i: one.prefill(prompts[i % len(prompts)])[0], PREFILL
    )

    def error(number: int) -> float:
        prompt = prompts[number % len(prompts)]
        return contest.gap(prompt, [contest.own.prefill(prompt)[1]])

    return Trial(
        own,
        Check("a pass with the logits of every token", error, LOGIT_TOLERANCE),
        rivals=rivals,
    )


def _together(contest: Contest, count: int) -> Trial:
    prompts = [contest.encode(text) for text in PROMPTS]
    own, rivals = contest.contestants(
        lambda one, _: one.together(prompts, count)[0], REQUESTS * count
    )

    def error(_: int) -> float:
        answers = contest.own.together(prompts, count)[1]
        return max(map(contest.gap, prompts, answers))

    nbytes = contest.engine.describe()["streamed_bytes"]
    return Trial(
        own,
        Check("one pass over each prompt and output, in logits", error, LOGIT_TOLERANCE),
        ceiling=ceilings.weight_read(contest.engine.device, nbytes, REQUESTS),
        rivals=rivals,
        note="rivals take one request after another; prompts included",
    )


def _deterministic_prefill(contest: Contest) -> Trial:
    prompts = _prompts(contest)

    def call(decoder: Decoder, i: int) -> float:
        return decoder.prefill(prompts[i % len(prompts)])[0]

    def error(number: int) -> float:
        prompt = prompts[number % len(prompts)]
        return contest.gap(prompt, [contest.deterministic.prefill(prompt)[1]])

    check = Check("a pass with the logits of every token", error, LOGIT_TOLERANCE)
    return _beside_default(contest, call, check, PREFILL)


def _deterministic_together(contest: Contest, count: int) -> Trial:
    prompts = [contest.encode(text) for text in PROMPTS]

    def call(decoder: Decoder, _: int) -> float:
        return decoder.together(prompts, count)[0]

    def error(_: int) -> float:
        among = contest.deterministic.together(prompts, count)[1]
        alone = [contest.deterministic.together([prompt], count)[1][0] for prompt in prompts]
        return float(among != alone)

    check = Check("each request alone, token for token", error, 0.0)
    return _beside_default(contest, call, check, REQUESTS * count)


def _beside_default(
    contest: Contest, call: Callable[[Decoder, int], float], check: Check, amount: float
) -> Trial:
    """What deterministic mode costs: the same work with and without it."""

    def entry(name: str, decoder: Decoder) -> Contestant:
        return Contestant(name, lambda i: call(decoder, i), _TOLD, amount)

    return Trial(
        entry("assay", contest.deterministic),
        check,
        rivals=[entry("default mode", contest.own)],
        note="what it costs that outputs do not depend on what else runs",
    )


def _start(contest: Contest, device: str) -> Trial:
    path = contest.engine.files.path
    commands = process_start.commands(contest.source, path, PROMPT, device)
    first = contest.own.prefill(contest.encode(PROMPT))[1]
    expected = contest.engine.files.tokenizer.decode([first])

    def contestant(name: str) -> Contestant:
        return Contestant(name, lambda _: process_start.start(commands[name]).seconds, _TOLD)

    rivals: list[Contestant | Absent] = []
    for one in contest.rivals:
        if isinstance(one, Absent):
            rivals.append(one)
        elif one.name in commands:
            rivals.append(contestant(one.name))
        else:
            rivals.append(Absent(one.name, "its start is not measured"))
    return Trial(
        contestant("assay"),
        Check(
            "the engine in this process",
            lambda _: float(process_start.start(commands["assay"]).text != f"{expected}\n"),
            0.0,
        ),
        rivals=rivals,
        note="whole processes, files in the page cache",
    )


SUITE: Final = Suite(
    "decode",
    "a language model from prompt to tokens, beside the floor and other programs",
    cases,
    rivals=tuple(decoders.RIVALS),
)
