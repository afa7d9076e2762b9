"""A language model of hashes: greedy answers with log-probabilities, near ties and all.

It imports nothing of the product. The next token follows from the prompt and all tokens before it,
as in a model: an answer that takes another turn at a near tie goes on differently. A configuration
perturbs logits by a little, so that near ties flip between configurations, and now and then
between two visits of the same one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

WORDS = tuple(
    f" {start}{end}"
    for start in (
        "ba",
        "ce",
        "di",
        "fo",
        "gu",
        "la",
        "me",
        "ni",
        "po",
        "ru",
        "sa",
        "te",
        "vi",
        "wo",
    )
    for end in ("ban", "cel", "dim", "for", "gus", "lat", "mer", "nil", "pod", "rus", "sal", "ten")
)
NEAR_TIES = 0.02
"""Share of positions where the two best tokens nearly tie."""
LARGEST_TIE = 0.02
"""Nats between two tokens that nearly tie."""
UNLISTED = -18.0
"""Log-probability of a token that is none of the best ones."""
SHARED_PREFIX = "the same words of all who ask for this:"


class Step(NamedTuple):
    """The best tokens of a position, best first, with their log-probabilities."""

    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]


def number(*parts: object) -> int:
    """A number that follows from parts: the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


def share(*parts: object) -> float:
    """A number from 0 to 1 that follows from parts."""
    return number(*parts) / 2**64


@lru_cache(maxsize=400_000)
def exact_step(context: int) -> Step:
    """What the unperturbed model says behind a text, of which `context` is the number."""
    draw = number("step", context)
    tokens = []
    while len(tokens) < 5:
        word = WORDS[draw % len(WORDS)]
        draw //= len(WORDS)
        if draw == 0:
            draw = number("more", context, len(tokens))
        if word not in tokens:
            tokens.append(word)
    gap = 0.4 + 4.0 * share("gap", context)
    if share("tie", context) < NEAR_TIES:
        gap = LARGEST_TIE * share("small", context)
    logprobs = [-0.3, -0.3 - gap, -4.5 - gap, -5.0 - gap, -6.0 - gap]
    return Step(tuple(tokens), tuple(logprobs))


def step(context: int, perturbation: float, flavor: object) -> Step:
    """The step of a configuration: each logit moved by up to `perturbation`."""
    exact = exact_step(context)
    if not perturbation or exact.logprobs[0] - exact.logprobs[1] > 2 * perturbation:
        return exact
    moved = [
        logprob + perturbation * (2 * share(flavor, context, token) - 1)
        for token, logprob in zip(exact.tokens, exact.logprobs, strict=True)
    ]
    order = sorted(range(len(moved)), key=lambda place: -moved[place])
    return Step(
        tuple(exact.tokens[place] for place in order), tuple(moved[place] for place in order)
    )


def context_of(text: str) -> int:
    """The number of a text: the next token follows from all of it, as in a model."""
    return number("text", text)


@lru_cache(maxsize=200_000)
def answer(prompt: str, tokens: int, perturbation: float, flavor: object) -> tuple[str, ...]:
    """A greedy answer."""
    text, said = prompt, []
    for _ in range(tokens):
        best = step(context_of(text), perturbation, flavor).tokens[0]
        said.append(best)
        text += best
    return tuple(said)


Garble = Callable[[str, Sequence[str], int], Sequence[str] | None]
"""Prompt, right answer and how many answers were given before; None leaves it right."""


@dataclass(frozen=True)
class Request:
    """What a user asks."""

    prompt: str
    tokens: int
    stop: tuple[str, ...] = ()
    """Words that end an answer, and are not part of it."""
    seed: int | None = None
    """Of a sampled answer; None is greedy."""


def sampled(prompt: str, tokens: int, seed: object) -> tuple[str, ...]:
    """An answer that is drawn: the same one for the same seed."""
    text, said = prompt, []
    for at in range(tokens):
        best = exact_step(context_of(text))
        weights = [math.exp(logprob) for logprob in best.logprobs]
        left = share("drawn", seed, at) * sum(weights)
        place = 0
        while place < len(weights) - 1 and left > weights[place]:
            left -= weights[place]
            place += 1
        word = best.tokens[place]
        said.append(word)
        text += word
    return tuple(said)


def scored(prompt: str, said: Sequence[str]) -> tuple[float, ...]:
    """Log-probabilities of the tokens of an answer."""
    text, logprobs = prompt, []
    for token in said:
        best = exact_step(context_of(text))
        logprobs.append(dict(zip(best.tokens, best.logprobs, strict=True)).get(token, UNLISTED))
        text += token
    return tuple(logprobs)


def stopped(said: Sequence[str], stop: Sequence[str]) -> tuple[str, ...]:
    """An answer up to the first word that ends it."""
    ends = [at for at, token in enumerate(said) if token in stop]
    return tuple(said[: ends[0]] if ends else said)


def requests(count: int = 700) -> list[Request]:
    """A workload of several kinds: languages, adapters, tool calls, long prompts and long answers."""
    made = []
    for index in range(count):
        words = 8 + number("length", index) % 40
        kind = index % 10
        if kind == 3:
            words = 80 + number("long", index) % 120
        text = "".join(WORDS[number("word", index, at) % len(WORDS)] for at in range(words))
        tag = {
            5: "auf deutsch:",
            6: "\u7528\u4e2d\u6587:",
            7: "adapter-b:",
            8: "tool get_weather:",
        }.get(kind, "")
        made.append(Request(f"{index}{tag}{text}", 64 if kind == 9 else 16 + index % 9))
    return made


def wide_requests(count: int = 700) -> list[Request]:
    """The same with requests that share a prefix, that end at a word, and that are sampled with a seed."""
    made = []
    for index, request in enumerate(requests(count)):
        if index % 10 == 0:
            request = Request(SHARED_PREFIX + request.prompt, request.tokens)
        elif index % 10 == 1:
            stop = tuple(WORDS[number("stop", index, at) % len(WORDS)] for at in range(8))
            request = Request(request.prompt, request.tokens, stop)
        elif index % 10 == 2:
            request = Request(request.prompt, request.tokens, seed=index)
        made.append(request)
    return made
