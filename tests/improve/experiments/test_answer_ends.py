"""What comes with an answer is compared too: its end, its length, its seed, and that there is one."""

from __future__ import annotations

import pytest

from assay.improve.engines.protocol import Engine, Followed
from assay.improve.experiments.holding import leaked
from assay.improve.experiments.outputs.ledger import AnswerLedger
from assay.improve.experiments.outputs.own_gap import largest_own_gap
from assay.improve.experiments.result import Block
from assay.improve.experiments.work import WorkLedger
from assay.load.workloads.measurement import Measurement, RequestRecord
from assay.load.workloads.workload import PlannedRequest, Workload

STOP = PlannedRequest(0, "a", 8, fields={"stop": ["\n"]})
SEEDED = [
    PlannedRequest(number, "a", 8, sampling={"temperature": 1.0, "seed": number})
    for number in range(20)
]


class Agreeing(Engine):
    """A control that would have said anything it is led along."""

    def follow(self, answers, tie):
        return [Followed((0.0,), (-1.0,)) for _ in answers]


def _record(number: int, output: str, reason: str = "length", tokens: int = 8) -> RequestRecord:
    return RequestRecord(
        number, 0.0, 0.1, 0.2, 4, tokens, digest=output, output=output, finish_reason=reason
    )


def _window(*records: RequestRecord) -> Measurement:
    return Measurement("w", 0.0, 1.0, records, {}, "stable", {})


def _ledger(*requests: PlannedRequest) -> AnswerLedger:
    return AnswerLedger(Workload("w", "", requests), "rounding", 0.0625)


@pytest.mark.parametrize(
    ("treatment", "kind"),
    [
        (_record(0, " b c", "stop", 2), None),
        (_record(0, " b c", "length", 2), "wrong"),
        (_record(0, " b c", "", 2), "wrong"),
        (_record(0, " b c", "stop", 3), "not judged"),
        (_record(0, " b c\n d", "length"), "wrong"),
        (_record(0, " b c d", "length"), "not judged"),
        (_record(0, " b", "stop", 1), "not judged"),
        (_record(0, "", "stop", 1), "not judged"),
        (_record(0, "", ""), "not judged"),
        (RequestRecord(0, 0.0, None, 0.1, 0, 0, error="HTTP 500"), "not judged"),
        (_record(0, " e f", "stop", 2), "near ties"),
    ],
)
def test_how_an_answer_ends(treatment: RequestRecord, kind: str | None) -> None:
    ledger = _ledger(STOP)
    ledger.add(_window(_record(0, " b c", "stop", 2)), _window(treatment))
    ledger.follow(Agreeing())
    kinds = [answer.kind for answer in ledger.compared().differing]
    assert kinds == ([] if kind is None else [kind])


def test_an_empty_answer_that_the_control_gives_too_is_equal() -> None:
    ledger = _ledger(STOP)
    ledger.add(_window(_record(0, "", "stop", 1)), _window(_record(0, "", "stop", 1)))
    assert ledger.compared().equal == 1


def test_an_engine_is_led_along_its_own_answers_that_say_something() -> None:
    ledger = _ledger(STOP)
    ledger.know(_window(_record(0, "", "stop", 1)))
    ledger.know(_window(_record(0, " b", "stop", 1)))
    assert largest_own_gap(Agreeing(), ledger, lambda: 1.0, lambda: 0.0) == 0.0


def test_requests_that_the_control_fails_need_not_be_compared() -> None:
    failed = RequestRecord(0, 0.0, None, 0.1, 0, 0, error="expected tokens, got none")
    ledger = _ledger(STOP, PlannedRequest(1, "b", 8))
    ledger.add(_window(failed, _record(1, " b")), _window(failed, _record(1, " b")))
    gate = ledger.gate(0.5, 1.0, least_requests=2)
    assert gate is not None
    assert gate.passed


@pytest.mark.parametrize(
    ("control", "treatment", "kinds"),
    [
        ("of {number}, always", "of {number}, always", set()),
        # Another sampler draws others, the same again: seeds are held.
        ("of {number}, always", "else {number}, always", {"as drawn"}),
        ("of {number}, always", "{time} else {number}", {"not judged"}),
        # Nothing to hold: the control draws anew as well.
        ("{time} of {number}", "{time} else {number}", {"as drawn"}),
    ],
)
def test_a_seed_is_held_where_the_control_holds_it(
    control: str, treatment: str, kinds: set[str]
) -> None:
    ledger = _ledger(*SEEDED)
    for time in range(2):
        both = [
            _window(
                *(_record(number, text.format(number=number, time=time)) for number in range(20))
            )
            for text in (control, treatment)
        ]
        ledger.add(*both)
    ledger.follow(Agreeing())
    assert {answer.kind for answer in ledger.compared().differing} == kinds


def _work(pairs: list[tuple[int, int]]) -> WorkLedger:
    """Answers of these lengths in both arms that differ and end by themselves, beside full ones."""
    work = WorkLedger("rounding", greedy=True)
    for old, new in pairs:
        full = [_record(number, "x", tokens=64) for number in range(1, 10)]
        control = _window(_record(0, "a", "stop", old), *full)
        work.add(control, _window(_record(0, "b", "stop", new), *full))
    return work


def test_answers_that_end_by_themselves_may_take_another_way() -> None:
    assert _work([(5, 40), (40, 12)] * 20).problem == ""
    shorter = _work([(40, 12)] * 20).problem
    assert shorter == "17 answers that end by themselves are 476 tokens shorter in the treatment"


def _memory(values: list[float]) -> list[Block]:
    return [
        Block("e", at, -1, "treatment", 0.0, 1.0, 1.0, 1, 1, "stable", {}, figures={"resident_bytes": 1e9 + value})
        for at, value in enumerate(values)
    ]  # fmt: skip


def test_memory_that_grows_in_steps_leaks_and_a_cache_that_fills_does_not() -> None:
    assert leaked(_memory([64e6 * (at // 5) for at in range(60)])) > 3e8
    assert leaked(_memory([min(64e6 * (at // 5), 4e8) for at in range(60)])) == 0.0
    assert leaked(_memory([5e8 * (at > 40) for at in range(60)])) == 0.0
    # Up and down: no end of it in sight, but no growth either.
    assert leaked(_memory([5e7 * (at % 3) for at in range(60)])) == 0.0
