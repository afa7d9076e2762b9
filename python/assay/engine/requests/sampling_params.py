"""Sampling parameters and stop conditions of a request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.engine.requests.structured_output import StructuredOutput
from assay.errors import InputError

MAX_LOGPROBS = 20
"""Most alternatives that can be reported for each token."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling parameters and stop conditions of a request.

    >>> SamplingParams(temperature=0.0, max_tokens=24).greedy
    True
    """

    max_tokens: int | None = 128
    """Tokens to generate at most; None generates up to the context limit."""
    temperature: float = 1.0
    """Logits are divided by this; 0 is greedy."""
    top_k: int = 0
    """Sample from this many most likely tokens; 0 is all."""
    top_p: float = 1.0
    """Sample from the most likely tokens whose probabilities sum to this (nucleus)."""
    min_p: float = 0.0
    """Sample from tokens with at least this share of the highest probability."""
    repetition_penalty: float = 1.0
    """Logits of tokens seen in prompt or output are divided by this, or multiplied below zero."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of every token of the output."""
    frequency_penalty: float = 0.0
    """Subtracted from the logit of a token for each time it is in the output."""
    seed: int | None = None
    """The same seed gives the same tokens; None draws one when the request is added."""
    logprobs: int | None = None
    """Report the log-probability of each token, with this many alternatives; None reports none."""
    stop: str | Sequence[str] = ()
    """Stop strings: they end the output and are not part of it."""
    stop_token_ids: Sequence[int] = ()
    """Tokens that end the output; they are not part of its text."""
    ignore_eos: bool = False
    """Continue after the model's end-of-sequence tokens."""
    skip_special_tokens: bool = True
    """Leave special tokens out of the text."""
    logit_bias: Mapping[int, float] | tuple[tuple[int, float], ...] = ()
    """Added to the logits of these tokens; kept as pairs (`biases`)."""
    structured_output: StructuredOutput | None = None
    """What the text must look like; None leaves it free."""
    min_tokens: int = 0
    """Tokens before which neither the model's end nor a stop string ends the output."""
    bad_words: str | Sequence[str] = ()
    """Texts that the output does not contain, with or without a space before them."""

    @classmethod
    def with_defaults(cls, stated: Mapping[str, float], **given: Any) -> SamplingParams:
        """The given parameters, then those that a checkpoint states (`ModelFiles.sampling`).

        >>> SamplingParams.with_defaults({"top_p": 0.9, "top_k": 40}, top_k=5).top_p
        0.9
        """
        return cls(
            **{**stated, **{name: value for name, value in given.items() if value is not None}}
        )

    def __post_init__(self) -> None:
        """Raise on the first invalid field."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        object.__setattr__(self, "logit_bias", self.biases)
        words = (self.bad_words,) if isinstance(self.bad_words, str) else tuple(self.bad_words)
        object.__setattr__(self, "bad_words", words)
        _check_integer("min_tokens", self.min_tokens, 0)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InputError(
                f"min_tokens: expected at most max_tokens {self.max_tokens}, got {self.min_tokens}"
            )
        for token, value in self.biases:
            _check_integer("logit_bias", token, 0)
            _check_number("logit_bias", value, -math.inf, math.inf)
        if self.max_tokens is not None:
            _check_integer("max_tokens", self.max_tokens, 1)
        _check_integer("top_k", self.top_k, 0)
        if self.logprobs is not None:
            _check_integer("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        if self.seed is not None:
            _check_integer("seed", self.seed, -(2**63), 2**63 - 1)
        for token in self.stop_token_ids:
            _check_integer("stop_token_ids", token, 0)
        _check_number("temperature", self.temperature, 0.0, math.inf)
        _check_number("top_p", self.top_p, 0.0, 1.0, above=True)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.0, math.inf, above=True)
        _check_number("presence_penalty", self.presence_penalty, -math.inf, math.inf)
        _check_number("frequency_penalty", self.frequency_penalty, -math.inf, math.inf)
        for name, texts in (("stop", stop), ("bad_words", words)):
            for text in texts:
                if not isinstance(text, str) or not text.strip(" " if name == "bad_words" else ""):
                    raise InputError(f"{name}: expected texts with characters, got {text!r}")

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always chosen."""
        return self.temperature == 0.0

    @property
    def biases(self) -> tuple[tuple[int, float], ...]:
        """The tokens of `logit_bias` with what is added to their logits."""
        given = self.logit_bias
        return tuple(given.items()) if isinstance(given, Mapping) else tuple(given)

    @property
    def biased(self) -> bool:
        """Whether something is added to the logits before penalties."""
        return bool(self.logit_bias)

    @property
    def masked(self) -> bool:
        """Whether some tokens may not be sampled, which ones following from those before."""
        return bool(self.bad_words or self.min_tokens) or self.structured_output is not None

    @property
    def penalized(self) -> bool:
        """Whether earlier tokens change the logits of later ones."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1, 0, 0)


def _check_integer(name: str, value: object, least: int, most: int | None = None) -> None:
    fits = isinstance(value, int) and not isinstance(value, bool)
    if fits:
        number = int(value)  # type: ignore[call-overload]
        fits = least <= number and (most is None or number <= most)
    if not fits:
        span = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name}: expected a whole number {span}, got {value!r}")


def _check_number(
    name: str, value: object, least: float, most: float, *, above: bool = False
) -> None:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if fits:
        number = float(value)  # type: ignore[arg-type]
        fits = math.isfinite(number) and least <= number <= most and not (above and number == least)
    if not fits:
        lower = "" if least == -math.inf else f" above {least:g}" if above else f" from {least:g}"
        upper = "" if most == math.inf else f" to {most:g}"
        raise InputError(f"{name}: expected a finite number{lower}{upper}, got {value!r}")
