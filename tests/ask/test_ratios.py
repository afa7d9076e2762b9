"""One figure by another: "FLOPs per dollar" is computed by its dollar, or refused; never without it.

Oracles are the catalog's figures of an H100 and a B200, divided by hand.
"""

import pytest

from assay.asking.answering import ask
from assay.cli.app import run

H100 = {
    "FLOPs": 989.4,
    "memory": 85.899,
    "memory bandwidth": 3.35,
    "power": 700.0,
    "price": 27_500.0,
}
"""TFLOP/s of 16 bits (NVIDIA), 80 GiB in GB, TB/s, W of board power, USD (Raymond James, 2023)."""
BY = {"dollar": 27.5, "watt": 700.0, "GB": 85.899, "TFLOP": 989.4}
"""Of the same GPU: thousands of dollars, watts, GB, TFLOP/s."""
SAME = {("memory", "GB"), ("power", "watt"), ("price", "dollar"), ("FLOPs", "TFLOP")}
WORDS = (
    "per dollar",
    "per watt",
    "per GB",
    "per TFLOP",
    "per USD",
    "for each dollar",
    "a dollar",
    "/GB",
    "/watt",
)
OTHERS = (
    "an hour", "per hour", "per token", "per request", "per user", "per joule", "per kWh", "per byte",
    "per mm2", "per month", "per gram", "per core", "per second per dollar", "per dollar per watt",
    "per euro", "per $1000",
)  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("figure", list(H100))
def test_a_figure_by_another_is_their_ratio_or_refused(figure: str, words: str) -> None:
    answer = ask(f"{figure} {words} of an H100")
    by = next(name for name in BY if name in words.replace("USD", "dollar"))
    if (figure, by) in SAME:
        assert answer.outcome is None
        return
    assert answer.outcome is not None, str(answer.problem)
    assert answer.outcome.number[0] == pytest.approx(H100[figure] / BY[by], rel=2e-3)
    assert len(answer.outcome.lines) == 2


@pytest.mark.parametrize(
    ("question", "value"),
    [
        # NVIDIA: 1,979 dense TOPS of an H100 and 733 of an L40S; 864 GB/s and 350 W of the L40S.
        ("INT8 TOPS per dollar of an H100", 1979 / 27.5),
        ("TOPS per dollar of an H100", 1979 / 27.5),
        ("INT8 TOPS per watt of an H100", 1979 / 700),
        ("GB/s per watt of an L40S", 0.864 / 350),
        ("GB/s per dollar of an H100", 3.35 / 27.5),
        ("$/GB of HBM of an H100", 27_500 / 85.899),
    ],
)
def test_figures_in_the_words_of_a_buyer(question: str, value: float) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.number[0] == pytest.approx(value, rel=2e-3)
    assert ("TOP/s" in outcome.text) == ("TOPS" in question)


def test_operations_on_integers_are_not_compared_in_those_of_floating_point() -> None:
    """An L40S of 8,500 USD has more for a dollar than an H100 of 27,500."""
    outcome = ask("INT8 TOPS per dollar: H100 or L40S?").outcome
    assert outcome is not None
    assert outcome.choice == "l40s"
    assert outcome.ratio == pytest.approx(733 / 8.5 / (1979 / 27.5), rel=0.03)


def test_tokens_by_power_compare_as_the_energy_that_is_lower() -> None:
    text = ask("tokens per watt of Llama 3.1 8B on H100 vs L40S").headline()
    assert text.startswith("h100_sxm, lower by")
    assert "J/token at the meter, that is" in text


@pytest.mark.parametrize("words", OTHERS)
@pytest.mark.parametrize(
    "figure", ["FLOPs", "memory", "memory bandwidth", "power", "L2 cache size"]
)
def test_what_a_figure_is_not_divided_by_is_refused(figure: str, words: str) -> None:
    if (figure, words) == ("FLOPs", "per byte"):
        # The ridge point: 989.4e12 over 3.35e12.
        outcome = ask("FLOPs per byte of an H100").outcome
        assert outcome is not None
        assert outcome.number[0] == pytest.approx(295.3, rel=1e-3)
        return
    if (figure, words) == ("memory", "per request"):
        # The KV cache of one is a figure of its own.
        assert "request" in str(ask("memory per request of an H100").headline())
        return
    for question in (f"{figure} {words} of an H100", f"{figure} {words}: H100 or B200?"):
        answer = ask(question)
        assert answer.outcome is None, (question, answer.outcome and answer.outcome.text)
        assert answer.problem is not None
        assert answer.problem.exit_code == 2


SERVED = (
    "throughput",
    "TTFT",
    "TPOT",
    "weights",
    "KV cache",
    "users",
    "requests per second",
    "latency",
    "energy",
)
COMPUTED = {
    ("TPOT", "per token"), ("KV cache", "per token"), ("energy", "per token"), ("TTFT", "per request"),
    ("latency", "per token"), ("latency", "per request"), ("energy", "per request"), ("KV cache", "per request"),
}  # fmt: skip


@pytest.mark.parametrize(
    "words", ["per dollar", "per watt", "per GB", "per token", "per request", "per byte"]
)
@pytest.mark.parametrize("figure", SERVED)
def test_figures_of_serving_are_not_divided_by_what_they_drop(figure: str, words: str) -> None:
    """Tokens per second by watt are those of a joule, by dollar those of a dollar; all others are refused."""
    if (figure, words) in COMPUTED:
        return
    answer = ask(f"{figure} {words} of Llama 3.1 8B on one H200")
    if answer.outcome is not None:
        assert (figure, words) in {("throughput", "per watt"), ("throughput", "per dollar")}
        assert "tokens/J" in answer.outcome.text or "tokens per dollar" in answer.outcome.text


@pytest.mark.parametrize(
    ("question", "choice", "ratio"),
    [
        # 2250 / 37.5 over 989.4 / 27.5.
        ("FLOPs per dollar of H100 and B200", "b200_sxm", 1.668),
        # 150.75 / 31 over 85.9 / 27.5: the catalog assumes the price of an H200.
        ("memory per dollar of H100 and H200", "h200_sxm", 1.557),
        ("which GPU has more memory bandwidth per dollar, H100 or H200?", "h200_sxm", 1.271),
        ("price per GB of memory of H100 and H200", "h200_sxm", 1.557),
        ("which is cheaper per GB of memory, H100 or H200?", "h200_sxm", 1.557),
    ],
)
def test_ratios_are_compared(question: str, choice: str, ratio: float) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.choice == choice
    assert outcome.ratio == pytest.approx(ratio, rel=2e-3)
    assert any("27500 USD" in line and "Raymond James" in line for line in outcome.assumed)


def test_formats_and_rents_are_used() -> None:
    """FP8 has twice the rate; a dollar of rent is one of the usual offer, 3.29 USD/h."""
    fp8 = ask("FP8 FLOPs per dollar of an H100").outcome
    assert fp8 is not None
    assert fp8.number[0] == pytest.approx(2 * 989.4 / 27.5, rel=1e-3)
    rented = ask("FLOPs per dollar per hour of a rented H100").outcome
    assert rented is not None
    assert rented.number[0] == pytest.approx(989.4 / 3.29, rel=1e-3)
    assert any("runpod" in line for line in rented.assumed)


def test_tokens_of_a_dollar_are_the_inverse_of_their_cost() -> None:
    # The one is in USD/token.
    cost = ask("cost per million tokens of Llama 3.1 8B on an H100 at $2/h").outcome
    tokens = ask("how many tokens per dollar of Llama 3.1 8B on an H100 at $2/h").outcome
    assert cost is not None
    assert tokens is not None
    assert (tokens.number[0] or 0) * (cost.number[0] or 0) == pytest.approx(1.0, rel=1e-2)


def test_the_most_of_all_is_by_the_figure_asked_for() -> None:
    """104.8 TFLOP/s over 1,999 USD of an RTX 5090 are more than 989.4 over 27,500 of an H100."""
    for question in (
        "which GPU has the most FLOPs per dollar",
        "which GPU has the most FLOPs for the money",
        "which GPU gives the most FLOPs for each dollar",
    ):
        outcome = ask(question).outcome
        assert outcome is not None, question
        assert outcome.choice == "rtx_5090"
    cheapest = ask("which GPU is cheapest per GB of memory").outcome
    assert cheapest is not None
    assert "per GB" in cheapest.text


def test_a_price_that_the_catalog_lacks_is_one_clear_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["ask", "FLOPs per dollar of H100 and trainium1"]) == 2
    captured = capsys.readouterr()
    assert "the catalog has no price of trainium1" in captured.err
    assert "2.27" not in captured.out
