"""Every answer of the treatment beside the control's to the same request."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from assay.improve.engines.protocol import Engine, Followed
from assay.improve.experiments.outputs.bounds import changed_rate, one_in
from assay.improve.experiments.outputs.judging import Judgment, judge
from assay.improve.experiments.result import ComparedAnswers, DifferingAnswer, GateResult
from assay.improve.levers.lever import Correctness
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import PlannedRequest, Workload, is_greedy

GATE: Final = "answers"
AT_ONCE: Final = 16
"""Answers that the control is led along between two looks at the clock."""

Clock = Callable[[], float]
Output = str | tuple[int, ...]


KnownAnswers = dict[int, set[Output]]
"""A configuration's answers by request: one that does not repeat itself has several."""


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

    def add(self, control: Measurement, treatment: Measurement) -> None:
        """Compare two windows of the same requests."""
        self.know(control)
        self.compare(treatment.records)

    def know(self, control: Measurement) -> None:
        """Take the control's answers."""
        for record in _answered(control.records):
            request = self._request(record)
            self.known.setdefault(request.number, set()).add(record.output)
            if record.output_tokens != request.max_tokens:
                self._is_full_length = False

    def compare(self, treatment: Iterable[RequestRecord]) -> list[RequestRecord]:
        """Compare answers with the control's; the records of requests that it has not answered."""
        unknown = []
        for record in _answered(treatment):
            request = self._request(record)
            known = self.known.get(request.number)
            if known is None:
                unknown.append(record)
                continue
            is_equal = record.output in known
            self.outcomes.append((request.number, is_equal))
            if is_equal:
                continue
            if self._is_full_length and record.output_tokens != request.max_tokens:
                self._note(request.number, Judgment("wrong", math.inf, record.output_tokens))
            else:
                at = len(self.outcomes) - 1
                self.pending.append(_Pending(request.number, record.output, at))
        return unknown

    def follow(
        self,
        control: Engine,
        left_s: Callable[[], float] = lambda: math.inf,
        clock: Clock = time.monotonic,
    ) -> None:
        """Lead the control along the answers that wait, while there is time and none is wrong."""
        while self.pending and self.wrong == 0 and left_s() > self.follow_s:
            count = min(len(self.pending), AT_ONCE)
            given = [self.pending.popleft() for _ in range(count)]
            begun = clock()
            asked = [(self.workload.requests[number], answer) for number, answer, _ in given]
            followed = control.follow(asked, self.tie)
            self.follow_s = (clock() - begun) / count
            for (request, answer), along in zip(asked, followed, strict=True):
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
        known = self.known.get(request.number, ())
        if any(len(other) > len(answer) and other[: len(answer)] == answer for other in known):
            return Judgment("not judged", judgment.gap, tokens)
        return judgment

    @property
    def wrong(self) -> int:
        """Answers that are wrongly changed."""
        return sum(answer.kind == "wrong" for answer in self.differing)

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
        return ComparedAnswers(equal, tuple(self.differing), len(requests), self.tie)

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
        return answers_gate(compared, confidence, most_changed, least_requests)

    def _note(self, request: int, judgment: Judgment) -> None:
        gap = None if math.isnan(judgment.gap) else min(judgment.gap, _MOST_GAP)
        self.differing.append(DifferingAnswer(request, judgment.kind, gap, judgment.token))

    def _request(self, record: RequestRecord) -> PlannedRequest:
        return self.workload.requests[record.number % len(self.workload.requests)]


_SPELLING: Final = 0.05
"""Share of tokens by which two ways to spell the same text may differ."""
_MOST_GAP: Final = 1e6
"""Stands for no bound at all in files that cannot hold infinity."""


def _answered(records: Iterable[RequestRecord]) -> Iterable[RequestRecord]:
    return (record for record in records if record.error is None and record.output)


def answers_gate(
    compared: ComparedAnswers,
    confidence: float,
    most_changed: float | None,
    least_requests: int = 0,
) -> GateResult:
    """What the compared answers say; answers that nobody could judge count as wrong in the bound."""
    rate = changed_rate(compared.wrong + compared.not_judged, compared.total, confidence)
    statement = sentence(compared, confidence)
    evidence = {
        **{name: getattr(compared, name) for name in ("total", "equal", "requests", "tie")},
        "near_ties": compared.near_ties,
        "as_drawn": compared.drawn,
        "wrong": compared.wrong,
        "not_judged": compared.not_judged,
        "most_changed": rate.hi,
        "confidence": confidence,
    }
    passed = compared.wrong == 0
    if passed and most_changed is not None and rate.hi > most_changed:
        passed = False
        statement += f"; {one_in(most_changed)} has to be excluded"
    if passed and most_changed is not None and compared.requests < least_requests:
        passed = False
        statement += f"; {least_requests} different requests have to be compared"
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
        parts.append(
            f"{compared.wrong} wrongly changed: request {first.request}, token {first.token}, "
            f"{first.gap or 0.0:.3g} nats from what the control would say"
        )
    if compared.not_judged:
        parts.append(f"{compared.not_judged} differ and cannot be judged by log-probabilities")
    rate = changed_rate(compared.wrong + compared.not_judged, compared.total, confidence)
    bound = (
        f"; wrongly changed are less than {one_in(rate.hi)} ({confidence:.1%} confidence)"
        if compared.total and not compared.wrong
        else ""
    )
    return (
        f"{compared.total} answers to {compared.requests} requests compared: "
        + ", ".join(parts)
        + bound
    )
