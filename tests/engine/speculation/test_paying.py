"""Drafts where they pay, with a clock and acceptance that are given."""

import random
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
    # What loses little takes longer to be known.
    assert share > 0.9 if pays else share < (0.1 if cost > 1.1 else 0.2)


def test_text_that_changes_is_noticed() -> None:
    drafted = run(2000, lambda step: 0 if step < 1000 else 4, lambda _: 1.5)
    assert sum(drafted[100:1000]) < 90
    assert sum(drafted[1150:]) > 750


def test_steps_that_waited_for_a_prompt_do_not_decide() -> None:
    slow = lambda step: 50.0 if step % 17 == 3 else 1.0  # noqa: E731
    drafted = run(1000, lambda _: 3, lambda _: 1.5, noise=slow)
    assert sum(drafted[100:]) > 800


def total_time(policy: str, chance: float, cost: float, catch_up: float, seed: int) -> float:
    """Time of 2,000 tokens where each draft token is accepted by chance, as the ones before it were.

    A step with drafts after others takes `catch_up` longer for each of those; times vary, and some wait.
    """
    now, tokens, since, generator = 0.0, 0, 0, random.Random(seed)
    proposer = PayingProposer(Always(), lambda: now)
    while tokens < 2000:
        wanted = [DraftWanted(SimpleNamespace(draft_tokens=[]), DEPTH)]  # type: ignore[arg-type]
        has_drafts = any(proposer.propose(wanted)) if policy == "paying" else policy == "always"
        step = cost + catch_up * since if has_drafts else 1.0
        since = 0 if has_drafts else since + 1
        now += step * generator.lognormvariate(0, 0.2) * (8 if generator.random() < 0.02 else 1)
        count = 0
        while has_drafts and count < DEPTH and generator.random() < chance:
            count += 1
        if has_drafts:
            wanted[0].request.draft_tokens = [0] * DEPTH
            proposer.observe(wanted[0].request, [0] * count + [1] * (DEPTH + 1 - count))
        tokens += 1 + count
    return now


@pytest.mark.parametrize(
    ("chance", "cost", "catch_up", "most"),
    [
        (0.8, 1.4, 0.0, 1.03),
        (0.5, 1.3, 0.0, 1.03),
        # A draft model catches up on the tokens that came without it.
        (0.7, 2.0, 0.05, 1.03),
        (0.05, 1.4, 0.0, 1.05),
        (0.0, 2.5, 0.0, 1.05),
    ],
)
def test_little_is_lost_against_the_better_of_always_and_never(
    chance: float, cost: float, catch_up: float, most: float
) -> None:
    times = {
        policy: sum(total_time(policy, chance, cost, catch_up, seed) for seed in range(8))
        for policy in ("always", "never", "paying")
    }
    assert times["paying"] < most * min(times["always"], times["never"])


def test_drafts_that_come_now_and_then_are_judged() -> None:
    """A proposer of n-grams has nothing to propose in most steps."""
    now = 0.0

    class Sometimes(Always):
        calls = 0

        def propose(self, wanted: Sequence[DraftWanted]) -> list[list[int]]:
            self.calls += 1
            return super().propose(wanted) if self.calls % 2 else [[] for _ in wanted]

    proposer = PayingProposer(Sometimes(), lambda: now)
    drafted = 0
    for _ in range(500):
        wanted = [DraftWanted(SimpleNamespace(draft_tokens=[]), DEPTH)]  # type: ignore[arg-type]
        has_drafts = any(proposer.propose(wanted))
        drafted += has_drafts
        now += 2.0 if has_drafts else 1.0
        if has_drafts:
            wanted[0].request.draft_tokens = [0] * DEPTH
            proposer.observe(wanted[0].request, [1])
    assert drafted < 50
