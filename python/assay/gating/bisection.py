"""Which commit changed the figure: a binary search whose every step is a comparison with the base."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from assay.answers import data_of
from assay.errors import AssayError, InputError
from assay.gating.commits import BuildError
from assay.gating.judging import cut_of, half_of, is_bounded, judge
from assay.gating.session import GateSession
from assay.gating.settings import GateSettings
from assay.gating.sides import Side
from assay.improve.engines.protocol import EngineLostError
from assay.improve.experiments.result import ExperimentResult
from assay.intervals import Interval

BESIDE_THE_SEARCH: Final = 2
"""Tests besides those of the search: the ends, and the culprit against its parent."""
LEAST_S: Final = 1.0

Half = Literal["like the base", "like the head", "undecided", "skipped"]
CheckedOut = Callable[[str], AbstractContextManager[Side]]
"""A commit as a side, checked out and built while the block lasts."""


@dataclass(frozen=True, slots=True)
class Step:
    """A commit of the range, compared with the base."""

    commit: str
    subject: str
    half: Half
    ratio: Interval | None
    reason: str
    experiment: str = ""


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection came to."""

    commits: int
    """Of the range, the base not among them."""
    tests: int
    """Most comparisons, which the error is shared out over."""
    alpha: float
    """Of each."""
    cut: float
    """The ratio that tells commits like the base from those like the head."""
    steps: tuple[Step, ...]
    suspects: tuple[str, ...]
    """Commits that may have brought the change, the oldest first; one where it was found."""
    culprit: str | None
    subject: str = ""
    confirmed: bool | None = None
    """Whether the culprit was shown to differ from its parent; None where that was not compared."""
    experiment: str = ""
    """The comparison with its parent."""

    def to_data(self) -> dict[str, Any]:
        """As JSON data."""
        return data_of(
            self, "commits tests alpha cut steps suspects culprit subject confirmed experiment"
        )


def tests_of(commits: int) -> int:
    """Comparisons of a bisection at most, the ends and the last one among them.

    >>> [tests_of(commits) for commits in (1, 2, 8, 9)]
    [1, 3, 5, 6]
    """
    return 1 if commits <= 1 else math.ceil(math.log2(commits)) + BESIDE_THE_SEARCH


def shared_out(settings: GateSettings, commits: int) -> GateSettings:
    """The settings of each comparison, with its share of the error."""
    return replace(settings, alpha=settings.alpha / tests_of(commits))


def ends_are_enough(ratio: Interval, pairs: int, settings: GateSettings) -> bool:
    """Whether the ends are compared well enough to search between them.

    A first verdict leaves the near end of its interval close to 1, and a cut there costs every step
    more pairs than the ends save.
    """
    judgment = judge(ratio, pairs, settings)
    return judgment.final and (judgment.verdict == "undecided" or is_bounded(ratio))


def bisect(
    session: GateSession,
    base: Side,
    commits: Sequence[str],
    ends: ExperimentResult,
    settings: GateSettings,
    checked_out: CheckedOut,
) -> Bisection:
    """Search the commits after the base up to the head for the one that brought the change.

    `ends` is the comparison of the ends, whose verdict is improved or regressed. Commits that do not
    build or start are skipped.
    """
    assert ends.ratio is not None
    return _Search(session, base, commits, ends, settings, checked_out).run()


class _Search:
    def __init__(
        self,
        session: GateSession,
        base: Side,
        commits: Sequence[str],
        ends: ExperimentResult,
        settings: GateSettings,
        checked_out: CheckedOut,
    ) -> None:
        assert ends.ratio is not None
        self.session, self.base, self.commits, self.ends = session, base, commits, ends
        # Answers may change on the way; here the question is where the figure does.
        self.settings = replace(settings, same_answers=False)
        self.checked_out = checked_out
        self.cut = cut_of(ends.ratio)
        self.steps: list[Step] = []
        self.compared: dict[str, ExperimentResult] = {commits[-1]: ends}
        self.tests_left = tests_of(len(commits)) - 1

    def run(self) -> Bisection:
        like_base, like_head = -1, len(self.commits) - 1
        skipped: set[int] = set()
        while like_head - like_base > 1:
            middle = next(_from_the_middle(like_base, like_head, skipped), None)
            if middle is None:
                break
            half = self._step(middle)
            if half == "skipped":
                skipped.add(middle)
            elif half == "like the base":
                like_base = middle
            elif half == "like the head":
                like_head = middle
            else:
                break
        suspects = tuple(self.commits[like_base + 1 : like_head + 1])
        if len(suspects) > 1:
            return self._result(suspects, None, "")
        confirmed, experiment = self._confirm(like_base, like_head)
        return self._result(suspects, confirmed, experiment)

    def _step(self, place: int) -> Half:
        """Compare a commit with the base."""
        commit = self.commits[place]
        name = f"{commit[:12]} over base"
        try:
            with self.checked_out(commit) as side:
                servers = self.session.servers(self.base, side)
                result = self.session.compare(
                    name,
                    servers,
                    self.settings,
                    until=self._until(),
                    is_enough=lambda ratio: half_of(ratio, self.cut) is not None,
                )
        except (BuildError, EngineLostError) as error:
            return self._skip(commit, error)
        self.tests_left -= 1
        self.compared[commit] = result
        half = None if result.ratio is None else half_of(result.ratio, self.cut)
        # Whatever the interval says: one gate that failed, or too few pairs, decide nothing.
        if half is None or not all(gate.passed for gate in result.gates):
            half = None
        self.steps.append(
            Step(commit, side.subject, half or "undecided", result.ratio, result.reason, name)
        )
        return half or "undecided"

    def _skip(self, commit: str, error: AssayError) -> Half:
        if isinstance(error, EngineLostError) and self.base.shown in error.message:
            raise error
        self.session.progress.note(f"{commit[:12]} is skipped: {error.message}")
        self.steps.append(Step(commit, "", "skipped", None, error.message))
        return "skipped"

    def _confirm(self, parent: int, culprit: int) -> tuple[bool | None, str]:
        """Whether the culprit differs from its parent the way that the ends differ."""
        commit = self.commits[culprit]
        if parent < 0:
            # Its parent is the base, with which it was compared.
            result = self.compared[commit]
        else:
            name = f"{commit[:12]} over {self.commits[parent][:12]}"
            with (
                self.checked_out(self.commits[parent]) as before,
                self.checked_out(commit) as after,
            ):
                servers = self.session.servers(before, after)
                result = self.session.compare(name, servers, self.settings, until=self._until())
        if result.verdict not in ("improved", "regressed"):
            return None, result.experiment
        return result.verdict == self.ends.verdict, result.experiment

    def _until(self) -> float:
        """An equal share of the time that is left for each test that is left."""
        share = self.session.left_s() / max(self.tests_left, 1)
        return time.monotonic() + max(share, LEAST_S)

    def _result(
        self, suspects: tuple[str, ...], confirmed: bool | None, experiment: str
    ) -> Bisection:
        culprit = suspects[0] if len(suspects) == 1 else None
        subjects = {step.commit: step.subject for step in self.steps}
        return Bisection(
            len(self.commits),
            tests_of(len(self.commits)),
            self.settings.alpha,
            self.cut,
            tuple(self.steps),
            suspects,
            culprit,
            subjects.get(culprit or "", ""),
            confirmed,
            experiment,
        )


def _from_the_middle(low: int, high: int, skipped: set[int]) -> Iterator[int]:
    """Places between two, those nearest to the middle first, without the skipped ones."""
    middle = (low + high) // 2
    places = sorted(range(low + 1, high), key=lambda place: abs(place - middle))
    return (place for place in places if place not in skipped)


def require_range(commits: Sequence[str]) -> None:
    """Refuse an empty range."""
    if not commits:
        raise InputError("--bisect: expected commits after BASE up to HEAD, got none")
