"""What a run says while it goes on."""

from __future__ import annotations

from typing import Protocol

from assay.intervals import Interval


class Progress(Protocol):
    """Told by the loop; the command line draws it."""

    def phase(self, title: str, seconds: float) -> None:
        """A phase begins; `seconds` is its share of the budget."""

    def say(self, text: str) -> None:
        """What is being done; the next one replaces it."""

    def result(self, text: str) -> None:
        """A result that stays on the screen: one line."""

    def note(self, text: str) -> None:
        """What the user must know beside results."""

    def best(self, ratio: Interval | None, time_left_s: float) -> None:
        """The best ratio to the start so far, and the seconds that are left."""


class Silent:
    """Says nothing."""

    def phase(self, title: str, seconds: float) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def result(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def best(self, ratio: Interval | None, time_left_s: float) -> None:
        """Nothing."""
