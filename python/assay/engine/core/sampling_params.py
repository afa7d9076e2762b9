"""How the tokens of a request are chosen, and when they end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.errors import InputError

MOST_LOGPROBS = 20
"""Alternatives that can be reported beside each token."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the tokens of a request are chosen, and when they end.

    >>> SamplingParams(temperature=0.0, max_tokens=24).greedy
    True
    """

    max_tokens: int | None = 128
    """Tokens to generate at most; None goes on to the limit of the context."""
    temperature: float = 1.0
    """Logits are divided by this; 0 takes the best token."""
    top_k: int = 0
    """Only so many best tokens; 0 for all."""
    top_p: float = 1.0
    """Only the best tokens that together have this probability."""
    min_p: float = 0.0
    """Only tokens with at least this share of the best one's probability."""
    repetition_penalty: float = 1.0
    """Logits of tokens seen in prompt or output are divided by this, or multiplied below zero."""
    presence_penalty: float = 0.0
    """Taken from the logit of every token of the output."""
    frequency_penalty: float = 0.0
    """Taken from the logit of a token for each time it is in the output."""
    seed: int | None = None
    """The same seed gives the same tokens; None draws one when the request is added."""
    logprobs: int | None = None
    """Report the log-probability of each token, with this many alternatives; None reports none."""
    stop: str | Sequence[str] = ()
    """Texts that end the output; they are not part of it."""
    stop_token_ids: Sequence[int] = ()
    """Tokens that end the output; they are not part of its text."""
    ignore_eos: bool = False
    """Go on after the model's own end tokens."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, naming the field."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        if self.max_tokens is not None:
            _whole("max_tokens", self.max_tokens, 1)
        _whole("top_k", self.top_k, 0)
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, 0, MOST_LOGPROBS)
        if self.seed is not None:
            _whole("seed", self.seed, -(2**63), 2**63 - 1)
        for token in self.stop_token_ids:
            _whole("stop_token_ids", token, 0)
        _real("temperature", self.temperature, 0.0, math.inf)
        _real("top_p", self.top_p, 0.0, 1.0, above=True)
        _real("min_p", self.min_p, 0.0, 1.0)
        _real("repetition_penalty", self.repetition_penalty, 0.0, math.inf, above=True)
        _real("presence_penalty", self.presence_penalty, -math.inf, math.inf)
        _real("frequency_penalty", self.frequency_penalty, -math.inf, math.inf)
        for text in stop:
            if not isinstance(text, str) or not text:
                raise InputError(f"stop: expected texts with characters, got {text!r}")

    @property
    def greedy(self) -> bool:
        """Whether the best token is always taken."""
        return self.temperature == 0.0

    @property
    def penalized(self) -> bool:
        """Whether earlier tokens change the logits of later ones."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)


def _whole(name: str, value: object, least: int, most: int | None = None) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool)
    if fits:
        number = int(value)  # type: ignore[call-overload]
        fits = least <= number and (most is None or number <= most)
    if not fits:
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name}: expected a whole number {span}, got {value!r}")


def _real(name: str, value: object, least: float, most: float, *, above: bool = False) -> None:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if fits:
        number = float(value)  # type: ignore[arg-type]
        fits = math.isfinite(number) and least <= number <= most and not (above and number == least)
    if not fits:
        lower = "" if least == -math.inf else f" above {least:g}" if above else f" from {least:g}"
        upper = "" if most == math.inf else f" to {most:g}"
        raise InputError(f"{name}: expected a finite number{lower}{upper}, got {value!r}")
