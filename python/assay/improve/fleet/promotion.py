"""Staged promotion: a drawn group gets the change, a group of equal size is started anew without it.

Each round draws both groups anew from the whole fleet, starts them at the same time and compares them
against their own baselines. Stages grow from one replica to half of the fleet. What is proven goes to
all replicas; whatever else happens, every replica goes back to its start.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from assay.answers import Progress, silent
from assay.errors import AssayError
from assay.improve.fleet.answers import ComparedAnswers
from assay.improve.fleet.guards import OBJECTIVE, ODD_REPLICA, Comparison, levels_of
from assay.improve.fleet.protocol import Fleet, ReplicaRefusedError, Sample
from assay.improve.fleet.randomization import Evidence
from assay.improve.fleet.settings import PromotionSettings, stages
from assay.intervals import Interval

OnRound = Callable[[str, Mapping[str, Any]], object]
PromotionVerdict = Literal["promoted", "undecided", "regressed"]
MARGIN: Final = 1.5
"""Time that a round is given over what the last one took."""
LAST_ROUNDS: Final = 1
"""Rounds' time that going to all replicas takes; going back may be after the deadline."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a staged promotion came to; every replica has the change, or none."""

    verdict: PromotionVerdict
    reason: str
    ratio: Interval | None = None
    """Change over start, above 1 better; each bound is missed with a chance of alpha."""
    rounds: int = 0
    replicas: int = 0
    """The largest group that had the change while another had not."""
    problems: tuple[str, ...] = ()
    """What going back could not do."""


class _NotProvenError(Exception):
    """Ends a promotion that goes back."""

    def __init__(self, verdict: PromotionVerdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict, self.reason = verdict, reason


@dataclass(slots=True)
class StagedPromotion:
    """A promotion under way; `record` is told every round before anything follows from it."""

    fleet: Fleet
    settings: PromotionSettings
    left_s: Callable[[], float] = lambda: math.inf
    """Seconds until the deadline, after which nothing is promoted."""
    record: OnRound = lambda kind, data: None
    say: Progress = silent
    clock: Callable[[], float] = time.monotonic
    comparison: Comparison | None = None
    answers: ComparedAnswers = field(default_factory=ComparedAnswers)
    in_force: set[str] = field(default_factory=set)
    """Replicas that have the change, or may have it."""
    _rounds: int = 0
    _largest: int = 0
    _round_s: float = 0.0

    def baseline(self) -> None:
        """Measure all replicas as they are; one that fails already is refused by name."""
        rounds = []
        for number in range(self.settings.baseline_rounds):
            self.say(f"baseline {number + 1} of {self.settings.baseline_rounds}")
            samples = self.fleet.measure(self.fleet.names)
            self._write("baseline", dict.fromkeys(samples, False), samples)
            for name, sample in samples.items():
                _check_healthy(name, sample, self.settings)
            self.answers.add_baseline(samples)
            rounds.append(samples)
        levels, spreads = levels_of(rounds, self.settings)
        self.comparison = Comparison(self.settings, levels, spreads)

    def run(self) -> Promotion:
        """All stages after the baseline; raises what a replica failed with, after going back."""
        try:
            self._stages()
            self._to_all()
            self.record("kept", {"replicas": list(self.fleet.names)})
            self.fleet.keep("proven over the replicas of the fleet")
        except _NotProvenError as ended:
            return self._result(ended.verdict, ended.reason, self._revert(ended.reason))
        except KeyboardInterrupt:
            return self._result("undecided", "interrupted", self._revert("interrupted"))
        except AssayError as error:
            for problem in self._revert(error.message):
                error.add_note(problem)
            raise
        except BaseException as error:
            self._revert(f"{type(error).__name__}: {error}")
            raise
        proven = self.evidence
        reason = (
            f"{math.expm1(proven.estimate):+.1%} over {self._rounds} rounds of drawn replicas, "
            f"evidence {proven.for_better:,.0f} to 1 ({1 / self.settings.alpha:.0f} needed)"
        )
        return self._result("promoted", reason, [])

    @property
    def evidence(self) -> Evidence:
        """What the rounds say of the objective."""
        assert self.comparison is not None
        return self.comparison.evidence.get(OBJECTIVE, Evidence())

    def _stages(self) -> None:
        sizes = stages(len(self.fleet.names))
        chance = random.Random(f"fleet {self.settings.seed}")
        for size in sizes[:-1]:
            self._round(size, chance)
        for _ in range(self.settings.most_rounds):
            self._round(sizes[-1], chance)
            if self._is_proven():
                return
        raise _NotProvenError("undecided", f"not proven: {self._so_far()}")

    def _round(self, size: int, chance: random.Random) -> None:
        """Draw, start, measure, judge."""
        assert self.comparison is not None
        needed = MARGIN * self._round_s * (1 + LAST_ROUNDS)
        if self.left_s() <= needed:
            raise _NotProvenError("undecided", f"the deadline came before proof: {self._so_far()}")
        begun = self.clock()
        # Drawn from a fixed order, so that the seed alone says who.
        drawn = chance.sample(list(self.fleet.names), 2 * size)
        changed = {name: place < size for place, name in enumerate(drawn)}
        back = {name: False for name in self.fleet.names if name in self.in_force}
        self._start({**back, **changed})
        self.say(f"{size} of {len(self.fleet.names)} replicas with the change, {size} beside them")
        samples = self.fleet.measure(drawn)
        self._rounds += 1
        self._largest = max(self._largest, size)
        self._write(f"round {self._rounds}", changed, samples)
        self.comparison.add(samples, changed)
        self.answers.add(samples, changed)
        self._round_s = self.clock() - begun
        self.say(self._so_far())
        if reason := self.comparison.harm() or self.comparison.broken():
            raise _NotProvenError("regressed", reason)
        if self.settings.judges_answers and (reason := self.answers.changed()):
            raise _NotProvenError("regressed", reason)

    def _is_proven(self) -> bool:
        """Whether the evidence bears a promotion, and the gain is worth it."""
        enough = self.evidence.for_better >= 1.0 / self.settings.alpha
        return enough and self.evidence.estimate >= math.log1p(self.settings.threshold)

    def _to_all(self) -> None:
        """Give the change to the replicas without it, and look at the whole fleet once more."""
        assert self.comparison is not None
        if self.left_s() <= MARGIN * self._round_s * LAST_ROUNDS:
            raise _NotProvenError("undecided", f"no time was left to go on: {self._so_far()}")
        self.record("stage", {"stage": "all", "reason": self._so_far()})
        self.say("proven: the other replicas get the change")
        self._start({name: True for name in self.fleet.names if name not in self.in_force})
        worse = self._worse("all")
        if worse:
            # Once may be a neighbor of that replica; the same one twice is the change.
            again = self._worse("all again")
            for name in worse.keys() & again.keys():
                raise _NotProvenError("regressed", f"with the change on all: {again[name]}")

    def _worse(self, stage: str) -> dict[str, str]:
        """Replicas that fail, miss the SLO or fall far below their own start, and how."""
        assert self.comparison is not None
        samples = self.fleet.measure(self.fleet.names)
        self._write(stage, dict.fromkeys(samples, True), samples)
        worse = {}
        for name, sample in samples.items():
            ratio = self.against_baseline({name: sample})
            if ratio < -ODD_REPLICA * self.comparison.spreads[OBJECTIVE]:
                worse[name] = f"{name} is {-math.expm1(ratio):.1%} below its start"
            try:
                _check_healthy(name, sample, self.settings)
            except ReplicaRefusedError as error:
                worse[name] = error.message
        return worse

    def against_baseline(self, samples: Mapping[str, Sample]) -> float:
        """Mean log-ratio of replicas to their own baselines, above 0 better."""
        assert self.comparison is not None
        levels = self.comparison.baseline[OBJECTIVE]
        sign = 1.0 if self.settings.better == "higher" else -1.0
        ratios = [
            sign * math.log(sample.value) - levels[name]
            for name, sample in samples.items()
            if sample.value > 0.0
        ]
        return math.fsum(ratios) / len(ratios) if ratios else -math.inf

    def _start(self, changed: Mapping[str, bool]) -> None:
        # A replica that is asked to change may have changed, however far the start came.
        self.in_force |= {name for name, is_on in changed.items() if is_on}
        self.fleet.start(changed)
        self.in_force -= {name for name, is_on in changed.items() if not is_on}

    def _revert(self, why: str) -> list[str]:
        self.say(f"going back: {why}")
        problems = self.fleet.revert(why)
        self.in_force.clear()
        return problems

    def _so_far(self) -> str:
        evidence = self.evidence
        if not evidence.rounds:
            return "no round was measured"
        return (
            f"{math.expm1(evidence.estimate):+.1%} after {self._rounds} rounds, evidence "
            f"{evidence.for_better:,.2g} to 1 ({1 / self.settings.alpha:.0f} needed)"
        )

    def _write(
        self, stage: str, changed: Mapping[str, bool], samples: Mapping[str, Sample]
    ) -> None:
        # Answers are compared at once; their hashes would fill the journal.
        bare = {name: replace(sample, answers={}) for name, sample in samples.items()}
        self.record("stage", {"stage": stage, "changed": dict(changed), "samples": bare})

    def _result(self, verdict: PromotionVerdict, reason: str, problems: list[str]) -> Promotion:
        evidence, ratio = self.evidence, None
        if evidence.rounds:
            low, high = evidence.bounds(self.settings.alpha)
            ratio = Interval(math.exp(evidence.estimate), math.exp(low), math.exp(high))
        return Promotion(verdict, reason, ratio, self._rounds, self._largest, tuple(problems))


def _check_healthy(name: str, sample: Sample, settings: PromotionSettings) -> None:
    if sample.errors:
        raise ReplicaRefusedError(
            f"{name}: expected every request to succeed, got {sample.errors} of {sample.requests} "
            "that failed",
            "its log says why; nothing is promoted over a replica that fails",
        )
    if sample.value <= 0.0:
        raise ReplicaRefusedError(
            f"{name}: expected a figure of the objective, got none from {sample.requests} requests",
            "a longer --budget gives longer windows",
        )
    share = sample.held / sample.requests
    if settings.has_slo and share < settings.slo_share:
        raise ReplicaRefusedError(
            f"{name}: expected {settings.slo_share:.1%} of requests within the SLO, got {share:.1%}",
            "nothing is promoted over a replica that misses its SLO already",
        )
