"""Figures of an accelerator by itself, and the words for them: what may be divided by what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Figure:
    """A figure of accelerators: the words for it, its variable, and the unit that it is written in."""

    words: re.Pattern[str]
    variable: str
    unit: str
    scale: float
    divisor: str = ""
    """The words for it behind "per", as an expression; nothing where nothing is asked by it."""
    times: float = 1.0
    """Units that a figure is written for: FLOP/s for 1,000 USD."""

    @property
    def divided(self) -> str:
        """How a figure by this one is written."""
        return f" per {self.unit}" if self.times == 1 else f" per {self.times:,.0f} {self.unit}"


_MEMORY: Final = r"(?:memory|vram|hbm)"

BANDWIDTH: Final = Figure(
    re.compile(rf"\b(?:{_MEMORY} )?bandwidth\b|\bfast(?:est)? memory\b|\b[gt]b/s(?: of (?:{_MEMORY} )?bandwidth)?\b"),
    "gpu.memory.bandwidth", "TB/s", 1e12, rf"[gt]b/s(?: of (?:{_MEMORY} )?bandwidth)?",
)  # fmt: skip
CACHE: Final = Figure(re.compile(r"\bl2(?: cache)?\b|\bcache\b"), "gpu.cache.capacity", "MB", 1e6)
MEMORY: Final = Figure(
    re.compile(rf"\b{_MEMORY}(?: capacity| size)?\b|\b(?:gi?bs?|gigabytes?)\b(?!/s)(?: of {_MEMORY}\b)?"),
    "gpu.memory.capacity", "GB", 1e9, rf"(?:gi?b|gigabyte)(?!/)s?(?: of {_MEMORY}| {_MEMORY})?",
)  # fmt: skip
COMPUTE: Final = Figure(
    re.compile(r"\b[tp]?flops?(?:/s)?\b|\b[tp]ops?\b|\bcompute\b|\bpeak\b"), "gpu.peak_flops", "TFLOP/s", 1e12,
    r"[tp]?flops?(?:/s)?|[tp]ops?",
)  # fmt: skip
POWER: Final = Figure(
    re.compile(r"\bpower\b|\btdp\b|\bwatts?\b"), "gpu.power.limit", "W", 1.0,
    r"(?:watt|w)(?: of (?:board )?power| of tdp)?",
)  # fmt: skip
MULTIPROCESSORS: Final = Figure(
    re.compile(r"\bsms\b|\bmultiprocessors\b"), "gpu.multiprocessors", "SM", 1.0,
    r"sm|multiprocessor",
)  # fmt: skip
PRICE: Final = Figure(
    re.compile(
        r"\bexpensive\b|\bcheap(?:er|est)?\b|\bpric(?:e|es|ier)\b|\bcosts?\b"
        r"|\bdollars?\b|\busd\b|\bbucks?\b|\$(?= ?(?:/|;|per\b))"
    ),
    "econ.gpu.price", "USD", 1.0, r"(?:us )?(?:dollar|usd|buck|\$)(?: spent| invested)?", 1000.0,
)  # fmt: skip
FIGURES: Final = (BANDWIDTH, CACHE, MEMORY, COMPUTE, POWER, MULTIPROCESSORS, PRICE)
"""Those of more words come first: the bandwidth of a memory is no memory."""
DIVISORS: Final = tuple(figure for figure in FIGURES if figure.divisor)
