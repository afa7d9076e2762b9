"""Samples in sum: what draws from another distribution writes likelier answers, or less likely ones.

A single sample tells little: greedy answers to a request that asks for a temperature are ones that the
control may well have drawn. So the control scores its own answers too. Where both were drawn alike, the
difference for a request is as often above zero as below.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from assay.improve.engines.protocol import Followed, Given
from assay.load.workloads.workload import is_greedy

SHIFT_Z: Final = 5.0
"""Standard errors of the sum beyond which two configurations do not draw alike: looked at after every
pair, which is why they are so many."""
LEAST_REQUESTS: Final = 32
MOST_REQUESTS: Final = 256
"""Requests of which the control's own answer is scored, which takes as long as another's."""


@dataclass(slots=True)
class SampleLikelihood:
    """Log-probabilities of sampled answers, as the control scores them, by request."""

    own: dict[int, float] = field(default_factory=dict)
    """Of the control's answer."""
    treatment: dict[int, list[float]] = field(default_factory=dict)

    def lacking(
        self, asked: Iterable[Given], known: Mapping[int, Collection[str | tuple[int, ...]]]
    ) -> list[Given]:
        """The control's answers to be scored beside the treatment's."""
        requests = {
            request.number: request
            for request, _ in asked
            if not is_greedy(request) and request.number not in self.own
        }
        answers = [
            (request, next(iter(known[number])))
            for number, request in requests.items()
            if known.get(number)
        ]
        return answers[: max(MOST_REQUESTS - len(self.own), 0)]

    def add_own(self, given: Given, followed: Followed | None) -> None:
        """Keep what the control makes of its own answer."""
        if followed is not None and followed.logprobs:
            self.own[given[0].number] = math.fsum(followed.logprobs)

    def add(self, given: Given, followed: Followed | None) -> None:
        """Keep what the control makes of the treatment's answer."""
        if followed is not None and followed.logprobs and not is_greedy(given[0]):
            self.treatment.setdefault(given[0].number, []).append(math.fsum(followed.logprobs))

    def shift(self) -> str:
        """How the treatment's samples are likelier or less likely; empty where they are neither."""
        differences = [
            fmean(answers) - self.own[number]
            for number, answers in self.treatment.items()
            if number in self.own
        ]
        total, spread = math.fsum(differences), math.hypot(*differences)
        if len(differences) < LEAST_REQUESTS or abs(total) <= SHIFT_Z * spread:
            return ""
        return (
            f"samples are drawn otherwise: {abs(total) / len(differences):.2g} nats an answer "
            f"{'likelier' if total > 0 else 'less likely'} than the control's, "
            f"{abs(total) / spread:.1f} standard errors"
        )
