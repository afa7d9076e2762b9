"""Bounded probes of a server: short completions, one by one and several at once."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.diagnose.live.client import Client, Completion
from assay.http_client import ServerError
from assay.openai_api.answers import ServedModel

SINGLE: Final = "one at a time"
LENGTH: Final = "prompt length"
REPEATED: Final = "repeated prompt"
TOGETHER: Final = "at once"
BESIDE: Final = "beside a prefill"

OUTPUT_TOKENS: Final = 32
SHORT_PROMPT: Final = 64
LONG_PROMPTS: Final = (256, 1024)
SINGLES: Final = 5
CONCURRENCIES: Final = (2, 4, 8)
PAIRS: Final = 5
"""Streams with and without a prompt that is prefilled beside them, in random order."""

_WORDS: Final = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "inlet", "jasper",
    "kelp", "lagoon", "meadow", "north", "orchard", "prairie", "quarry", "river", "summit",
    "tundra", "valley", "willow",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Probe:
    """Completions that were sent together."""

    kind: str
    concurrency: int
    prompt_tokens: int
    """As the server counts them."""
    answers: tuple[Completion, ...]

    @property
    def ttft_s(self) -> float:
        """Median time to first token."""
        return statistics.median(answer.ttft_s for answer in self.answers)

    @property
    def tpot_s(self) -> float | None:
        """Median time per output token."""
        tpots = [tpot for answer in self.answers if (tpot := answer.tpot_s) is not None]
        return statistics.median(tpots) if tpots else None

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all of them over the time from the first to the last."""
        first = min(answer.sent_s for answer in self.answers)
        last = max(answer.arrivals_s[-1] for answer in self.answers)
        return sum(answer.completion_tokens for answer in self.answers) / max(last - first, 1e-9)


@dataclass(frozen=True, slots=True)
class Pair:
    """The experiment on prefill: a stream alone, and one with a prompt prefilled beside it."""

    alone_s: float
    beside_s: float
    """Time per output token of each."""
    prompt_tokens: int
    """Of the prompt that was prefilled."""
    output_tokens: int


@dataclass(slots=True)
class Probes:
    """Everything that was measured, and what there was no time or room for."""

    done: list[Probe] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    requests: int = 0
    tokens: int = 0
    """Of prompts and outputs together."""
    notes: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[Probe]:
        """The probes of a kind, in order."""
        return [probe for probe in self.done if probe.kind == kind]


class Prober:
    """Sends the probes, one kind after another, until the time is spent."""

    def __init__(
        self,
        client: Client,
        model: ServedModel,
        deadline_s: float,
        *,
        most_at_once: int = max(CONCURRENCIES),
        seed: int | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client, self._model, self._deadline_s = client, model, deadline_s
        self._random = random.Random(seed)
        self._most = most_at_once
        self._say = say
        self._words_per_token = 0.5
        self._probes = Probes()

    def run(self) -> Probes:
        """All probes; raises `ServerError` if not even the first one is answered."""
        self._warm_up()
        for name, stage in (
            (SINGLE, self._singles),
            (LENGTH, self._lengths),
            (REPEATED, self._repeated),
            (TOGETHER, self._together),
            (BESIDE, self._beside),
        ):
            self._say(f"probing: {name}")
            try:
                for _ in stage():
                    if time.monotonic() > self._deadline_s:
                        self._probes.notes.append(
                            f"probes cut short at: {name}; --duration gives them more time"
                        )
                        return self._probes
            except ServerError as error:
                if name == SINGLE and not self._probes.done:
                    raise
                self._probes.notes.append(f"probe {name} failed: {error.message}")
        return self._probes

    def _warm_up(self) -> None:
        """The first request pays for what is loaded late; it also shows tokens per word."""
        words = SHORT_PROMPT // 2
        answer = self._client.complete(self._model.name, self._prompt(words), 2)
        self._count(answer)
        self._words_per_token = words / max(answer.prompt_tokens, 1)

    def _singles(self) -> Iterator[None]:
        for _ in range(SINGLES):
            self._probe(SINGLE, [self._sized(SHORT_PROMPT)], OUTPUT_TOKENS)
            yield

    def _lengths(self) -> Iterator[None]:
        for tokens in self._long_prompts():
            for _ in range(2):
                self._probe(LENGTH, [self._sized(tokens)], 2)
                yield

    def _repeated(self) -> Iterator[None]:
        """The same prompt again: a prefix cache answers the second one sooner."""
        prompt = self._sized(self._long_prompts()[-1])
        for _ in range(3):
            self._probe(REPEATED, [prompt], 2)
            yield

    def _together(self) -> Iterator[None]:
        for count in CONCURRENCIES:
            if count > self._most:
                break
            prompts = [self._sized(SHORT_PROMPT) for _ in range(count)]
            self._probe(TOGETHER, prompts, OUTPUT_TOKENS)
            yield

    def _beside(self) -> Iterator[None]:
        """Streams alone and beside a prefill; which comes first is drawn for each pair."""
        length = self._long_prompts()[-1]
        for _ in range(PAIRS):
            order = [False, True]
            self._random.shuffle(order)
            measured: dict[bool, Completion] = {}
            beside = 0
            for with_prefill in order:
                answer, prefilled = self._stream_beside(length if with_prefill else None)
                measured[with_prefill] = answer
                beside = max(beside, prefilled)
                yield
            alone, disturbed = measured[False].tpot_s, measured[True].tpot_s
            if alone is not None and disturbed is not None:
                tokens = measured[True].completion_tokens
                self._probes.pairs.append(Pair(alone, disturbed, beside, tokens))

    def _stream_beside(self, length: int | None) -> tuple[Completion, int]:
        """A stream, and the tokens of the prompt that was sent once the stream was under way."""
        single = self._probes.of(SINGLE)
        expected = single[-1].answers[0] if single else None
        prefilled: list[Completion] = []
        failed: list[ServerError] = []
        thread = None
        if length is not None:
            prompt = self._sized(length)
            wait_s = 0.0
            if expected is not None:
                wait_s = expected.ttft_s + 0.25 * (expected.tpot_s or 0.0) * OUTPUT_TOKENS

            def send() -> None:
                time.sleep(wait_s)
                try:
                    prefilled.append(self._client.complete(self._model.name, prompt, 1))
                except ServerError as error:
                    failed.append(error)

            thread = threading.Thread(target=send, daemon=True)
            thread.start()
        answer = self._client.complete(self._model.name, self._sized(SHORT_PROMPT), OUTPUT_TOKENS)
        if thread is not None:
            thread.join()
        if failed:
            raise failed[0]
        for streamed in (answer, *prefilled):
            self._count(streamed)
        return answer, sum(prefill.prompt_tokens for prefill in prefilled)

    def _probe(self, kind: str, prompts: Sequence[str], tokens: int) -> None:
        answers: list[Completion] = []
        failed: list[ServerError] = []

        def send(prompt: str) -> None:
            try:
                answers.append(self._client.complete(self._model.name, prompt, tokens))
            except ServerError as error:
                failed.append(error)

        threads = [threading.Thread(target=send, args=(prompt,), daemon=True) for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        for answer in answers:
            self._count(answer)
        mean = round(statistics.mean(answer.prompt_tokens for answer in answers))
        self._probes.done.append(Probe(kind, len(prompts), mean, tuple(answers)))

    def _count(self, answer: Completion) -> None:
        self._probes.requests += 1
        self._probes.tokens += answer.prompt_tokens + answer.completion_tokens

    def _long_prompts(self) -> list[int]:
        """Lengths that fit the context beside an output."""
        limit = self._model.context_limit
        room = None if limit is None else max(limit - 2 * OUTPUT_TOKENS - 8, 16)
        return sorted(
            {min(tokens, room * 3 // 4) if room is not None else tokens for tokens in LONG_PROMPTS}
        )

    def _sized(self, tokens: int) -> str:
        return self._prompt(max(round(tokens * self._words_per_token), 1))

    def _prompt(self, words: int) -> str:
        """Words at random, others in every run: no earlier prompt left them in a prefix cache."""
        return " ".join(self._random.choice(_WORDS) for _ in range(max(words, 1)))
