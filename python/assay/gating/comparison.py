"""One comparison: visits in pairs, each a new start, until the pairs are enough or the time is over."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Protocol

from assay.errors import NoDataError
from assay.gating.judging import Judgment, judge
from assay.gating.settings import GateSettings
from assay.improve.engines.protocol import Engine
from assay.improve.experiments import schedule
from assay.improve.experiments.blocks import (
    BlockMeter,
    OnBlock,
    dropped_notes,
    dropping_gate,
    requests_for,
    settle,
)
from assay.improve.experiments.confidence_sequence import ConfidenceSequence, Design
from assay.improve.experiments.outputs.ledger import (
    GATE as ANSWERS_GATE,
    AnswerLedger,
    KnownAnswers,
)
from assay.improve.experiments.outputs.own_gap import largest_own_gap
from assay.improve.experiments.pairs import as_ratios, log_ratio, pairs_of
from assay.improve.experiments.result import Arm, Block, ExperimentResult, GateResult, Look, Verdict
from assay.improve.experiments.slo import GATE as SLO_GATE, SloLedger
from assay.improve.experiments.work import WorkLedger
from assay.improve.levers.lever import Candidate
from assay.intervals import Interval
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.workload import Workload, is_greedy

Clock = Callable[[], float]

FOLLOW_SHARE: Final = 0.1
"""Share of the time left that the base is led along answers in one visit."""
PAIRS_GATE: Final = "pairs"
MOST_UNPROVEN: Final = 0.25
"""Rate of wrongly changed answers that an improvement must exclude; answers that differ and that no
log-probability tells of count as wrong."""


class Visits(Protocol):
    """Both sides, each visit to one of them a new start."""

    def open(self, arm: Arm) -> AbstractContextManager[Engine]:
        """A server of a side that has just started; it is stopped at the end of the block."""


class Ended(Exception):
    """A gate failed: more pairs cannot change that."""

    def __init__(self, gate: GateResult) -> None:
        super().__init__(gate.statement)
        self.gate = gate


class Comparison:
    """The state of one comparison of two sides; the base is the control."""

    def __init__(
        self,
        visits: Visits,
        workload: Workload,
        candidate: Candidate,
        settings: GateSettings,
        *,
        name: str,
        until: float,
        requests: int | None = None,
        least_sd: float = 0.0,
        block_sd: float | None = None,
        near_tie: float,
        known: KnownAnswers | None = None,
        is_enough: Callable[[Interval], bool] | None = None,
        on_block: OnBlock | None = None,
        on_look: Callable[[Look], None] = lambda look: None,
        clock: Clock = time.monotonic,
    ) -> None:
        """A comparison that ends at `until` of the clock.

        `requests` are those of a block, where they are known; `least_sd` and `block_sd` what A/A says
        of pairs and of blocks; `is_enough` ends it where its verdict is not what is asked for.
        """
        self.requests = requests
        self.blocks: list[Block] = []
        self.looks: list[Look] = []
        self.pair_s = 0.0
        """Seconds of the longest pair."""
        self.own_gap: float | None = None
        """What the base differs from itself, in nats; None where that is not asked or not told."""
        self._visits, self._workload, self._candidate = visits, workload, candidate
        self._settings, self._name, self._until = settings, name, until
        self._block_sd, self._is_enough = block_sd, is_enough
        self._on_block, self._on_look, self._clock = on_block, on_look, clock
        self._sequence = ConfidenceSequence(settings.alpha, Design(least_sd=least_sd, clips=False))
        self._judgment: Judgment | None = None
        self._work = WorkLedger("rounding", all(map(is_greedy, workload.requests)))
        self._answers = AnswerLedger(
            workload, "rounding", near_tie, known={} if known is None else known
        )
        self._slo = SloLedger(workload.slo, settings.slo_share)
        self._notes: list[str] = []
        self._begun = clock()

    def run(self, *, asks_own_gap: bool = False) -> ExperimentResult:
        """Measure pairs until they are enough; `asks_own_gap` leads the base along its own answers."""
        try:
            self._measure(asks_own_gap)
            self._judge_answers()
        except Ended as ended:
            return self._result(ended.gate)
        gates = [self._work.gate(), self._slo.gate()]
        if self._settings.same_answers:
            is_improved = self._judgment is not None and self._judgment.verdict == "improved"
            most = MOST_UNPROVEN if is_improved else None
            gates.append(self._answers.gate(1.0 - self._settings.alpha, most))
        failed = next((gate for gate in gates if gate is not None and not gate.passed), None)
        passed = [gate for gate in gates if gate is not None and gate is not failed]
        return self._result(failed, passed)

    def _measure(self, asks_own_gap: bool) -> None:
        orders = itertools.islice(
            schedule.alternating(self._settings.seed), self._settings.most_pairs
        )
        for pair, sides in enumerate(orders):
            started = self._clock()
            if started + self.pair_s > self._until:
                return
            self._pair(pair, sides, asks_own_gap)
            self.pair_s = max(self.pair_s, self._clock() - started)
            if self._judgment is None or self._sequence.count < self._settings.least_pairs:
                continue
            ratio = self.looks[-1].ratio
            if self._is_enough(ratio) if self._is_enough else self._judgment.final:
                return

    def _judge_answers(self) -> None:
        """Start the base once more where a gain rests on answers that are not judged yet."""
        is_improved = self._judgment is not None and self._judgment.verdict == "improved"
        if is_improved and self._settings.same_answers and self._answers.pending:
            with self._visits.open("control") as engine:
                self._follow(engine)

    def _pair(self, pair: int, sides: tuple[Arm, ...], asks_own_gap: bool) -> None:
        seen: dict[Arm, list[Measurement]] = {}
        for arm in sides:
            with self._visits.open(arm) as engine:
                seen[arm] = self._visit(engine, arm, pair)
                if arm == "control":
                    self._follow(engine)
                if asks_own_gap and len(seen) == 2 and self._answers.known:
                    gap = largest_own_gap(
                        engine, self._answers, self._time_for_answers(), self._clock
                    )
                    self.own_gap = max(filter(None, (gap, self.own_gap)), default=gap)
        for control, treatment in zip(seen["control"], seen["treatment"], strict=True):
            self._work.add(control, treatment)
            self._answers.add(control, treatment)
        if self._work.problem:
            raise Ended(self._work.gate())
        self._look(pair)

    def _visit(self, engine: Engine, arm: Arm, pair: int) -> list[Measurement]:
        """Warm a new start up, and measure its blocks."""
        settings = self._settings
        if self.requests is None:
            # A cold server would make the blocks too short: the first window only warms it up.
            requests_for(engine, self._workload, settings.block_s)
            self.requests = requests_for(engine, self._workload, settings.block_s)
        meter = BlockMeter(
            engine, self._workload, self._name, self.requests, self._on_block, 0, self.blocks
        )
        problem = settle(meter, arm, self._block_sd, settings.most_warmup_blocks)
        if problem and problem not in self._notes:
            self._notes.append(problem)
        # Behind the requests of the warm-up, which a prefix cache may still hold.
        first = 1 + pair * settings.visit_blocks
        seen = []
        for place in range(first, first + settings.visit_blocks):
            block, measurement = meter.measure(arm, pair, place)
            seen.append(measurement)
            if not block.dropped:
                self._slo.add(arm, measurement)
        self.blocks = meter.blocks
        if arm == "control" and all(
            measurement.errors == len(measurement.records) for measurement in seen
        ):
            error = next((record.error for record in seen[-1].records if record.error), "")
            raise NoDataError(f"expected answers, got none: {error or 'nothing was sent'}")
        return seen

    def _follow(self, engine: Engine) -> None:
        """Lead the base along answers of the head that differ; a wrong one ends the comparison."""
        if not self._settings.same_answers:
            return
        self._answers.follow(engine, self._time_for_answers(), self._clock)
        if self._answers.are_refused:
            gate = self._answers.gate(1.0 - self._settings.alpha)
            assert gate is not None
            raise Ended(gate)

    def _time_for_answers(self) -> Callable[[], float]:
        until = self._clock() + FOLLOW_SHARE * (self._until - self._clock())
        return lambda: until - self._clock()

    def _look(self, pair: int) -> None:
        done = [measured for measured in pairs_of(self.blocks) if measured.pair == pair]
        if done:
            interval = self._sequence.add(log_ratio(done[0], self._workload.objective.better))
            if math.isfinite(interval.hi):
                look = Look(pair, as_ratios(interval))
                self.looks.append(look)
                self._judgment = judge(look.ratio, self._sequence.count, self._settings)
                self._on_look(look)
        gate = dropping_gate(self.blocks, pair + 1, self._sequence.count)
        if gate is not None:
            raise Ended(gate)

    def _result(
        self, failed: GateResult | None, passed: list[GateResult] | None = None
    ) -> ExperimentResult:
        judgment, gates = self._judgment, list(passed or [])
        count, least = self._sequence.count, self._settings.least_pairs
        verdict: Verdict = "undecided" if judgment is None else judgment.verdict
        reason = "too few pairs for an interval" if judgment is None else judgment.reason
        if count < least:
            # An interval may exclude 1 after two pairs; the verdict needs more, and says so.
            gates.append(GateResult(PAIRS_GATE, False, f"{count} of {least} pairs"))
        if failed is not None:
            verdict = "regressed" if failed.gate == SLO_GATE else "invalid"
            if failed.gate == ANSWERS_GATE and not self._answers.are_refused:
                # Nothing is wrong as far as is known: that is not far enough.
                verdict = "undecided"
            reason = f"{failed.gate}: {failed.statement}"
            gates.append(failed)
        elif judgment is not None and not judgment.final:
            reason += f"; {count} pairs, budget {self._settings.budget_s:.0f} s"
        return ExperimentResult(
            experiment=self._name,
            candidate=self._candidate,
            verdict=verdict,
            ratio=self.looks[-1].ratio if self.looks else None,
            reason=reason,
            blocks=tuple(self.blocks),
            looks=tuple(self.looks),
            gates=tuple(gates),
            seconds=self._clock() - self._begun,
            design=self._sequence.design,
            answers=self._answers.compared(),
            notes=(*self._notes, *dropped_notes(self.blocks)),
        )
