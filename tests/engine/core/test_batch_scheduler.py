"""The batcher over the real books of a KV cache, with a model that only counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay._native import KvCache
from assay.engine.core.batch_scheduler import POLICIES, Batcher
from assay.engine.core.output_text import OutputText
from assay.engine.core.request import Request
from assay.engine.core.sampling_params import SamplingParams
from assay.engine.core.speculation import PromptLookup


def request(number, prompt, tokens, *, priority=0, speculates=False):
    return Request(
        request_id=f"r{number}",
        tokens=list(prompt),
        prompt_tokens=len(prompt),
        params=SamplingParams(max_tokens=tokens),
        seed=0,
        priority=priority,
        number=number,
        most_tokens=len(prompt) + tokens,
        end_tokens=frozenset(),
        text=OutputText(),
        arrived=0.0,
        lookup=PromptLookup(list(prompt)) if speculates else None,
    )


def next_token(tokens):
    """A model: the next token depends on everything before it."""
    return hash(tuple(tokens)) % 3


def step(batcher):
    """Run one step as the engine does, and return its turns."""
    turns = batcher.schedule()
    assert sum(turn.count for turn in turns) <= batcher.token_budget
    assert len(turns) <= batcher.max_batch
    assert len({turn.request.request_id for turn in turns}) == len(turns)
    for turn in turns:
        item = turn.request
        ids = (item.tokens + item.drafts)[item.computed : item.computed + turn.count]
        assert len(ids) == turn.count
        known = len(item.tokens)
        if turn.samples == 0:
            assert item.computed + turn.count < known
        taken = []
        for index in range(turn.samples):
            token = next_token(item.tokens[:known] + taken)
            taken.append(token)
            if index < len(item.drafts) and item.drafts[index] != token:
                break
        computed = turn.count - max(turn.samples - len(taken), 0)
        batcher.kv.commit(item.sequence, ids[:computed])
        item.computed += computed
        item.drafts = []
        item.tokens += taken
        if item.lookup is not None:
            item.lookup.extend(taken)
        if len(item.tokens) >= item.most_tokens:
            batcher.remove(item)
    batcher.kv.verify()
    return turns


def alone(prompt, tokens):
    """What a request says when nobody else is there."""
    said = list(prompt)
    for _ in range(tokens):
        said.append(next_token(said))
    return said


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
def test_every_request_says_what_it_says_alone(plans, policy, max_batch, budget, depth, blocks):
    kv = KvCache(blocks, 4)
    batcher = Batcher(
        kv, max_batch=max_batch, token_budget=budget, policy=policy, speculation=depth
    )
    coming = []
    for number, (prompt, tokens, priority, wait) in enumerate(plans):
        item = request(number, prompt, tokens, priority=priority, speculates=depth > 0)
        coming.append((wait, item))
    items = [item for _, item in coming]
    for steps in range(1000):
        for wait, item in [pair for pair in coming if pair[0] <= steps]:
            batcher.add(item)
            coming.remove((wait, item))
        turns = step(batcher)
        if not batcher.waiting and not batcher.running and not coming:
            break
        assert turns or coming, "someone waits and nothing happens"
    for item, (prompt, tokens, _, _) in zip(items, plans, strict=True):
        assert item.tokens == alone(prompt, tokens)
    assert kv.statistics()["used"] == 0


def test_decoding_goes_on_while_a_long_prompt_is_read_in_chunks():
    batcher = Batcher(KvCache(64, 4), max_batch=4, token_budget=8, policy="fcfs", speculation=0)
    talker = request(0, [1, 2], 30)
    batcher.add(talker)
    step(batcher)
    batcher.add(request(1, [9] * 20, 5))
    counts = [[(turn.request.number, turn.count) for turn in step(batcher)] for _ in range(4)]
    assert counts == [
        [(0, 1), (1, 7)],
        [(0, 1), (1, 7)],
        [(0, 1), (1, 6)],
        [(0, 1), (1, 1)],
    ]


def test_the_least_urgent_request_gives_its_blocks_up():
    batcher = Batcher(KvCache(6, 4), max_batch=4, token_budget=32, policy="priority", speculation=0)
    urgent = request(1, [1] * 7, 12, priority=0)
    patient = request(0, [2] * 7, 12, priority=5)
    batcher.add(patient)
    step(batcher)
    batcher.add(urgent)
    while urgent in batcher.running or urgent in batcher.waiting:
        step(batcher)
    assert batcher.preemptions > 0
    assert (urgent.preemptions, patient.preemptions > 0) == (0, True)
    while batcher.running or batcher.waiting:
        step(batcher)
    assert patient.tokens == alone([2] * 7, 12)


@pytest.mark.parametrize(
    ("policy", "order"),
    [("fcfs", [0, 1, 2]), ("priority", [2, 0, 1]), ("shortest", [1, 2, 0])],
)
def test_the_policy_orders_those_who_wait(policy, order):
    batcher = Batcher(KvCache(64, 4), max_batch=1, token_budget=32, policy="fcfs", speculation=0)
    for item in (
        request(0, [1] * 9, 1, priority=1),
        request(1, [1] * 2, 1, priority=2),
        request(2, [1] * 5, 1, priority=0),
    ):
        batcher.add(item)
    batcher.policy = policy
    served = []
    while batcher.waiting:
        served += [turn.request.number for turn in step(batcher)]
    assert served == order
