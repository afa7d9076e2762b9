"""What stands beside an answer: the parts of an owned hour, whose limit is broken, which GPU is asked for."""

import pytest

from assay.asking.answering import ask
from assay.asking.outcome import Outcome
from assay.cli.app import run


def answered(question: str) -> Outcome:
    """The answer to a question that must have one."""
    answer = ask(question)
    assert answer.outcome is not None, str(answer.problem)
    return answer.outcome


def test_a_break_even_says_what_owning_is_made_of() -> None:
    """The parts sum up to the rate of owning, which over rent less electricity is the utilization."""
    outcome = answered("what is the break-even utilization of an H100 at $3/h?")
    parts = {name: float(text.split()[0].strip("$")) for name, text in outcome.rows}
    whole = parts.pop("whole, at full use")
    assert sum(parts.values()) == pytest.approx(whole, abs=0.01)
    # 27,500 USD at 8 % over 5 years with 10 % of residual value: 0.2334 a year of 8,766 h.
    assert parts["the GPU"] == pytest.approx(27_500 * 0.2334 / 8766, rel=1e-3)
    assert outcome.number[0] == pytest.approx(100 * whole / (3 - 0.0695), rel=5e-3)
    assert any("cluster of 1,024 GPUs" in line for line in outcome.assumed)


def test_one_gpu_each_where_one_is_too_small_takes_the_fewest() -> None:
    """141 GB of weights are more than an H100 has: articles are no number of GPUs, "one" is."""
    outcome = answered("is a B200 cheaper than an H100 for Llama 3.1 70B?")
    assert outcome.verdict == "yes"
    assert outcome.assumed[0].startswith("one of each is too small")
    assert "h100_sxm: 4 GPUs, the fewest that hold it and its requests" in outcome.assumed


def test_a_lone_answer_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "is one B200 cheaper than one H100 for Llama 3.1 70B?"]) == 2
    assert "no comparison: h100_sxm: llama-3.1-70b does not fit" in capsys.readouterr().err


def test_a_limit_that_does_not_hold_is_named_with_its_value_and_its_source() -> None:
    broken = answered("cost per million tokens of Llama 3.1 70B on 4 H100 with 256 users").broken
    (text,) = (line for line in broken if line.startswith("TPOT"))
    assert "serving.time_per_output_token is " in text
    assert "serving.slo.time_per_output_token is 50 ms" in text
    assert "the limit is the preset's, llama3_8b_h200_serving" in text


@pytest.mark.parametrize(
    "question",
    ["how many GPUs fit in a 1 MW datacenter with PUE 1.2?", "how many GPUs for a megawatt?"],
)
def test_a_power_without_a_gpu_asks_which(question: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert "how many of which GPU?" in str(answer.problem)


def test_gpus_of_a_power_are_by_draw_and_by_nameplate() -> None:
    """8,996 W of a node at a PUE of 1.2 are 1.349 kW for each of 8: 741 in a megawatt."""
    outcome = answered("how many H100 fit in a 1 MW datacenter with PUE 1.2?")
    assert "by average draw" in outcome.text
    assert f"{int(1000 / (8.996 / 8 * 1.2)):,} by nameplate" in outcome.text


def test_a_ridge_point_is_that_of_its_format() -> None:
    outcome = answered("ridge point of H100 in FP8")
    assert outcome.number[0] == pytest.approx(2 * 989.4 / 3.35, rel=1e-3)


def test_weights_of_eight_bits_say_what_stays_in_sixteen() -> None:
    """Llama 3.1 70B: 128,256 x 8,192 of embedding and as many of the head, 2 bytes each."""
    outcome = answered("FP8 weights of Llama 3.1 70B")
    assert outcome.number[0] == pytest.approx((70.55e9 + 2 * 128_256 * 8192) / 1e9, rel=2e-3)
    assert any("embedding and output projection in 16 bits" in line for line in outcome.assumed)
    assert not any("16 bits" in line for line in answered("weights of Llama 3.1 70B").assumed)


def test_numbers_have_their_thousands_apart() -> None:
    assert "$27,500" in answered("how much does an H100 cost to buy?").text
    assert "13,020,000,000" in answered("parameters of llama 2 13b").text


def test_one_gpu_has_no_notes_on_collectives() -> None:
    """An L40S borrows the constants of collectives, which one GPU has none of and two have."""
    one, two = (
        ask(f"throughput of Llama 3.1 8B on {gpus}") for gpus in ("one L40S", "2 L40S with TP 2")
    )
    assert not any("collectives" in note or "training: " in note for note in one.notes)
    assert any("collectives" in note for note in two.notes)


def test_a_price_and_what_it_is_made_of_have_the_same_digits() -> None:
    """A million tokens at $0.81 per million tokens are $0.81, not $0.8096."""
    text = answered("cost per million tokens of Llama 3.1 70B on 4 H100 with 256 users").text
    whole, _, rest = text.partition(": ")
    assert rest.endswith(f"at {whole} per million tokens")


@pytest.mark.parametrize(
    "question",
    [
        "memory bandwidth of an L4",
        "peak FLOPs of an L4",
        "FLOPs per dollar of an L4",
        "price of an L4",
    ],
)
def test_a_figure_of_a_gpu_has_no_limits_of_a_load(question: str) -> None:
    """The scenario around it serves 64 users, which an L4 cannot: no matter for its memory."""
    assert answered(question).broken == []


def test_a_load_beyond_a_gpu_still_says_so() -> None:
    assert answered("cost per token of Llama 3.1 8B on an L4").broken != []
