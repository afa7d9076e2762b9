"""Samples in sum: another distribution is seen, and the same one is not taken for another."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from assay.improve.engines.protocol import Followed, Given
from assay.improve.experiments.outputs.ledger import AnswerLedger
from assay.load.workloads.measurement import RequestRecord
from assay.load.workloads.workload import PlannedRequest, Workload

TOKENS = 24
LOGITS = (4.0, 3.2, 2.5, 1.0, 0.0)


class Drawn:
    """A control that scores answers: a letter for each token."""

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """The log-probabilities of the letters at temperature 1."""
        total = math.log(math.fsum(map(math.exp, LOGITS)))
        return [
            Followed((), tuple(LOGITS[ord(letter) - ord("a")] - total for letter in answer))
            for _, answer in answers
            if isinstance(answer, str)
        ]


def sample(chance: random.Random, temperature: float) -> str:
    """An answer; temperature 0 is greedy but for its last token, so that it differs."""
    weights = [math.exp(logit / max(temperature, 0.05)) for logit in LOGITS]
    return "".join(chance.choices("abcde", weights, k=TOKENS))


def ledger(chance: random.Random, temperature: float, requests: int = 120) -> AnswerLedger:
    """Answers drawn at 0.8 without a seed, beside those of a treatment."""
    workload = Workload(
        "sampled",
        "",
        tuple(PlannedRequest(n, f"p{n}", TOKENS, sampling={"temperature": 0.8}) for n in range(requests)),
    )  # fmt: skip
    answers = AnswerLedger(workload, "rounding", 0.0625)
    for number in range(requests):
        answers.known[number] = {sample(chance, 0.8): set()}
        text = sample(chance, temperature)
        answers.compare([RequestRecord(number, 0.0, 0.1, 1.0, 4, TOKENS, output=text)])
    answers.follow(Drawn())  # type: ignore[arg-type]
    return answers


@pytest.mark.parametrize(
    ("temperature", "how"), [(0.0, "likelier"), (0.4, "likelier"), (1.5, "less likely")]
)
def test_samples_of_another_temperature_are_none_of_the_controls(
    temperature: float, how: str
) -> None:
    answers = ledger(random.Random(1), temperature)
    gate = answers.gate(0.95, 1 / 50)
    assert gate is not None
    assert not gate.passed
    assert f"{how} than the control's" in gate.statement
    assert answers.compared().drawn == 0


def test_samples_of_the_same_distribution_pass() -> None:
    for seed in range(200):
        answers = ledger(random.Random(seed), 0.8)
        gate = answers.gate(0.95, 1 / 20)
        assert gate is not None
        assert gate.passed, gate.statement


def test_few_requests_tell_nothing() -> None:
    assert ledger(random.Random(2), 0.0, requests=20).compared().drawn == 20
