"""The search over commits: which one is named, how often it is wrong, and what is skipped."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from assay.gating.bisection import (
    Bisection,
    bisect,
    ends_are_enough,
    shared_out,
    tests_of as comparisons_of,
)
from assay.gating.commits import BuildError
from assay.gating.judging import judge
from assay.gating.settings import GateSettings
from assay.gating.sides import Side
from assay.improve.experiments.confidence_sequence import ConfidenceSequence, Design
from assay.improve.experiments.pairs import as_ratios
from assay.improve.experiments.result import ExperimentResult, GateResult
from assay.improve.levers.lever import Candidate
from assay.improve.loop.progress import Silent
from assay.intervals import Interval

BASE = Side("base", "v0", "commit", "serve {port}", "0" * 40)


@dataclass
class Session:
    """Compares numbers in the place of servers."""

    levels: dict[str, float]
    sd: float
    drawn: random.Random
    most_pairs: int = 400
    progress: Any = field(default_factory=Silent)
    names: list[str] = field(default_factory=list)

    def servers(self, control: Side, treatment: Side) -> tuple[Side, Side]:
        return control, treatment

    def left_s(self) -> float:
        return 1000.0

    def compare(
        self, name: str, servers: tuple[Side, Side], settings: GateSettings, *,
        until: float | None = None, is_enough: Callable[[Interval], bool] | None = None,
    ) -> ExperimentResult:  # fmt: skip
        self.names.append(name)
        control, treatment = (self.levels[side.commit] for side in servers)
        sequence = ConfidenceSequence(settings.alpha, Design(clips=False))
        for pairs in itertools.count(1):
            noise = self.drawn.gauss(0.0, math.sqrt(2.0) * self.sd)
            ratio = as_ratios(sequence.add(math.log(treatment / control) + noise))
            judged = judge(ratio, pairs, settings)
            is_over = judged.final if is_enough is None else is_enough(ratio)
            if pairs >= self.most_pairs or (pairs >= settings.least_pairs and is_over):
                break
        few = GateResult("pairs", pairs >= settings.least_pairs, f"{pairs} pairs")
        return ExperimentResult(
            name, Candidate(name, (), {}, "rounding", "may fail", hot=False), judged.verdict, ratio,
            judged.reason, gates=(few,),
        )  # fmt: skip


def search(
    speeds: Sequence[float], sd: float, seed: int = 0, broken: Sequence[int] = (), *,
    noise_of_steps: float | None = None, pairs_of_steps: int = 400,
) -> tuple[Bisection | None, Session]:  # fmt: skip
    """Bisect commits of these speeds after a base of 1; None where the ends do not differ."""
    commits = [f"{number + 1:040d}" for number in range(len(speeds))]
    levels = dict(zip((BASE.commit, *commits), (1.0, *speeds), strict=True))
    session = Session(levels, sd, random.Random(seed))
    settings = shared_out(GateSettings(), len(commits))

    @contextmanager
    def checked_out(commit: str) -> Iterator[Side]:
        if commits.index(commit) in broken:
            raise BuildError("--build: exited with 2")
        yield Side(commit[:12], commit, "commit", "serve {port}", commit, subject=f"at {commit}")

    with checked_out(commits[-1]) as head:
        ends = session.compare(
            "head over base", (BASE, head), settings,
            is_enough=lambda ratio: ends_are_enough(ratio, settings.least_pairs, settings),
        )  # fmt: skip
    if ends.verdict == "undecided":
        return None, session
    session.sd, session.most_pairs = noise_of_steps or sd, pairs_of_steps
    done = bisect(session, BASE, commits, ends, settings, checked_out)  # type: ignore[arg-type]
    return done, session


@pytest.mark.parametrize("commits", [1, 2, 3, 8, 13])
def test_every_place_is_told(commits: int) -> None:
    for place in range(commits):
        done, session = search([1.0] * place + [0.9] * (commits - place), 0.005)
        assert done is not None
        assert done.culprit == f"{place + 1:040d}"
        assert done.confirmed is True
        assert len(session.names) <= comparisons_of(commits)
        assert done.alpha == pytest.approx(0.05 / comparisons_of(commits))


def test_a_gain_is_told_as_well() -> None:
    done, _ = search([1.0, 1.0, 1.2, 1.2, 1.2], 0.01)
    assert done is not None
    assert (done.culprit, done.confirmed) == (f"{3:040d}", True)


def test_the_wrong_commit_is_named_in_one_of_twenty_at_most() -> None:
    wrong = 0
    for seed in range(200):
        place = seed % 8
        done, _ = search([1.0] * place + [0.95] * (8 - place), 0.02, seed)
        wrong += done is not None and done.culprit not in (None, f"{place + 1:040d}")
    assert wrong <= 10


def test_commits_that_do_not_build_are_skipped() -> None:
    done, _ = search([1.0, 1.0, 1.0, 0.8, 0.8, 0.8], 0.005, broken=(2,))
    assert done is not None
    assert [step.half for step in done.steps].count("skipped") == 1
    # The slowdown came with the third or the fourth: the third could not be asked.
    assert done.suspects == (f"{3:040d}", f"{4:040d}")
    assert (done.culprit, done.confirmed) == (None, None)


def test_two_slowdowns_end_at_one_that_differs_from_its_parent() -> None:
    """Not one change but two: what is named is confirmed by itself, whichever it is."""
    done, _ = search([1.0, 0.92, 0.92, 0.92, 0.84, 0.84], 0.004)
    assert done is not None
    assert (done.culprit in (f"{2:040d}", f"{5:040d}"), done.confirmed) == (True, True)


def test_noise_that_hides_a_step_leaves_a_range() -> None:
    """The ends differ by half; a commit in between is asked for with noise that nothing shows in."""
    done, _ = search([1.0] * 4 + [0.5] * 4, 0.01, noise_of_steps=0.5, pairs_of_steps=5)
    assert done is not None
    assert [step.half for step in done.steps] == ["undecided"]
    assert (len(done.suspects), done.culprit) == (8, None)
