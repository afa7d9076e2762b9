"""Entries of the catalog in turn, so that every one is drawn as often as any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from assay.catalog import accelerators, models

ANSWERED_ROUNDS = 3
"""How often an accelerator with kernel constants comes, for once of one that has no answers."""


@dataclass(frozen=True)
class Chance:
    """The chance of one draw, by the seed and its number among draws of its kind only."""

    seed: str
    turn: int
    random: Random

    def entry(self, group: str, names: Sequence[str]) -> str:
        """The entry whose turn it is; each round has all of them, in an order of its own."""
        round_number, place = divmod(self.turn, len(names))
        return _shuffled(f"{self.seed} {group} {round_number}", tuple(names))[place]

    def accelerator(self) -> str:
        """Any accelerator of the catalog; those without kernel constants more rarely."""
        known = accelerators_with_kernels()
        others = tuple(name for name in accelerators.names() if name not in known)
        return self.entry("accelerators", known * ANSWERED_ROUNDS + others)

    def model(self) -> str:
        """Any model of the catalog."""
        return self.entry("models", tuple(models.names()))


def chance(kind: str, seed: str, turn: int) -> Chance:
    """The chance of the draw of this number among draws of a kind."""
    return Chance(f"{seed} {kind}", turn, Random(f"{seed} {kind} {turn}"))


@cache
def _shuffled(seed: str, names: tuple[str, ...]) -> tuple[str, ...]:
    order = list(names)
    Random(seed).shuffle(order)
    return tuple(order)


@cache
def accelerators_with_kernels() -> tuple[str, ...]:
    """GPUs whose kernels have constants, their own or those of another."""
    names = accelerators.names()
    return tuple(
        name
        for name in names
        if accelerators.find(name).facts.get("calibration") and not name.startswith("cpu")
    )
