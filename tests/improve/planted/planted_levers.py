"""One hundred planted levers: 60 bad, 30 harmless, 10 good. It imports nothing of the product.

Every bad lever is faster, so that only what it breaks can refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scripted_model import WORDS, Garble, number, share

GAIN = 1.25


@dataclass(frozen=True)
class Planted:
    """A lever, and everything that it does."""

    name: str
    kind: str
    """What is wrong with it; harmless or good where nothing is."""
    correctness: str = "rounding"
    """What its author claims."""
    hot: bool = True
    speed: float = GAIN
    later: Callable[[int], float] = lambda answered: 1.0
    """Factor of the speed by answers since the change."""
    garble: Garble | None = None
    perturbation: float = 0.0
    """Of its logits, in nats."""
    slow_share: float = 0.0
    """Share of requests whose first token comes ten times later."""
    slow_token: float = 1.0
    """Factor of the time of each token that users wait for, throughput aside."""
    memory: float = 0.0
    """Bytes that each answer leaks."""
    fails: str = ""
    """At the change: crash, OOM, timeout, refused."""
    ends: int | None = None
    """Answers after which it crashes."""
    reports: str = "new"
    """What it says of its setting: new, old, stays (new for ever), or noise (now this, now that)."""
    tokens: float = 1.0
    """Share of the tokens that it really gives, while its usage says all."""
    usage: Callable[[str, int], int] = lambda prompt, tokens: tokens
    """Tokens that it says an answer has."""
    finish: Callable[[str], str] | None = None
    """Why it says that an answer ended, where that is not so."""
    failing: Callable[[str, int], bool] = lambda prompt, answered: False
    """Requests that it fails, by answers since the change."""
    holds: Callable[[int], float] | None = None
    """Bytes that it holds after so many answers, where that is not `memory` for each."""
    slow_first: Callable[[str], float] = lambda prompt: 1.0
    """Factor of the time to the first token."""
    ignores: str = ""
    """A field of requests that it ignores: stop or seed."""
    garbles: str = "streamed"
    """Which answers: streamed ones, or those of probes, or logprobs (of probes, their texts are right)."""
    after_s: float = 0.0
    """Seconds after the change from which on it garbles."""
    crowd: int = 0
    """Requests under way from which on it garbles."""
    repeated: float = 1.0
    """Factor of the speed for requests that were asked before."""
    is_wide: bool = False
    """Whether the workload has prefixes, stops and seeds, and 24 requests under way."""
    has_slo: bool = True

    @property
    def is_bad(self) -> bool:
        return self.kind not in ("harmless", "good")


def _words(prompt: str, said: Sequence[str], first: int = 0, last: int | None = None) -> list[str]:
    """The answer with other words from a token on."""
    last = len(said) if last is None else last
    return [
        WORDS[number("garbled", prompt, at) % len(WORDS)] if first <= at < last else token
        for at, token in enumerate(said)
    ]


def late(first: int) -> Garble:
    """Every token from one on."""
    return lambda prompt, said, before: _words(prompt, said, first)


def when(holds: Callable[[str], bool], first: int = 0, last: int | None = None) -> Garble:
    """Answers to some prompts."""
    return lambda prompt, said, before: _words(prompt, said, first, last) if holds(prompt) else None


def sometimes(rate: float, seed: int) -> Garble:
    """Any answer, by chance and not by its prompt."""
    return lambda prompt, said, before: (
        _words(prompt, said, 4) if share("chance", seed, before) < rate else None
    )


def rare(one_in: int, seed: int) -> Garble:
    """Some prompts, always the same."""
    return when(lambda prompt: number("rare", seed, prompt) % one_in == 0, 2)


def wrong_answers() -> Iterator[Planted]:
    """Faster, and wrong somewhere."""
    for first in (1, 12, 15):
        yield Planted(f"late-{first}", "late", garble=late(first))
    yield Planted("very-late", "late", garble=late(40), hot=False)
    for words in (60, 100, 150):
        yield Planted(
            f"long-{words}",
            "long prompts",
            garble=when(lambda prompt, words=words: prompt.count(" ") > words, 3),
        )
    for one_in, seed in ((200, 1), (200, 2), (150, 3), (100, 4), (50, 5)):
        yield Planted(f"rare-{one_in}-{seed}", "rare", garble=rare(one_in, seed), hot=seed % 2 == 0)
    for rate, seed in ((1 / 200, 1), (1 / 150, 2), (1 / 100, 3)):
        yield Planted(f"chance-{seed}", "rare", garble=sometimes(rate, seed))
    yield Planted("german", "one language", garble=when(lambda prompt: "deutsch" in prompt, 5))
    yield Planted(
        "chinese", "one language", garble=when(lambda prompt: "\u4e2d" in prompt), hot=False
    )
    yield Planted("adapter", "one adapter", garble=when(lambda prompt: "adapter-b" in prompt, 2))
    yield Planted(
        "adapter-rare",
        "one adapter",
        garble=when(lambda p: "adapter-b" in p and number("a", p) % 4 == 0, 2),
    )
    yield Planted("tool", "one tool call", garble=when(lambda prompt: "tool" in prompt, 6, 8))
    yield Planted(
        "tool-one-token", "one tool call", garble=when(lambda p: "tool" in p, 7, 8), hot=False
    )
    yield Planted(
        "cut-short",
        "cut short",
        garble=lambda p, said, n: said[: len(said) // 2] if number("cut", p) % 60 == 0 else None,
    )
    yield Planted(
        "another-answer",
        "answers mixed up",
        garble=lambda p, said, n: _words("x", said) if number("mix", p) % 90 == 0 else None,
    )
    yield Planted(
        "loops",
        "repeats itself",
        garble=lambda p, said, n: [*said[:12], *[said[11]] * (len(said) - 12)],
    )
    yield Planted(
        "after-900",
        "wrong after a while",
        garble=lambda p, said, n: _words(p, said, 3) if n > 900 else None,
    )
    yield Planted("claims-bitwise", "wrong class", "bitwise", garble=late(14))
    yield Planted("too-lossy", "wrong class", perturbation=1.5)


def slow_ones() -> Iterator[Planted]:
    """Faster on average or at first."""
    for number_, slow in enumerate((0.02, 0.03, 0.05, 0.1, 0.3)):
        yield Planted(f"tail-{number_}", "SLO", slow_share=slow, hot=number_ % 2 == 0)
    for number_, factor in enumerate((2.2, 3.0, 5.0)):
        yield Planted(f"token-{number_}", "SLO", slow_token=factor)
    for first, hot in ((60, True), (150, True), (300, False), (600, True)):
        yield Planted(
            f"later-{first}", "late slowdown", hot=hot, speed=1.2,
            later=lambda answered, first=first: 1.0 if answered < first else 0.75,
        )  # fmt: skip
    yield Planted(
        "tires", "late slowdown", speed=1.3, later=lambda answered: max(0.6, 1.0 - answered / 2000)
    )
    yield Planted(
        "clocks",
        "late slowdown",
        speed=1.15,
        later=lambda answered: 0.87 if answered > 400 else 1.0,
    )


def broken_ones() -> Iterator[Planted]:
    """Faster until they break, or until one asks what they are."""
    for size in (2e4, 1e5, 1e6):
        yield Planted(f"leak-{size:g}", "leak", memory=size)
    yield Planted("leak-restart", "leak", memory=2e5, hot=False)
    for failure in ("crash", "OOM", "timeout", "refused"):
        yield Planted(f"fails-{failure}", "crash", fails=failure, hot=False)
    for count in (40, 200, 700):
        yield Planted(f"ends-{count}", "crash", ends=count, hot=False)
    for says in ("old", "stays", "noise"):
        for hot in (True, False):
            yield Planted(f"says-{says}-{'hot' if hot else 'cold'}", "lies", reports=says, hot=hot)
    yield Planted("half-the-tokens", "lies", tokens=0.5)
    yield Planted("nine-tenths", "lies", tokens=0.9, hot=False)


def harmless_ones() -> Iterator[Planted]:
    """Nothing gained, nothing broken."""
    for place in range(30):
        yield Planted(
            f"harmless-{place:02d}",
            "harmless",
            "bitwise" if place % 3 == 0 else "rounding",
            hot=place % 2 == 0,
            speed=(1.0, 0.99, 0.97, 1.0, 1.002)[place % 5],
            perturbation=0.003 if place % 3 == 1 else 0.0,
        )


def good_ones() -> Iterator[Planted]:
    """Gains of 4 to 60 %, some with other rounding."""
    for place, gain in enumerate((1.04, 1.06, 1.08, 1.1, 1.12, 1.15, 1.2, 1.3, 1.4, 1.6)):
        yield Planted(
            f"good-{gain:g}",
            "good",
            "rounding" if place % 2 else "bitwise",
            hot=place % 3 != 0,
            speed=gain,
            perturbation=0.003 if place % 2 else 0.0,
        )


BAD = (*wrong_answers(), *slow_ones(), *broken_ones())
HARMLESS = tuple(harmless_ones())
GOOD = tuple(good_ones())
ALL = (*BAD, *HARMLESS, *GOOD)
