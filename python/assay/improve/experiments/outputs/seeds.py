"""Samples with a seed: a server that holds seeds begins the same request the same way again.

Rounding may send a sample another way somewhere, and another sampler draws others altogether; neither
is wrong. A configuration that ignores the seed draws as well as any: only asking again tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from assay.load.workloads.workload import PlannedRequest, is_greedy

Output = str | tuple[int, ...]

TOKENS: Final = 4
CHARACTERS: Final = 16
"""How much of the beginning must be the same: two draws rarely share it, and rounding rarely parts it."""
LEAST_REPEATED: Final = 8
"""Requests asked twice before a configuration is said to hold seeds or not."""
LEAST_ALIKE: Final = 0.9
"""Share of them that begin alike where seeds are held."""


def is_seeded(request: PlannedRequest) -> bool:
    """Whether an answer is drawn, and should be the same again."""
    return not is_greedy(request) and "seed" in request.sampling


def beginning(answer: Output) -> Output:
    """What two answers of one seed share.

    >>> beginning((1, 2, 3, 4, 5)), beginning("a")
    ((1, 2, 3, 4), 'a')
    """
    return answer[: CHARACTERS if isinstance(answer, str) else TOKENS]


@dataclass(slots=True)
class SeededAnswers:
    """The treatment's answers to requests with a seed."""

    own: dict[int, list[Output]] = field(default_factory=dict)

    def add(self, request: PlannedRequest, answer: Output) -> None:
        """Keep an answer of the treatment."""
        if is_seeded(request):
            self.own.setdefault(request.number, []).append(answer)

    def are_held(self) -> bool:
        """Whether the treatment is known to begin requests as it did before."""
        repeated = [answers for answers in self.own.values() if len(answers) > 1]
        return len(repeated) >= LEAST_REPEATED and _alike(repeated) >= LEAST_ALIKE

    def are_ignored_by_the_control(
        self, known: Mapping[int, Collection[Output]], requests: Iterable[PlannedRequest]
    ) -> bool:
        """Whether the control is known to begin requests otherwise: there is no seed to hold then."""
        seeded = {request.number for request in requests if is_seeded(request)}
        answers = [known[number] for number in seeded & known.keys()]
        return len(answers) >= LEAST_REPEATED and _alike(answers) < LEAST_ALIKE


def _alike(repeated: Collection[Collection[Output]]) -> float:
    return sum(len(set(map(beginning, answers))) == 1 for answers in repeated) / len(repeated)
