"""What a question was answered with: a figure, a verdict or a choice, and the commands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.asking.commands import Command, Result


@dataclass(frozen=True)
class Outcome:
    """An answer in words, the result that it rests on, and what was assumed.

    `value` and `unit` are the number of the answer where it is not the result's own, such as a count of
    replicas; `choice` is the best alternative, `ratio` of a change or of the second best to the best.
    """

    text: str
    result: Result
    commands: tuple[Command, ...] = ()
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    value: float | None = None
    unit: str = ""
    verdict: str = ""
    choice: str = ""
    ratio: float | None = None
    rows: Sequence[tuple[str, str]] = field(default=())
    """Alternatives with their figures."""

    @property
    def lines(self) -> list[str]:
        """The command lines that were run, each once."""
        return list(
            dict.fromkeys(command.line for command in self.commands or (self.result.command,))
        )

    @property
    def number(self) -> tuple[float | None, str]:
        """The number of the answer with its unit."""
        if self.value is not None:
            return self.value, self.unit
        return self.result.value, self.result.unit
