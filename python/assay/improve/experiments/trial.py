"""The course of one experiment: gates, warm-up, pairs, and back to the control whatever happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from assay.http_client import ServerError
from assay.improve.engines.protocol import Engine, EngineLostError
from assay.improve.experiments import schedule
from assay.improve.experiments.arms import Arms, RefusedError
from assay.improve.experiments.blocks import (
    BlockMeter,
    OnBlock,
    dropped_notes,
    dropping_gate,
    lengthened,
    requests_for,
    settle,
)
from assay.improve.experiments.confidence_sequence import ConfidenceSequence, Design
from assay.improve.experiments.correctness import (
    GATE as PROBES_GATE,
    Reference,
    baseline_reference,
    class_gate,
    correctness_gate,
    refreshed,
)
from assay.improve.experiments.holding import Hold, has_enough, needed
from assay.improve.experiments.outputs.ledger import AnswerLedger, KnownAnswers
from assay.improve.experiments.pairs import as_ratios, log_ratio, pairs_of
from assay.improve.experiments.prompts import PROMPTS
from assay.improve.experiments.result import Arm, ExperimentResult, GateResult, Look, Verdict
from assay.improve.experiments.settings import LEAST_STARTED_PAIRS, ExperimentSettings
from assay.improve.experiments.settings_check import mismatches, settings_gate
from assay.improve.experiments.slo import SloLedger
from assay.improve.experiments.verdict import Decision, decide, percent
from assay.improve.experiments.work import WorkLedger
from assay.improve.levers.lever import Candidate
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.ramp import RAMP
from assay.load.workloads.workload import ServiceLevel, Workload, is_greedy
from assay.plurals import count

OnLook = Callable[[Look], None]
Clock = Callable[[], float]

FUTILE_SPREADS: Final = 3.0
"""Standard errors below the practical threshold at which a trial ends: one in 700 trials of a gain
at the threshold would come so low by chance."""
WARMUP_SHARE: Final = 0.25
"""Share of the time left that a warm-up may take."""
SERIAL_SOAK_SHARE: Final = 0.5
"""Share of the time left that a soak between restarts may take: more pairs may have to follow."""
LATE_FOLLOWING: Final = 0.2
"""Share of the budget by which the last answers may be late: better than a gain that is not judged."""
FOLLOW_SHARE: Final = 0.1
"""Share of the time left that the control is led along answers after a pair; what waits then is
judged at the end, where there is a gain."""


class ExperimentLostError(EngineLostError):
    """The engine did not come back after an experiment; `result` is what was measured before."""

    def __init__(self, error: EngineLostError, result: ExperimentResult) -> None:
        """Keep the engine's message and what is known."""
        super().__init__(error.message, error.hint, failure=error.failure)
        self.result = result


class GateFailed(Exception):
    """A gate failed, with its statement: more blocks cannot change that."""


class Trial:
    """The state of one experiment."""

    def __init__(
        self,
        engine: Engine,
        workload: Workload,
        candidate: Candidate,
        settings: ExperimentSettings,
        name: str | None,
        on_block: OnBlock | None,
        on_look: OnLook | None,
        clock: Clock,
        known: KnownAnswers | None = None,
        earlier: ExperimentResult | None = None,
    ) -> None:
        self.engine = engine
        self.workload = workload
        self.candidate = candidate
        self.settings = settings
        self.name = name or candidate.name
        self.clock = clock
        self.begun = clock()
        self.gates: list[GateResult] = []
        self.looks: list[Look] = []
        self.notes: list[str] = []
        self.meter: BlockMeter | None = None
        self._on_block = on_block
        self._on_look = on_look
        self._sequence = ConfidenceSequence(settings.alpha, self._design(False, 1))
        greedy = all(map(is_greedy, workload.requests))
        self._answers = AnswerLedger(
            workload, candidate.correctness, settings.near_tie, known={} if known is None else known
        )
        self._hold: Hold | None = None
        self._work = WorkLedger(candidate.correctness, greedy, settings.baseline_repeats)
        # A ramp goes beyond what keeps the service levels: its figure is where they break.
        slo = ServiceLevel() if workload.arrival == RAMP else workload.slo
        self._slo = SloLedger(slo, settings.slo_share)
        self._decision = Decision("undecided", "too few pairs for an interval", False)
        self._futile = False
        self._least_pairs = 0
        """Pairs before a verdict that counts."""
        self._tried = 0
        self._earlier = earlier
        self._first_pair = 0
        if earlier is not None:
            self._go_on_from(earlier)
        self._next_place = 0
        """Behind the requests of the pairs so far."""

    def _go_on_from(self, earlier: ExperimentResult) -> None:
        """Take up the pairs of an experiment that was not decided: a sequence may go on at any time."""
        self.looks += earlier.looks
        for pair in pairs_of(earlier.blocks):
            self._sequence.add(log_ratio(pair, self.workload.objective.better))
        last = max((block.pair for block in earlier.blocks), default=-1)
        # From an even number on: the order of arms comes back to the control then.
        self._first_pair = last + 1 + (last + 1) % 2

    def run(self, reference: Reference | None) -> ExperimentResult:
        """Gates, warm-up, pairs, and back to the control whatever happens."""
        off = class_gate(self.candidate.correctness, self.settings.allow_lossy)
        if off is not None:
            self.gates.append(off)
            return self._result("invalid", off.statement)
        try:
            arms = Arms(self.engine, self.candidate.changes)
        except RefusedError as error:
            return self._result("invalid", error.message, "refused")
        if not arms.differ:
            return self._result("invalid", "the settings are those of now already")
        failure, reason = "", ""
        try:
            self._measure(arms, self._reference(reference))
        except RefusedError as error:
            failure, reason = "refused", error.message
        except EngineLostError as error:
            failure, reason = error.failure, error.message
            if arms.toward == "control":
                # Not the candidate's failure: nothing of it becomes a constraint of the search.
                failure, reason = "", f"the control failed ({error.failure}): {error.message}"
        except ServerError as error:
            reason = f"the {arms.toward} failed: {error.message}"
        except GateFailed as failed:
            reason = str(failed)
        finally:
            lost = self._restore(arms)
        if lost is not None:
            if not reason:
                failure, reason = lost.failure, lost.message
            result = self._result("invalid", reason, failure)
            raise ExperimentLostError(lost, result) from lost
        return self._judged(arms, failure, reason)

    def _reference(self, given: Reference | None) -> Reference:
        """The baseline's probes; its answers again where the control is not what was probed."""
        if given is None:
            return baseline_reference(self.engine, self.settings.probe_tokens)
        if mismatches(given.settings, self.engine.settings()):
            return refreshed(given, self.engine, self.settings.probe_tokens)
        return given

    def _measure(self, arms: Arms, reference: Reference) -> None:
        self._require(reference.gate)
        settings = self.settings
        requests = settings.block_requests or requests_for(
            self.engine, self.workload, settings.block_s
        )
        hot = arms.hot and self.candidate.hot
        switch_s = settings.switch_s
        if hot:
            switch_s = max(switch_s, self._enter(arms, reference))
        longer = lengthened(settings.block_s, switch_s, hot)
        self._sequence.design = self._design(not hot, longer)
        self.meter = BlockMeter(
            self.engine,
            self.workload,
            self.name,
            requests * longer,
            self._on_block,
            settings.first_request,
            () if self._earlier is None else self._earlier.blocks,
        )
        if hot:
            self._settle("treatment")
        order: Iterator[tuple[Arm, ...]] = (
            schedule.alternating(settings.seed, settings.batch)
            if hot
            else schedule.serial(settings.visit_blocks)
        )
        self._least_pairs = 0 if hot else LEAST_STARTED_PAIRS
        least = settings.least_pairs if hot else LEAST_STARTED_PAIRS
        longest = switch_s
        for place, sides in enumerate(order):
            pair = self._first_pair + place
            started = self.clock()
            if pair >= settings.most_pairs or self._left() < longest:
                break
            if place == 1 and not hot:
                # The treatment is in force, and stays so: a soak that costs no restart.
                self._soak_treatment(arms, (least - 1) * longest, SERIAL_SOAK_SHARE)
                started = self.clock()
            self._pair(arms, pair, sides, None if hot else reference)
            longest = max(longest, self.clock() - started)
            self._follow(arms)
            if place == 1 and not hot:
                self._soak_control(arms)
            if self._sequence.count >= least and self._decision.final:
                break
            # Live pairs are cheap: there a loss gets its verdict, if the time lasts.
            if not hot and self._is_futile():
                break
        if not self._decision.final:
            self._futile = self._is_futile()
        if hot and self._decision.verdict == "improved":
            self._soak_treatment(arms, 0.0, 1.0)
            self._soak_control(arms)
        if self._decision.verdict == "improved":
            self._ask_more(arms, switch_s)
            arms.switch("control")
            self._follow(arms, to_the_end=True)

    def _design(self, restarts: bool, longer: int) -> Design:
        """What the A/A experiment says of pairs of this length."""
        settings = self.settings
        blocks = longer * (settings.visit_blocks if restarts else settings.batch)
        least_sd = (settings.least_sd or 0.0) / math.sqrt(blocks)
        start_half = 0.0 if restarts else settings.start_half
        return Design(restarts, least_sd, start_half, clips=not restarts)

    def _soak_treatment(self, arms: Arms, reserve_s: float, most_share: float) -> None:
        """Hold the treatment under the workload for a share of the time that is left."""
        settings = self.settings
        if not settings.hold_s or self.meter is None:
            return
        arms.switch("treatment")
        hold = self._hold = Hold(
            self.meter, self._answers, self._slo, self.workload.objective.better, needed(settings)
        )
        until = self.clock() + min(settings.hold_s, most_share * (self._left() - reserve_s))
        leaves_time = most_share < 1.0

        def has_time(control_s: float) -> bool:
            if leaves_time and has_enough(hold):
                return False
            return self.clock() + control_s + self._answers.follow_time_s < until

        hold.treatment(self._next_place, has_time)
        self._check_settings(arms)

    def _soak_control(self, arms: Arms) -> None:
        """The control beside the end of the soak, and its answers to what was asked meanwhile."""
        if self._hold is None:
            return
        arms.switch("control")
        self._hold.control(self._left)
        self._check_settings(arms)
        self._follow(arms)
        gate = self._hold.gate(self._sequence.interval.value, self.settings.noise_sd)
        if gate is not None:
            self._require(gate)

    def _ask_more(self, arms: Arms, switch_s: float) -> None:
        """Answers that a promotion lacks after its soak, while they are not too late."""
        most = needed(self.settings)
        until = self.begun + (1.0 + LATE_FOLLOWING) * self.settings.budget_s - switch_s
        if self._hold is None or self._answers.total >= most or self.clock() + switch_s > until:
            return
        arms.switch("treatment")
        self._hold.ask_more(
            self._next_place, lambda: self._answers.total < most and self.clock() < until
        )
        self._check_settings(arms)

    def _check_settings(self, arms: Arms) -> None:
        assert self.meter is not None
        gate = settings_gate(self.meter.blocks, arms.asked)
        if not gate.passed:
            self._require(gate)

    def _follow(self, arms: Arms, *, to_the_end: bool = False) -> None:
        """Lead the control along answers that differ; one that is wrong ends the experiment."""
        if arms.now == "control":
            share = 1.0 + LATE_FOLLOWING if to_the_end else FOLLOW_SHARE
            until = self.clock() + share * max(self._left(), 0.0)
            if to_the_end:
                until = self.begun + share * self.settings.budget_s
            self._answers.follow(self.engine, lambda: until - self.clock(), self.clock)
        if self._answers.are_refused:
            gate = self._answers.gate(self.settings.answer_confidence)
            assert gate is not None
            self._require(gate)

    def _is_futile(self) -> bool:
        """Whether a gain is out of reach; to stop then promotes nothing, so it needs no correction."""
        noise, seen = self.settings.noise_sd, self._sequence
        if noise is None or not seen.count:
            return False
        variance = max(noise, seen.deviation) ** 2
        if seen.design.shares_starts:
            # A pair is of two starts, and its neighbor has one of them: the mean of n varies 2 - 1/n times as much.
            variance = max(variance, 2.0 * self.settings.start_sd**2) * (2.0 - 1.0 / seen.count)
        below = math.log1p(self.settings.practical_threshold) - seen.interval.value
        return below > FUTILE_SPREADS * math.sqrt(variance / seen.count)

    def _left(self) -> float:
        return self.settings.budget_s - (self.clock() - self.begun)

    def _enter(self, arms: Arms, reference: Reference) -> float:
        """Go to the treatment for the first time and probe it; how long the change took."""
        started = self.clock()
        arms.switch("treatment")
        took = self.clock() - started
        self._probe(reference)
        return took

    def _pair(
        self, arms: Arms, pair: int, sides: tuple[Arm, ...], restarts: Reference | None
    ) -> None:
        """Measure one pair, check it, look; `restarts` is given where a change is a restart."""
        assert self.meter is not None
        self._tried += 1
        seen: dict[Arm, list[Measurement]] = {"control": [], "treatment": []}
        for arm in sides:
            changed = arm != arms.now
            if changed and restarts is not None and not arms.switches:
                self._enter(arms, restarts)
            arms.switch(arm)
            if changed and restarts is not None:
                self._settle(arm)
            place = len(seen[arm]) + pair * (len(sides) // 2)
            self._next_place = max(self._next_place, place + 1)
            warmup = self.settings.warmup_requests if changed else 0
            block, measurement = self.meter.measure(arm, pair, place, warmup)
            gate = settings_gate([block], arms.asked)
            if not gate.passed:
                self._require(gate)
            seen[arm].append(measurement)
            if not block.dropped:
                self._slo.add(arm, measurement)
            elif restarts is None:
                # The other side of the pair has nothing to be compared with.
                break
        for control, treatment in zip(seen["control"], seen["treatment"], strict=False):
            self._work.add(control, treatment)
            self._answers.add(control, treatment)
        if self._work.problem:
            self._require(self._work.gate())
        self._look(pair)

    def _look(self, pair: int) -> None:
        assert self.meter is not None
        done = [measured for measured in pairs_of(self.meter.blocks) if measured.pair == pair]
        if done:
            interval = self._sequence.add(log_ratio(done[0], self.workload.objective.better))
            if math.isfinite(interval.hi):
                look = Look(pair, as_ratios(interval))
                self.looks.append(look)
                self._decision = self._decided(look)
                if self._on_look is not None:
                    self._on_look(look)
        gate = dropping_gate(self.meter.blocks, self._tried, self._sequence.count)
        if gate is not None:
            self._require(gate)

    def _decided(self, look: Look) -> Decision:
        count, least = self._sequence.count, self._least_pairs
        if count < least:
            reason = f"{percent(look.ratio.value)}, too few for a verdict before {least} restarts"
            return Decision("undecided", reason, False)
        return decide(look.ratio, self.settings.practical_threshold, 1.0 - self.settings.alpha)

    def _require(self, gate: GateResult) -> None:
        """Keep a gate; one that failed ends the experiment."""
        self.gates.append(gate)
        if not gate.passed:
            raise GateFailed(gate.statement)

    def _probe(self, reference: Reference) -> None:
        """The correctness gate, before anything is timed."""
        texts = [prompt.text for prompt in PROMPTS]
        try:
            answers = self.engine.probe(texts, self.settings.probe_tokens)
        except ServerError as error:
            # It runs, and answers less than the control did.
            gate = GateResult(PROBES_GATE, False, f"a probe failed: {error.message}")
        else:
            gate = correctness_gate(
                reference, answers, self.candidate.correctness, self.settings.allow_lossy
            )
        self._require(gate)

    def _settle(self, arm: Arm) -> None:
        """Warm up an arm, for at most `WARMUP_SHARE` of the remaining budget."""
        assert self.meter is not None
        settings = self.settings
        least = (1.0 - WARMUP_SHARE) * self._left()
        problem = settle(
            self.meter,
            arm,
            settings.noise_sd,
            settings.most_warmup_blocks,
            lambda: self._left() > least,
        )
        if problem and problem not in self.notes:
            self.notes.append(problem)

    def _restore(self, arms: Arms) -> EngineLostError | None:
        try:
            arms.restore()
            if not arms.is_restored():
                return EngineLostError(
                    f"settings of the control: expected {dict(arms.asked['control'])}, "
                    f"got {dict(self.engine.settings())}"
                )
        except EngineLostError as error:
            return error
        return None

    def _judged(self, arms: Arms, failure: str, reason: str) -> ExperimentResult:
        """The verdict: gates first, then the confidence sequence."""
        if reason:
            return self._result("invalid", reason, failure)
        assert self.meter is not None
        self.gates.append(settings_gate(self.meter.blocks, arms.asked))
        self.gates.append(self._work.gate())
        slo = self._slo.gate()
        if slo is not None:
            self.gates.append(slo)
        improved = self._decision.verdict == "improved"
        answers = self._answers.gate(
            self.settings.answer_confidence,
            self.settings.most_changed if improved else None,
            self.settings.least_requests if improved else 0,
        )
        if answers is not None:
            self.gates.append(answers)
        for gate in self.gates:
            if not gate.passed:
                verdict: Verdict = "regressed" if gate is slo else "invalid"
                if gate is answers and not self._answers.are_refused:
                    # Nothing is wrong as far as is known: that is not far enough.
                    verdict = "undecided"
                return self._result(verdict, f"{gate.gate}: {gate.statement}")
        reason = self._decision.reason
        if self._futile:
            pairs = count(self._sequence.count, "pair")
            loss = percent(math.exp(self._sequence.interval.value))
            noise = "noise of starts" if self._sequence.design.shares_starts else "A/A noise"
            reason = f"stopped for futility: {loss} after {pairs}, beyond the {noise} of a gain"
        elif self._decision.verdict == "undecided" and not self._decision.final:
            reason += (
                f"; {count(self._sequence.count, 'pair')}, budget {self.settings.budget_s:.0f} s"
            )
        return self._result(self._decision.verdict, reason)

    def _result(self, verdict: Verdict, reason: str, failure: str = "") -> ExperimentResult:
        blocks = self.meter.blocks if self.meter is not None else []
        return ExperimentResult(
            experiment=self.name,
            candidate=self.candidate,
            verdict=verdict,
            ratio=self.looks[-1].ratio if self.looks else None,
            reason=reason,
            blocks=tuple(blocks),
            looks=tuple(self.looks),
            gates=tuple(self.gates),
            seconds=self.clock() - self.begun + (self._earlier.seconds if self._earlier else 0.0),
            failure=failure,
            futile=self._futile,
            design=self._sequence.design,
            answers=self._answers.compared().after(self._earlier),
            notes=(*self.notes, *dropped_notes(blocks)),
        )
