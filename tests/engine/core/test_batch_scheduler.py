"""The batch scheduler over a real block manager, with a model that is a hash of the tokens."""

import pytest
from hypothesis import given, settings, strategies as st

from assay._native import BlockManager
from assay.engine.core.batch_scheduler import POLICIES, BatchScheduler
from assay.engine.requests.output_text import OutputText
from assay.engine.requests.request import Request
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.speculation.ngram import NgramProposer


def request(number, prompt, tokens, *, priority=0):
    return Request(
        request_id=f"r{number}",
        tokens=list(prompt),
        num_prompt_tokens=len(prompt),
        params=SamplingParams(max_tokens=tokens),
        seed=0,
        priority=priority,
        arrival_order=number,
        max_total_tokens=len(prompt) + tokens,
        stop_token_ids=frozenset(),
        text=OutputText(),
        arrival_time=0.0,
    )


def next_token(tokens):
    """A model: the next token depends on everything before it."""
    return hash(tuple(tokens)) % 3


def step(scheduler):
    """Run one step as the engine does, and return its scheduled sequences."""
    scheduled = scheduler.schedule()
    assert sum(one.num_scheduled_tokens for one in scheduled) <= scheduler.token_budget
    assert len(scheduled) <= scheduler.max_batch
    assert len({one.request.request_id for one in scheduled}) == len(scheduled)
    for sequence in scheduled:
        item, count = sequence.request, sequence.num_scheduled_tokens
        first, known = item.num_computed_tokens, len(item.tokens)
        ids = (item.tokens + item.draft_tokens)[first : first + count]
        assert len(ids) == count
        if sequence.num_samples == 0:
            assert first + count < known
        accepted = []
        for index in range(sequence.num_samples):
            token = next_token(item.tokens[:known] + accepted)
            accepted.append(token)
            if index < len(item.draft_tokens) and item.draft_tokens[index] != token:
                break
        computed = count - max(sequence.num_samples - len(accepted), 0)
        scheduler.block_manager.commit(item.sequence_id, ids[:computed])
        item.num_computed_tokens += computed
        item.draft_tokens = []
        item.tokens += accepted
        if len(item.tokens) >= item.max_total_tokens:
            scheduler.remove(item)
    scheduler.block_manager.verify()
    return scheduled


def alone(prompt, tokens):
    """The tokens of a request that runs alone."""
    output = list(prompt)
    for _ in range(tokens):
        output.append(next_token(output))
    return output


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=20),
            st.integers(1, 12),
            st.integers(-1, 1),
            st.integers(0, 4),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(POLICIES),
    st.integers(1, 4),
    st.integers(4, 12),
    st.integers(0, 3),
    st.integers(9, 20),
)
def test_batched_requests_have_the_outputs_of_single_requests(
    plans, policy, max_batch, budget, depth, blocks
):
    block_manager = BlockManager(blocks, 4)
    scheduler = BatchScheduler(
        block_manager,
        max_batch=max_batch,
        token_budget=budget,
        policy=policy,
        speculation_depth=depth,
        proposer=NgramProposer() if depth else None,
    )
    coming = []
    for number, (prompt, tokens, priority, wait) in enumerate(plans):
        item = request(number, prompt, tokens, priority=priority)
        coming.append((wait, item))
    items = [item for _, item in coming]
    for steps in range(1000):
        for wait, item in [pair for pair in coming if pair[0] <= steps]:
            scheduler.add(item)
            coming.remove((wait, item))
        scheduled = step(scheduler)
        if not scheduler.waiting and not scheduler.running and not coming:
            break
        assert scheduled or coming, "a request waits and nothing is scheduled"
    for item, (prompt, tokens, _, _) in zip(items, plans, strict=True):
        assert item.tokens == alone(prompt, tokens)
    assert block_manager.statistics()["used"] == 0


def test_decode_continues_during_chunked_prefill():
    scheduler = BatchScheduler(
        BlockManager(64, 4), max_batch=4, token_budget=8, policy="fcfs", speculation_depth=0
    )
    decoding = request(0, [1, 2], 30)
    scheduler.add(decoding)
    step(scheduler)
    scheduler.add(request(1, [9] * 20, 5))
    counts = [
        [(one.request.arrival_order, one.num_scheduled_tokens) for one in step(scheduler)]
        for _ in range(4)
    ]
    assert counts == [[(0, 1), (1, 7)], [(0, 1), (1, 7)], [(0, 1), (1, 6)], [(0, 1), (1, 1)]]


def test_least_urgent_request_is_preempted():
    scheduler = BatchScheduler(
        BlockManager(6, 4), max_batch=4, token_budget=32, policy="priority", speculation_depth=0
    )
    urgent = request(1, [1] * 7, 12, priority=0)
    patient = request(0, [2] * 7, 12, priority=5)
    scheduler.add(patient)
    step(scheduler)
    scheduler.add(urgent)
    while urgent in scheduler.running or urgent in scheduler.waiting:
        step(scheduler)
    assert scheduler.num_preemptions > 0
    assert (urgent.num_preemptions, patient.num_preemptions > 0) == (0, True)
    while scheduler.running or scheduler.waiting:
        step(scheduler)
    assert patient.tokens == alone([2] * 7, 12)


@pytest.mark.parametrize(
    ("policy", "order"), [("fcfs", [0, 1, 2]), ("priority", [2, 0, 1]), ("shortest", [1, 2, 0])]
)
def test_policy_orders_waiting_requests(policy, order):
    scheduler = BatchScheduler(
        BlockManager(64, 4), max_batch=1, token_budget=32, policy="fcfs", speculation_depth=0
    )
    for item in (
        request(0, [1] * 9, 1, priority=1),
        request(1, [1] * 2, 1, priority=2),
        request(2, [1] * 5, 1, priority=0),
    ):
        scheduler.add(item)
    scheduler.policy = policy
    served = []
    while scheduler.waiting:
        served += [one.request.arrival_order for one in step(scheduler)]
    assert served == order
