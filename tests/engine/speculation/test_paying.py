"""Drafts where they pay, with a clock and acceptance that are given."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from assay.engine.speculation.paying import PayingProposer
from assay.engine.speculation.proposer import DraftWanted

DEPTH = 4


class Always:
    """Drafts zeros for everybody."""

    degradations: Sequence[str] = ()

    def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
        return [[0] * DEPTH for _ in wanted]

    def observe(self, *_: Any) -> None: ...

    def release(self, *_: Any) -> None: ...

    def close(self) -> None: ...


def run(
    steps: int,
    accepted: Callable[[int], int],
    cost: Callable[[int], float],
    requests: int = 2,
    noise: Callable[[int], float] = lambda step: 1.0,
) -> list[bool]:
    """Which of the steps had drafts, where one with drafts takes `cost` times as long."""
    now = 0.0
    proposer = PayingProposer(Always(), lambda: now)
    drafted = []
    for step in range(steps):
        wanted = [DraftWanted(SimpleNamespace(draft_tokens=[]), DEPTH) for _ in range(requests)]  # type: ignore[arg-type]
        drafts = proposer.propose(wanted)
        drafted.append(any(drafts))
        now += noise(step) * (cost(step) if any(drafts) else 1.0)
        if any(drafts):
            for (request, _), draft in zip(wanted, drafts, strict=True):
                request.draft_tokens = draft
                count = accepted(step)
                proposer.observe(request, [0] * count + [1] * (DEPTH + 1 - count))
    return drafted


@pytest.mark.parametrize("requests", [1, 2, 9])
@pytest.mark.parametrize(
    ("accepted", "cost", "pays"),
    [(3, 1.5, True), (1, 1.3, True), (0, 1.05, False), (1, 2.5, False), (4, 6.0, False)],
)
def test_drafts_follow_what_pays(accepted: int, cost: float, pays: bool, requests: int) -> None:
    drafted = run(1000, lambda _: accepted, lambda _: cost, requests)
    share = sum(drafted[100:]) / 900
    assert share > 0.9 if pays else share < 0.1


def test_text_that_changes_is_noticed() -> None:
    drafted = run(2000, lambda step: 0 if step < 1000 else 4, lambda _: 1.5)
    assert sum(drafted[100:1000]) < 90
    assert sum(drafted[1150:]) > 750


def test_steps_that_waited_for_a_prompt_do_not_decide() -> None:
    slow = lambda step: 50.0 if step % 17 == 3 else 1.0  # noqa: E731
    drafted = run(1000, lambda _: 3, lambda _: 1.5, noise=slow)
    assert sum(drafted[100:]) > 800
