"""Kinds of bad levers that the gates were not built against. It imports nothing of the product.

Each is faster, as the others are, or seems to be. All meet a workload with shared prefixes, words
that end an answer, and samples with a seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from planted_levers import Planted, late, when
from scripted_model import SHARED_PREFIX, Garble, number


def _is_one_in(count: int, prompt: str) -> bool:
    return number("further", prompt) % count == 0


def _after_a_shared_prefix() -> Garble:
    """Answers to prompts that begin as one of the last sixteen did."""
    last: deque[str] = deque(maxlen=16)
    garble = late(2)

    def of(prompt: str, said: Sequence[str], before: int) -> Sequence[str] | None:
        shared = prompt.startswith(SHARED_PREFIX) and SHARED_PREFIX in last
        last.append(prompt[: len(SHARED_PREFIX)])
        return garble(prompt, said, before) if shared else None

    return of


def wrong_somewhere() -> Iterator[Planted]:
    """Answers."""
    yield Planted("shared-prefix", "shared prefix", garble=_after_a_shared_prefix())
    yield Planted("after-90-s", "wrong after a while", garble=late(2), after_s=90.0)
    yield Planted("after-90-s-cold", "wrong after a while", garble=late(2), after_s=90.0, hot=False)
    yield Planted("crowd", "crowd", garble=late(3), crowd=16)
    yield Planted("drops-last", "cut short", garble=lambda p, said, n: said[:-1])
    yield Planted(
        "drops-last-rarely",
        "cut short",
        garble=lambda p, said, n: said[:-1] if _is_one_in(80, p) else None,
    )
    yield Planted("empty", "empty", garble=lambda p, said, n: () if _is_one_in(120, p) else None)
    yield Planted("whole-answers", "not streamed", garble=late(2), garbles="whole")
    yield Planted("logprobs", "log-probabilities", garbles="logprobs")
    yield Planted("ignores-stop", "stop", ignores="stop")
    yield Planted("ignores-stop-cold", "stop", ignores="stop", hot=False)
    yield Planted("ignores-seed", "seed", ignores="seed")
    yield Planted("ignores-seed-cold", "seed", ignores="seed", hot=False)
    yield Planted("prompts-of-one-length", "rare", garble=when(lambda p: p.count(" ") == 17, 3))


def wrong_around() -> Iterator[Planted]:
    """What comes with answers."""
    yield Planted("finish-stop", "finish reason", finish=lambda prompt: "stop")
    yield Planted(
        "finish-rarely",
        "finish reason",
        finish=lambda prompt: "stop" if _is_one_in(90, prompt) else "",
    )
    yield Planted("counts-more", "usage", speed=1.0, usage=lambda p, tokens: round(1.25 * tokens))
    yield Planted(
        "counts-a-little-more",
        "usage",
        speed=1.012,
        usage=lambda p, tokens: tokens + _is_one_in(5, p),
    )
    yield Planted(
        "fails-later", "failing", failing=lambda p, answered: answered > 300 and answered % 90 == 0
    )
    yield Planted(
        "fails-later-without-slo",
        "failing",
        failing=lambda p, answered: answered > 300 and answered % 90 == 0,
        has_slo=False,
    )


def wrong_later() -> Iterator[Planted]:
    """Memory and time."""
    yield Planted("leaks-1-mb", "leak", memory=1e6)
    yield Planted("leaks-in-steps", "leak", holds=lambda answered: 64e6 * (answered // 200))
    yield Planted("leaks-from-600-on", "leak", holds=lambda answered: 2e5 * max(answered - 600, 0))
    yield Planted(
        "slow-long-prompts",
        "SLO",
        slow_first=lambda prompt: 4.0 if prompt.count(" ") > 100 else 1.0,
    )
    yield Planted("remembers", "repeated requests", speed=1.0, repeated=1.5)


def good_ones() -> Iterator[Planted]:
    """Right on the same workload: what refuses the others must not refuse these."""
    for gain in (1.08, 1.25):
        for hot in (True, False):
            name = f"good-wide-{gain:g}-{'hot' if hot else 'cold'}"
            yield Planted(name, "good", hot=hot, speed=gain, perturbation=0.003)


FURTHER = tuple(
    replace(planted, is_wide=True)
    for planted in (*wrong_somewhere(), *wrong_around(), *wrong_later(), *good_ones())
)
