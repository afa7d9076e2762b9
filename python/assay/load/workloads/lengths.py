"""Distributions of prompt and output lengths, in tokens, and how they are written.

128                     always 128
64-256                  uniform, both ends included
lognormal:180,0.8       median 180, sigma 0.8 of the logarithm
lognormal:180,0.8,16-2048   the same, drawn again until it is within the bounds
lengths.txt             drawn from the numbers of a file
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Final, Protocol

from assay import files
from assay.errors import InputError
from assay.load.workloads.texts import MAX_TOKENS

MAX_SAMPLES: Final = 10_000_000
"""Most numbers that a file of lengths may have."""


class Lengths(Protocol):
    """A distribution of lengths."""

    def draw(self, random: Random) -> int:
        """One length, 1 at least."""

    def scaled(self, factor: float) -> Lengths:
        """The distribution with every length multiplied by `factor`."""

    def __str__(self) -> str:
        """In words, for descriptions."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    tokens: int

    def draw(self, random: Random) -> int:
        """The length."""
        return self.tokens

    def scaled(self, factor: float) -> Fixed:
        """Longer or shorter."""
        return Fixed(_scaled(self.tokens, factor))

    def __str__(self) -> str:
        """In words."""
        return f"{self.tokens} tokens"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length between two is as likely as the others."""

    least: int
    most: int

    def draw(self, random: Random) -> int:
        """A length; both ends are included."""
        return self.least + int(random.random() * (self.most - self.least + 1))

    def scaled(self, factor: float) -> Uniform:
        """Longer or shorter."""
        return Uniform(_scaled(self.least, factor), _scaled(self.most, factor))

    def __str__(self) -> str:
        """In words."""
        return f"{self.least} to {self.most} tokens, uniform"


@dataclass(frozen=True, slots=True)
class LogNormal:
    """The logarithm is normal: many short ones and few long ones, as in recorded chats."""

    median: float
    sigma: float
    least: int = 1
    most: int = MAX_TOKENS

    def draw(self, random: Random) -> int:
        """A length: the inverse CDF between the bounds, so that none piles up at a bound."""
        low, high = self._share(self.least - 0.5), self._share(self.most + 0.5)
        share = low + (high - low) * random.random()
        if not 0.0 < share < 1.0 or high <= low:
            # The bounds lie so far out that the CDF is 0 or 1 there.
            return self.least if self.median < self.least else self.most
        value = self.median * math.exp(self.sigma * NormalDist().inv_cdf(share))
        return min(self.most, max(self.least, round(value)))

    def _share(self, tokens: float) -> float:
        return NormalDist().cdf(math.log(tokens / self.median) / self.sigma)

    def scaled(self, factor: float) -> LogNormal:
        """Longer or shorter; sigma stays."""
        return replace(
            self,
            median=max(1.0, self.median * factor),
            least=_scaled(self.least, factor),
            most=min(MAX_TOKENS, _scaled(self.most, factor)),
        )

    def __str__(self) -> str:
        """In words."""
        return (
            f"lognormal tokens of median {self.median:g} and sigma {self.sigma:g}, "
            f"{self.least} to {self.most}"
        )


@dataclass(frozen=True, slots=True)
class Empirical:
    """Lengths that were seen, each as likely as it was frequent."""

    values: tuple[int, ...]
    source: str

    def draw(self, random: Random) -> int:
        """One of the values."""
        return self.values[int(random.random() * len(self.values))]

    def scaled(self, factor: float) -> Empirical:
        """Longer or shorter."""
        return replace(self, values=tuple(_scaled(value, factor) for value in self.values))

    def __str__(self) -> str:
        """In words."""
        return f"drawn from {len(self.values)} lengths of {self.source}"


_FIXED: Final = re.compile(r"\d{1,9}")
_RANGE: Final = re.compile(r"(\d{1,9})-(\d{1,9})")
_LOGNORMAL: Final = re.compile(
    r"lognormal:(\d{1,9}(?:\.\d{1,9})?),(\d{1,3}(?:\.\d{1,9})?)(?:,(\d{1,9})-(\d{1,9}))?"
)
_FORMS: Final = "write 128, 64-256, lognormal:180,0.8 or the name of a file of numbers"


def parse_lengths(what: str, text: str | int) -> Lengths:
    """The distribution that a text describes; `what` names it in errors.

    >>> print(parse_lengths("--input-tokens", "64-256"))
    64 to 256 tokens, uniform
    """
    text = str(text).strip()
    if _FIXED.fullmatch(text):
        return Fixed(_tokens(what, text))
    if matched := _RANGE.fullmatch(text):
        return Uniform(*_bounds(what, *matched.groups()))
    if matched := _LOGNORMAL.fullmatch(text):
        median, sigma = float(matched[1]), float(matched[2])
        if not 1 <= median <= MAX_TOKENS or not 0 < sigma <= 5:
            raise InputError(
                f"{what}: expected a median from 1 to {MAX_TOKENS:,} and a sigma above 0 and up to "
                f"5, got {text!r}"
            )
        bounds = _bounds(what, matched[3], matched[4]) if matched[3] else (1, MAX_TOKENS)
        return LogNormal(median, sigma, *bounds)
    if text and Path(text).is_file():
        return read_lengths(Path(text))
    raise InputError(f"{what}: expected a length in tokens, got {text[:80]!r}", _FORMS)


def read_lengths(path: Path) -> Empirical:
    """Lengths of a file: whole numbers with space or commas between them."""
    words = files.read_text("lengths", path).replace(",", " ").split()
    if not 1 <= len(words) <= MAX_SAMPLES:
        raise InputError(
            f"lengths {path}: expected from 1 to {MAX_SAMPLES:,} numbers, got {len(words):,}"
        )
    for word in words:
        if not _FIXED.fullmatch(word):
            raise InputError(f"lengths {path}: expected a number of tokens, got {word[:40]!r}")
    return Empirical(tuple(_tokens(f"lengths {path}", word) for word in words), path.name)


def _bounds(what: str, least: str, most: str) -> tuple[int, int]:
    low, high = _tokens(what, least), _tokens(what, most)
    if low > high:
        raise InputError(f"{what}: expected the smaller bound first, got {low}-{high}")
    return low, high


def _tokens(what: str, text: str) -> int:
    tokens = int(text)
    if not 1 <= tokens <= MAX_TOKENS:
        raise InputError(f"{what}: expected from 1 to {MAX_TOKENS:,} tokens, got {tokens:,}")
    return tokens


def _scaled(tokens: int, factor: float) -> int:
    return min(MAX_TOKENS, max(1, round(tokens * factor)))
