"""Users beyond what one instance serves in time are divided among replicas."""

from __future__ import annotations

import pytest

from assay.asking.answering import ask

BATCH = 256
"""Requests that an instance of the scenario runs at once: one more waits, and its first token with it."""


def test_the_cost_for_many_users_is_that_of_replicas_in_time() -> None:
    """1,000 users are four times 250 and no more than 256: the limits hold, and four GPUs are paid for."""
    outcome = ask("cost to serve 1000 users with llama 3.1 8b on h100").outcome
    assert outcome is not None
    assert not outcome.broken
    replicas = -(-1000 // BATCH)
    assert f"{replicas} x h100_sxm for all users" in outcome.text
    assert any("4 replicas of 1 GPU, each with 250" in line for line in outcome.assumed)
    assert "--set 'serving.concurrency=250 request'" in outcome.lines[0]


def test_users_that_one_instance_serves_stay_with_it() -> None:
    outcome = ask("cost to serve 64 users with llama 3.1 8b on h100").outcome
    assert outcome is not None
    assert "replica" not in "; ".join(outcome.assumed)
    assert "for all users" not in outcome.text


def test_gpus_that_the_question_states_are_not_changed() -> None:
    outcome = ask("cost to serve 1000 users with llama 3.1 8b on one h100").outcome
    assert outcome is not None
    assert any("TTFT" in line for line in outcome.broken)


@pytest.mark.parametrize(("users", "replicas"), [(500, 2), (700, 3)])
def test_a_month_of_users_pays_for_the_replicas(users: int, replicas: int) -> None:
    """720 h at $2.5 for each: 500 users are twice 250, 700 are three times 234."""
    outcome = ask(
        f"cost to serve llama 3.1 8b to {users} users for a month on H100 at $2.5/h"
    ).outcome
    assert outcome is not None
    assert outcome.value == pytest.approx(replicas * 720 * 2.5)


def test_gpus_by_memory_say_how_many_are_in_time() -> None:
    outcome = ask("how many H100 to serve 1000 users with llama 3.1 8b").outcome
    assert outcome is not None
    assert outcome.value == 3
    assert any("4 where TTFT" in line for line in outcome.assumed)
