"""The context that a trace does not state, from a prediction whose times are a formula."""

import pytest

from assay.diagnose.step_predictions import infer
from assay.planner.graph import Graph, Node


def predicted(tokens: int) -> Graph:
    """Attention takes 100 us and 2 ns a token, with an interval of 20 %."""
    took = 100_000 + 2.0 * tokens
    node = Node(
        "attention", "attention", 0, "decode", 0, 0, 0, 0, took, 0.8 * took, 1.2 * took, "memory",
        0, (), (),
    )  # fmt: skip
    return Graph((node,), {}, "m", "g", "vllm", {})


@pytest.mark.parametrize("tokens", [300, 5_000, 40_000, 200_000])
def test_the_length_is_found_again(tokens: int) -> None:
    found = infer(100_000 + 2.0 * tokens, predicted)
    assert found is not None
    assert found.tokens == pytest.approx(tokens, rel=0.01)
    assert found.lo <= found.tokens <= found.hi


def test_the_range_is_where_the_interval_holds_the_time() -> None:
    found = infer(150_000.0, predicted)
    assert found is not None
    assert found.lo == pytest.approx((150_000 / 1.2 - 100_000) / 2, rel=0.05)
    assert found.hi == pytest.approx((150_000 / 0.8 - 100_000) / 2, rel=0.05)


def test_less_than_the_shortest_is_one_token() -> None:
    found = infer(90_000.0, predicted)
    assert found is not None
    assert (found.tokens, found.lo) == (1, 1)


def test_a_model_without_attention_says_nothing() -> None:
    assert infer(1e5, lambda tokens: Graph((), {}, "m", "g", "vllm", {})) is None
