"""The control is led along as many answers as the time allows, and no more."""

from __future__ import annotations

from collections.abc import Sequence

from assay.improve.engines.protocol import Followed, Given
from assay.improve.experiments.outputs.ledger import AnswerLedger
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import PlannedRequest, Workload


class Slow:
    """Takes a second for each answer."""

    now_s = 0.0

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Each is a near tie."""
        self.now_s += len(answers)
        return [Followed((0.01,) * 4) for _ in answers]


def test_following_ends_with_its_time() -> None:
    requests = tuple(PlannedRequest(number, f"p{number}", 4) for number in range(40))
    answers = AnswerLedger(Workload("w", "", requests), "rounding", 0.0625)
    for request in requests:
        answers.known[request.number] = {"one": set()}
        answers.compare([RequestRecord(request.number, 0.0, 0.1, 1.0, 4, 4, output="two")])
    engine = Slow()
    for until_s, followed in ((6.0, 6), (6.5, 6), (100.0, 40)):
        answers.follow(engine, lambda until=until_s: until - engine.now_s, lambda: engine.now_s)  # type: ignore[misc, arg-type]
        assert len(answers.differing) == followed
