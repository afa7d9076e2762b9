"""Prices of a request, of input, cached and output tokens: they add up, and stand in their order."""

import pytest

from assay.scenario.questions.resolving import resolve

SERVING = "llama3_8b_h200_serving"


def value(target: str, *assign: str, offer: str | None = None) -> float:
    answer = resolve(target, preset=SERVING, assign=assign, offer=offer, intervals=False)
    assert answer.resolution.value is not None
    return answer.resolution.value


@pytest.mark.parametrize(("prompt", "output"), [(128, 1024), (1024, 256), (8192, 16), (1, 1)])
@pytest.mark.parametrize("offer", [None, "runpod"])
def test_input_and_output_tokens_add_up_to_the_request(
    prompt: int, output: int, offer: str | None
) -> None:
    given = (f"serving.prompt={prompt} token", f"serving.output={output} token")
    request, asked, generated, cached = (
        value(f"econ.cost.{name}", *given, offer=offer)
        for name in ("per_request", "per_input_token", "per_generated_token", "per_cached_token")
    )
    assert prompt * asked + output * generated == pytest.approx(request)
    assert request == pytest.approx(
        output * value("econ.cost.per_output_token", *given, offer=offer)
    )
    assert 0 < cached <= asked * (1 + 1e-9) or prompt == 1
    assert 0 < asked < generated


def test_an_input_token_costs_its_prefill() -> None:
    """One H200 at 4.59 USD an hour and a load of one half that prefills only: 2.55e-3 USD a second
    over its prompt throughput; mixed with decoding it costs no more."""
    alone = 2 * 4.59 / 3600 / value("serving.prompt_throughput")
    asked = value("econ.cost.per_input_token", offer="runpod")
    assert 0.4 * alone < asked < 1.5 * alone


def test_a_cached_token_costs_its_way_over_the_network() -> None:
    """32 layers of 8 heads of 128 elements, keys and values in 16 bits: 131,072 bytes at 50 GB/s."""
    rate = 2 * 4.59 / 3600
    least = rate * 131_072 / 50e9
    assert least <= value("econ.cost.per_cached_token", offer="runpod") <= 2 * least
