"""Every answer of the treatment beside the control's to the same request."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from assay.improve.engines.protocol import Engine, Followed
from assay.improve.experiments.outputs.bounds import changed_rate, one_in
from assay.improve.experiments.outputs.judging import Judgment, judge
from assay.improve.experiments.outputs.likelihood import SampleLikelihood
from assay.improve.experiments.outputs.seeds import SeededAnswers, beginning, is_seeded
from assay.improve.experiments.result import ComparedAnswers, DifferingAnswer, GateResult
from assay.improve.levers.lever import Correctness
from assay.load.workloads.measurement import STOPPED, Measurement, RequestRecord
from assay.load.workloads.workload import PlannedRequest, Workload, is_greedy

GATE: Final = "answers"
AT_ONCE: Final = 16
"""Answers that the control is led along between two looks at the clock, at most."""
FIRST_AT_ONCE: Final = 4

Clock = Callable[[], float]
Output = str | tuple[int, ...]


class End(NamedTuple):
    """How a server says that an answer ended."""

    reason: str
    tokens: int


KnownAnswers = dict[int, dict[Output, set[End]]]
"""A configuration's answers by request, and how each ended: one that does not repeat itself has several."""


class _Pending(NamedTuple):
    """An answer that differs and is not judged yet."""

    request: int
    answer: Output
    at: int
    """Its place among all answers compared."""


@dataclass(slots=True)
class AnswerLedger:
    """Compares answers; those that differ wait until the control can be led along them."""

    workload: Workload
    correctness: Correctness
    tie: float
    outcomes: list[tuple[int, bool]] = field(default_factory=list)
    """Request, and whether its answer is equal, in the order of comparing."""
    differing: list[DifferingAnswer] = field(default_factory=list)
    known: KnownAnswers = field(default_factory=dict)
    """The control's, from earlier experiments too."""
    pending: deque[_Pending] = field(default_factory=deque)
    follow_s: float = 0.0
    """Seconds that the last answers took to be followed, each."""
    _is_full_length: bool = True
    """Whether the control always gave all tokens that it was asked for."""
    _failed: set[int] = field(default_factory=set)
    """Requests that the control failed: nobody can compare them."""
    _seeded: SeededAnswers = field(default_factory=SeededAnswers)
    _likelihood: SampleLikelihood = field(default_factory=SampleLikelihood)
    _otherwise: set[int] = field(default_factory=set)
    """Places among `differing` of answers that begin otherwise than the control's of the same seed."""

    def add(self, control: Measurement, treatment: Measurement) -> None:
        """Compare two windows of the same requests."""
        self.know(control)
        self.compare(treatment.records)

    def know(self, control: Measurement) -> None:
        """Take the control's answers."""
        for record in control.records:
            request = self._request(record)
            if not _is_answer(record):
                self._failed.add(request.number)
                continue
            end = End(record.finish_reason, record.output_tokens)
            self.known.setdefault(request.number, {}).setdefault(record.output, set()).add(end)
            if record.output_tokens != request.max_tokens:
                self._is_full_length = False

    def compare(self, treatment: Iterable[RequestRecord]) -> list[RequestRecord]:
        """Compare answers with the control's; the records of requests that it has not answered."""
        unknown = []
        for record in treatment:
            request = self._request(record)
            known = self.known.get(request.number)
            if known is not None:
                self._compare(request, record, known)
            elif _is_answer(record) or self.known:
                # Where the control gives no outputs at all, there is nothing to wait for.
                unknown.append(record)
        return unknown

    def _compare(
        self, request: PlannedRequest, record: RequestRecord, known: dict[Output, set[End]]
    ) -> None:
        judgment: Judgment | None = None
        if not _is_answer(record):
            # It failed what the control answers.
            judgment = Judgment("not judged", math.nan)
        elif record.output in known:
            judgment = _ended_otherwise(record, known[record.output])
        elif self._is_full_length and record.output_tokens != request.max_tokens:
            judgment = Judgment("wrong", math.inf, record.output_tokens)
        elif _goes_on(request, record.output, known):
            judgment = Judgment("wrong", math.nan, record.output_tokens)
        is_equal = judgment is None and record.output in known
        self.outcomes.append((request.number, is_equal))
        if _is_answer(record):
            self._seeded.add(request, record.output)
        if judgment is not None:
            self._note(request.number, judgment)
        elif not is_equal:
            at = len(self.outcomes) - 1
            self.pending.append(_Pending(request.number, record.output, at))

    def follow(
        self,
        control: Engine,
        left_s: Callable[[], float] = lambda: math.inf,
        clock: Clock = time.monotonic,
    ) -> None:
        """Lead the control along the answers that wait, while there is time and none is wrong."""
        while self.pending and self.wrong == 0 and left_s() > self.follow_s:
            # How long the first ones take is not known: few tell it.
            fitting = left_s() / self.follow_s if self.follow_s else FIRST_AT_ONCE
            count = int(min(len(self.pending), AT_ONCE, fitting))
            given = [self.pending.popleft() for _ in range(count)]
            begun = clock()
            asked = [(self.workload.requests[number], answer) for number, answer, _ in given]
            own = self._likelihood.lacking(asked, self.known)
            followed = control.follow([*asked, *own], self.tie)
            self.follow_s = (clock() - begun) / count
            for given_own, along in zip(own, followed[count:], strict=True):
                self._likelihood.add_own(given_own, along)
            for (request, answer), along in zip(asked, followed[:count], strict=True):
                self._likelihood.add((request, answer), along)
                known = self.known.get(request.number, ())
                if is_seeded(request) and beginning(answer) not in map(beginning, known):
                    self._otherwise.add(len(self.differing))
                self._note(request.number, self._judged(request, answer, along))

    @property
    def follow_time_s(self) -> float:
        """Seconds that the answers that wait will take."""
        return self.follow_s * len(self.pending)

    def _judged(
        self, request: PlannedRequest, answer: Output, followed: Followed | None
    ) -> Judgment:
        greedy = is_greedy(request)
        temperature = float(request.sampling.get("temperature", 0.0))
        judgment = judge(
            followed, self.tie, self.correctness, greedy=greedy, temperature=temperature
        )
        if followed is not None and judgment.kind == "near ties" and greedy:
            return self._to_its_end(request, answer, len(followed.gaps), judgment)
        return judgment

    def _to_its_end(
        self, request: PlannedRequest, answer: Output, tokens: int, judgment: Judgment
    ) -> Judgment:
        """An answer that stops where the control goes on is not the control's, near ties or not."""
        if self._is_full_length and tokens < request.max_tokens - _SPELLING * request.max_tokens:
            return Judgment("wrong", math.inf, tokens)
        for other, ends in self.known.get(request.number, {}).items():
            is_part = len(other) > len(answer) and other[: len(answer)] == answer
            # Led along, the control is not asked whether it would have ended.
            is_more = len(other) < len(answer) and answer[: len(other)] == other
            if is_part or (is_more and any(end.reason == STOPPED for end in ends)):
                return Judgment("not judged", judgment.gap, tokens)
        return judgment

    @property
    def wrong(self) -> int:
        """Answers that are wrongly changed."""
        return sum(answer.kind == "wrong" for answer in self.differing)

    @property
    def are_refused(self) -> bool:
        """Whether more answers could not help: one is wrong, or samples are of another distribution."""
        return bool(self.wrong or self._shift)

    @property
    def total(self) -> int:
        """Answers compared so far, those that wait to be judged too."""
        return len(self.outcomes)

    def compared(self) -> ComparedAnswers:
        """What is known now: all answers up to the first that waits to be judged.

        To count those behind it that are equal, and leave out those that differ, would flatter.
        """
        counted = self.outcomes[: self.pending[0].at] if self.pending else self.outcomes
        equal = sum(is_equal for _, is_equal in counted)
        requests = {number for number, _ in counted}
        shape = self.workload.data_set
        rows = (0, "") if shape is None else (shape.rows, shape.row)
        return ComparedAnswers(
            equal, tuple(self._as_far_as_known()), len(requests), self.tie, *rows
        )

    def _as_far_as_known(self) -> Iterable[DifferingAnswer]:
        """Samples that a seed should have made equal are judged where it is known what seeds do.

        Where they are likelier in sum than the control's own, or less likely, none of them is judged.
        """
        if self._shift:
            return (
                replace(answer, kind="not judged") if answer.kind == "as drawn" else answer
                for answer in self.differing
            )
        seeded = self._seeded
        if (
            not self._otherwise
            or seeded.are_held()
            or seeded.are_ignored_by_the_control(self.known, self.workload.requests)
        ):
            return self.differing
        return (
            replace(answer, kind="not judged")
            if place in self._otherwise and answer.kind == "as drawn"
            else answer
            for place, answer in enumerate(self.differing)
        )

    def gate(
        self, confidence: float, most_changed: float | None = None, least_requests: int = 0
    ) -> GateResult | None:
        """None where nothing was compared; fails for a wrong answer.

        With `most_changed` it fails too where so high a rate is not excluded, or where answers to
        fewer than `least_requests` different requests were compared.
        """
        compared = self.compared()
        if not compared.total and most_changed is None:
            return None
        comparable = len(self.workload.requests) - len(self._failed - self.known.keys())
        least = min(least_requests, comparable)
        gate = answers_gate(compared, confidence, most_changed, least)
        shift = self._shift
        return (
            replace(gate, passed=False, statement=f"{gate.statement}; {shift}") if shift else gate
        )

    @property
    def _shift(self) -> str:
        """In words; a lossy lever may draw otherwise."""
        return "" if self.correctness == "lossy" else self._likelihood.shift()

    def _note(self, request: int, judgment: Judgment) -> None:
        gap = None if math.isnan(judgment.gap) else min(judgment.gap, _MOST_GAP)
        self.differing.append(DifferingAnswer(request, judgment.kind, gap, judgment.token))

    def _request(self, record: RequestRecord) -> PlannedRequest:
        return self.workload.requests[record.number % len(self.workload.requests)]


_SPELLING: Final = 0.05
"""Share of tokens by which two ways to spell the same text may differ."""
_MOST_GAP: Final = 1e6
"""Stands for no bound at all in files that cannot hold infinity."""


def _is_answer(record: RequestRecord) -> bool:
    """An empty text is an answer where the server says why it ended there."""
    return record.error is None and bool(record.output or record.finish_reason)


def _ended_otherwise(record: RequestRecord, ends: set[End]) -> Judgment | None:
    """What is wrong with an answer whose text is the control's; None where nothing is."""
    reasons = {end.reason for end in ends}
    if record.finish_reason not in reasons and reasons != {""}:
        return Judgment("wrong", math.nan, record.output_tokens)
    if record.output_tokens not in {end.tokens for end in ends}:
        # The same text in other tokens, or a usage that is not true.
        return Judgment("not judged", math.nan, record.output_tokens)
    return None


def _goes_on(request: PlannedRequest, answer: Output, known: Iterable[Output]) -> bool:
    """Whether an answer has a text in it that should have ended it, as the control's do not."""
    stop = request.fields.get("stop") or ()
    if not isinstance(answer, str) or request.fields.get("include_stop_str_in_output"):
        return False
    stops = [stop] if isinstance(stop, str) else [text for text in stop if isinstance(text, str)]
    others = [other for other in known if isinstance(other, str)]
    return any(
        text and text in answer and not any(text in other for other in others) for text in stops
    )


def answers_gate(
    compared: ComparedAnswers,
    confidence: float,
    most_changed: float | None,
    least_requests: int = 0,
) -> GateResult:
    """What the compared answers say; answers that nobody could judge count as wrong in the bound."""
    rate = changed_rate(compared.unproven, compared.judged, confidence)
    statement = sentence(compared, confidence)
    evidence: dict[str, Any] = {
        **{name: getattr(compared, name) for name in ("total", "equal", "requests", "tie")},
        "near_ties": compared.near_ties,
        "as_drawn": compared.drawn,
        "wrong": compared.wrong,
        "not_judged": compared.not_judged,
        "most_changed": rate.hi,
        "confidence": confidence,
    }
    if compared.rows:
        evidence |= {"rows": compared.rows, "row": compared.row}
    passed = compared.wrong == 0
    if passed and most_changed is not None and rate.hi > most_changed:
        passed = False
        statement += f"; {one_in(most_changed)} has to be excluded"
    if passed and most_changed is not None and compared.requests < least_requests:
        passed = False
        what = "data sets" if compared.rows else "requests"
        statement += f"; {least_requests} different {what} have to be compared"
    return GateResult(GATE, passed, statement, evidence)


def sentence(compared: ComparedAnswers, confidence: float) -> str:
    """The comparison in words."""
    parts = [f"{compared.equal} equal"]
    if compared.near_ties:
        largest = max(
            answer.gap or 0.0 for answer in compared.differing if answer.kind == "near ties"
        )
        parts.append(
            f"{compared.near_ties} differ at near ties only (up to {largest:.2g} of {compared.tie:.2g} nats)"
        )
    if compared.drawn:
        parts.append(f"{compared.drawn} samples that the control may have drawn")
    if compared.wrong:
        first = next(answer for answer in compared.differing if answer.kind == "wrong")
        how = "which ends otherwise than the control's"
        if first.gap is not None:
            how = f"token {first.token}, {first.gap:.3g} nats from what the control would say"
        parts.append(f"{compared.wrong} wrongly changed: request {first.request}, {how}")
    if compared.not_judged:
        parts.append(f"{compared.not_judged} differ and cannot be judged by log-probabilities")
    rate = changed_rate(compared.unproven, compared.judged, confidence)
    bound = (
        f"; wrongly changed are less than {one_in(rate.hi)} ({confidence:.1%} confidence)"
        if compared.judged and not compared.wrong
        else ""
    )
    what = f"{compared.total} answers to {compared.requests} requests"
    if compared.rows:
        what = (
            f"{compared.total} runs of {compared.requests} data sets with {compared.judged:,} "
            f"{compared.row}"
        )
    return f"{what} compared: {', '.join(parts)}{bound}"
