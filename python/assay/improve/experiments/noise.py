"""The noise floor: how much blocks of the same settings differ, before anything is changed (A/A)."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from assay.improve.engines.protocol import Engine
from assay.improve.experiments import schedule
from assay.improve.experiments.blocks import (
    BlockMeter,
    OnBlock,
    dropped_notes,
    requests_for,
    settle,
)
from assay.improve.experiments.confidence_sequence import INDEPENDENT, Design, half_width
from assay.improve.experiments.outputs.judging import LEAST_NEAR_TIE, MOST_NEAR_TIE, near_tie
from assay.improve.experiments.outputs.ledger import AnswerLedger, KnownAnswers
from assay.improve.experiments.outputs.own_gap import largest_own_gap
from assay.improve.experiments.pairs import log_ratio, looks_of, pairs_of
from assay.improve.experiments.result import Block, ExperimentResult, GateResult, Look, Verdict
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.settings_check import settings_gate
from assay.improve.experiments.verdict import decide
from assay.improve.experiments.work import WorkLedger
from assay.improve.levers.lever import Candidate
from assay.load.workloads.workload import Direction, Workload, is_greedy

LEAST_PAIRS: Final = 2
"""Pairs that are measured whatever the budget: without them nothing is known of the noise."""
WARMUP_SHARE: Final = 0.25
"""Share of the budget that the warm-up may take."""
POWER_Z: Final = 1.2816
"""Standard errors that a change is found beyond in 90 % of experiments."""
ENOUGH_PAIRS: Final = 6
"""Pairs from which on their spread is taken as known."""
FOLLOW_SHARE: Final = 0.2
"""Share of the budget, on top of it, that the engine is led along its own answers."""
ORDER_Z: Final = 3.0
"""Standard errors from which on the place within a pair has an effect."""


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """What A/A pairs say about the machine."""

    pairs: int
    block_requests: int
    block_s: float
    """How long a block took, on average."""
    pair_s: float
    """How long a pair took, changes of settings not included."""
    sd: float
    """Standard deviation of the log-ratio of a pair."""
    autocorrelation: float
    """Of a block's value with that of the block before."""
    order_effect: float
    """Mean log-ratio of the second block of a pair to the first."""
    batch: int
    """2 where the order effect asks for A B B A as one pair."""
    repeats: bool
    """Whether the same requests got the same outputs every time."""
    near_tie: float = LEAST_NEAR_TIE
    """Gap in nats up to which tokens are a near tie, from the engine along its own answers."""
    follows: bool = False
    """Whether the engine can be led along an answer: it gives log-probabilities."""
    sd_by_length: Mapping[int, float] = field(default_factory=dict)
    """Standard deviation by length of a block, in multiples of the measured length."""

    def pairs_needed(self, effect: float, alpha: float = 0.05, design: Design = INDEPENDENT) -> int:
        """Pairs that find a change of this share in 90 % of experiments."""
        wanted = math.log1p(effect)
        return next(
            (n for n in range(2, _MOST_PAIRS) if self._detected(n, alpha, design) <= wanted),
            _MOST_PAIRS,
        )

    def detectable(self, budget_s: float, switch_s: float = 0.0, alpha: float = 0.05) -> float:
        """The smallest change, as a share, that 90 % of experiments of this length find."""
        count = int(budget_s / (self.pair_s + switch_s)) if self.pair_s > 0.0 else 0
        return math.expm1(self._detected(count, alpha)) if count >= 2 else math.inf

    def settings(
        self, base: ExperimentSettings, effect: float = 0.03, switch_s: float = 0.0
    ) -> ExperimentSettings:
        """Settings of experiments on this machine, with the block length that finds `effect` first.

        Short blocks give more pairs, long ones pay for fewer changes of settings.
        """
        longer = min(
            self.sd_by_length or {1: self.sd},
            key=lambda times: self._seconds_needed(times, effect, switch_s),
        )
        return replace(
            base,
            block_requests=longer * self.block_requests,
            block_s=longer * self.block_s,
            noise_sd=self.sd_by_length.get(longer, self.sd),
            least_sd=self.least_sd(longer),
            batch=self.batch,
            baseline_repeats=self.repeats,
            near_tie=self.near_tie,
        )

    def least_sd(self, longer: int = 1) -> float:
        """The spread that two pairs cannot belie: half of it where few pairs tell it."""
        known = self.sd_by_length.get(longer, self.sd)
        return known if self.pairs >= ENOUGH_PAIRS else 0.5 * known

    def statement(self, budget_s: float, switch_s: float = 0.0) -> str:
        """The floor in words."""
        least = self.detectable(budget_s, switch_s)
        detects = (
            f"{budget_s:.0f} s find a change of {least:.1%} or more in nine of ten experiments"
            if least <= _MOST_DETECTABLE
            else f"{budget_s:.0f} s are too short to tell anything but a multiple"
        )
        return (
            f"A/A: pairs of {self.block_s:.2f} s blocks differ by {self.sd:.1%} "
            f"(standard deviation of {self.pairs} pairs, autocorrelation {self.autocorrelation:+.2f}); "
            f"{detects}"
        )

    def _seconds_needed(self, times: int, effect: float, switch_s: float) -> float:
        longer = replace(self, sd=self.sd_by_length.get(times, self.sd))
        return longer.pairs_needed(effect) * (times * self.pair_s + switch_s)

    def _detected(self, count: int, alpha: float, design: Design = INDEPENDENT) -> float:
        factor = design.variance_factor(count)
        half = half_width(count, factor * self.sd**2 * (count - 1), alpha)
        return half + POWER_Z * self.sd * math.sqrt(factor / count)


_MOST_PAIRS: Final = 100_000
_MOST_DETECTABLE: Final = 10.0
"""A smallest detectable change beyond this share is not worth printing."""


def measure_noise(
    engine: Engine,
    workload: Workload,
    settings: ExperimentSettings | None = None,
    *,
    name: str = "A/A",
    on_block: OnBlock | None = None,
    clock: Callable[[], float] = time.monotonic,
    known: KnownAnswers | None = None,
) -> tuple[ExperimentResult, NoiseFloor]:
    """Measure pairs of equal settings for `settings.budget_s`.

    `known` gets the answers of these settings. An A/A result is undecided where all is well. One that
    is beyond the practical threshold is invalid: no verdict of this machine can be trusted then.
    """
    settings = settings or ExperimentSettings()
    begun = clock()
    requests = settings.block_requests or requests_for(engine, workload, settings.block_s)
    meter = BlockMeter(engine, workload, name, requests, on_block)
    asked = dict(engine.settings())
    least = clock() + WARMUP_SHARE * (settings.budget_s - (clock() - begun))
    problem = settle(
        meter, "control", settings.noise_sd, settings.most_warmup_blocks, lambda: clock() < least
    )
    greedy = all(map(is_greedy, workload.requests))
    work = WorkLedger("rounding", greedy)
    answers = AnswerLedger(
        workload, "rounding", MOST_NEAR_TIE, known={} if known is None else known
    )
    longest = 0.0
    for pair, sides in enumerate(schedule.alternating(settings.seed)):
        started = clock()
        out_of_time = started - begun + longest > settings.budget_s
        if pair >= settings.most_pairs or (out_of_time and pair >= LEAST_PAIRS):
            break
        both = {arm: meter.measure(arm, pair, pair).measurement for arm in sides}
        work.add(both["control"], both["treatment"])
        answers.add(both["control"], both["treatment"])
        # Equal settings: how they differ from themselves is known from now on.
        answers.know(both["treatment"])
        longest = max(longest, clock() - started)
    gate = settings_gate(meter.blocks, {"control": asked, "treatment": asked})
    gates = (gate, work.gate())
    floor = floor_of(meter.blocks, requests, workload.objective.better, greedy and _equal(work))
    until = clock() + FOLLOW_SHARE * settings.budget_s
    own_gap = largest_own_gap(engine, answers, lambda: until - clock(), clock)
    floor = replace(floor, near_tie=near_tie(own_gap or 0.0), follows=own_gap is not None)
    looks = looks_of(meter.blocks, workload.objective.better, settings.alpha)
    verdict, reason = _verdict(looks, settings, gates)
    result = ExperimentResult(
        experiment=name,
        candidate=Candidate(name, (), {}, "bitwise", "safe", hot=True),
        verdict=verdict,
        ratio=looks[-1].ratio if looks else None,
        reason=reason or floor.statement(settings.budget_s),
        blocks=tuple(meter.blocks),
        looks=tuple(looks),
        gates=gates,
        seconds=clock() - begun,
        answers=answers.compared(),
        notes=(*([problem] if problem else []), *dropped_notes(meter.blocks)),
    )
    return result, floor


def floor_of(
    blocks: Sequence[Block], requests: int, better: Direction, repeats: bool
) -> NoiseFloor:
    """The floor of measured A/A blocks."""
    pairs = pairs_of(blocks)
    ratios = [log_ratio(pair, better) for pair in pairs]
    first = {block.pair: block.arm for block in reversed(blocks) if block.pair >= 0}
    later = [
        value if first[pair.pair] == "control" else -value
        for pair, value in zip(pairs, ratios, strict=True)
    ]
    counted = [block for block in blocks if not block.dropped]
    sd = _deviation(ratios)
    order = math.fsum(later) / len(later) if later else 0.0
    spread = _deviation(later)
    error = spread / math.sqrt(len(later)) if later else math.inf
    # Where all were disturbed, they took their time all the same.
    timed = counted or list(blocks)
    seconds = math.fsum(block.seconds for block in timed) / len(timed) if timed else 0.0
    matters = abs(order) > ORDER_Z * error and abs(order) > spread
    return NoiseFloor(
        pairs=len(pairs),
        block_requests=requests,
        block_s=seconds,
        pair_s=2.0 * seconds,
        sd=sd,
        autocorrelation=_autocorrelation([math.log(block.value) for block in counted]),
        order_effect=order,
        batch=2 if matters else 1,
        repeats=repeats,
        sd_by_length=_by_length(ratios),
    )


def _by_length(ratios: Sequence[float]) -> dict[int, float]:
    """Deviations of neighbors joined to longer pairs, while enough of them are left."""
    deviations = {1: _deviation(ratios)}
    for times in (2, 4):
        joined = [
            math.fsum(ratios[at : at + times]) / times
            for at in range(0, len(ratios) - times + 1, times)
        ]
        if len(joined) >= _LEAST_JOINED:
            deviations[times] = _deviation(joined)
    return deviations


_LEAST_JOINED: Final = 8


def _verdict(
    looks: Sequence[Look], settings: ExperimentSettings, gates: Sequence[GateResult]
) -> tuple[Verdict, str]:
    failed = next((gate for gate in gates if not gate.passed), None)
    if failed is not None:
        return "invalid", f"{failed.gate}: {failed.statement}"
    if not looks:
        return "invalid", "fewer than two pairs were undisturbed: the noise is unknown"
    decision = decide(looks[-1].ratio, settings.practical_threshold, 1.0 - settings.alpha)
    if decision.verdict == "undecided":
        return "undecided", ""
    return "invalid", f"equal settings differ: {decision.reason}"


def _equal(work: WorkLedger) -> bool:
    return not work.problem and work.digests_compared > 0 and work.digests_differ == 0


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _autocorrelation(values: Sequence[float]) -> float:
    if len(values) < 3:
        return 0.0
    mean = math.fsum(values) / len(values)
    centered = [value - mean for value in values]
    total = math.fsum(value * value for value in centered)
    shifted = math.fsum(a * b for a, b in itertools.pairwise(centered))
    return shifted / total if total > 0.0 else 0.0
