"""What a question was answered with: a figure, a verdict or a choice, and the commands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from assay.asking.amounts import interval
from assay.asking.case import Case
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
    scales: bool = False
    """Whether `value` is the result's by a number, so that the interval is, too."""
    written: tuple[float, str] | None = None
    """What the text has the result by, and in which unit, where that is not the result's own."""
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
    def broken(self) -> list[str]:
        """Constraints of the figure that do not hold, each with its value, its limit and whose it is."""
        result = self.result
        return [result.broken.get(name, meaning) for name, meaning in result.violated]

    @property
    def number(self) -> tuple[float | None, str]:
        """The number of the answer with its unit."""
        if self.value is not None:
            return self.value, self.unit
        return self.result.value, self.result.unit

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Both ends of the interval of the number, in its unit; None where there is none."""
        lo, hi, own = self.result.lo, self.result.hi, self.result.value
        if self.value is None:
            return lo, hi
        if not self.scales or not own or lo is None or hi is None:
            return None, None
        return self.value / own * lo, self.value / own * hi

    @property
    def interval(self) -> str:
        """The 90 % interval of the number in the unit that it is written in."""
        value, unit = self.number
        if value is None or self.verdict:
            return ""
        lo, hi = self.ends
        if self.written is not None and lo is not None and hi is not None:
            times, unit = self.written
            return interval(times * value, unit, times * lo, times * hi)
        return interval(value, unit, lo, hi)


def of_case(case: Case, target: str) -> Outcome:
    """The answer that is a variable of a case, without an interval."""
    result = case.known(target)
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=case.assumed)


def of_entry(case: Case, target: str) -> Outcome:
    """The answer that is a variable of a catalog entry, whatever load the scenario around it serves."""
    outcome = of_case(case, target)
    return replace(outcome, result=replace(outcome.result, violated=()))
