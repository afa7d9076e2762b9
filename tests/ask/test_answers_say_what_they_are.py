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
    # A busy GPU draws some 1.18 kW with its share of node and site, at 8.92 cents a kWh.
    assert outcome.number[0] == pytest.approx(100 * whole / (3 - 1.18 * 0.0892), rel=5e-3)
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


def test_gpus_of_a_power_are_by_draw_and_by_design_power() -> None:
    """8,996 W of a node at a PUE of 1.2 are 1.349 kW for each of 8: 741 in a megawatt."""
    outcome = answered("how many H100 fit in a 1 MW datacenter with PUE 1.2?")
    assert "by average draw" in outcome.text
    assert f"{int(1000 / (8.996 / 8 * 1.2)):,} by design power" in outcome.text


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


@pytest.mark.parametrize(
    "question",
    [
        "layers of Llama 3.1 405B",
        "active parameters of DeepSeek V3",
        "optimal checkpoint interval for 4096 H100",
        "TTFT of a 32k prompt for Llama 3.1 70B on 8 H100",
    ],
)
def test_a_figure_has_no_limits_of_what_it_does_not_depend_on(question: str) -> None:
    """405B do not fit on the scenario's one H200, and 1 s of TTFT is its limit: nobody asked."""
    assert answered(question).broken == []


def test_a_variable_says_what_it_is_computed_from() -> None:
    """HBM3 has 8,192 refresh commands in its window of 32 ms (JESD238): one in 3.9 us."""
    outcome = answered("DRAM refresh interval")
    assert outcome.number[0] == pytest.approx(32e3 / 8192, rel=1e-3)
    assert {"dram.refresh.commands 8192", "dram.refresh.window 32 ms"} <= set(outcome.assumed)


def test_words_of_several_variables_are_asked_back() -> None:
    answer = ask("threshold voltage")
    assert answer.outcome is None
    assert "which of these" in str(answer.problem)
    assert "transistor.threshold (" in str(answer.problem)
    assert "no scenario" in str(ask("gate delay").problem)


def test_the_power_of_a_node_is_its_draw_and_its_design_power() -> None:
    text = answered("power of a DGX H100").text
    assert "training: 8495 W/node; 8996 W/node with GPUs at their limit" in text
    # 9,552 W are no 10 kW.
    assert answered("power of an H100 node with 8 GPUs").text.startswith("9.5")


def test_hours_of_use_that_are_bought_draw_the_power_of_use() -> None:
    """1.18 kW of a busy GPU with its share of node and site, at 8.92 cents: 10.5 cents an hour."""
    outcome = answered("buy or rent 8 H100 for 3 years")
    (bought,) = (text for name, text in outcome.rows if name == "buy")
    hourly = float(bought.rpartition(" at ")[2].split()[0])
    assert hourly == pytest.approx(1.18 * 0.0892, rel=0.02)


def test_an_owned_gpu_is_written_off_over_the_time_that_is_asked_for() -> None:
    """64 x 27,500 USD at 8 %, a tenth left: 0.9 of an annuity of 0.38803 and 0.1 of 8 %, thrice."""
    outcome = answered("3-year TCO of 64 H100")
    parts = dict(outcome.rows)
    gpus = 64 * 27_500 * 3 * (0.9 * 0.38803 + 0.1 * 0.08)
    assert float(parts["the GPU"].split()[0].strip("$")) == pytest.approx(gpus / 1e6, rel=1e-3)
    assert any("over 3 years to 10% of their price" in line for line in outcome.assumed)


def test_more_memory_than_a_limit_is_listed() -> None:
    """As they are sold: an H100 of 80 GB has no more than 80, though 85.9e9 bytes."""
    names = answered("which GPUs have more than 140 GB of memory").text
    assert "h200_sxm" in names
    assert "h100_sxm" not in names
    assert "h200_sxm" not in answered("which GPUs have more than 141 GB of memory").text
    assert "h100_sxm" not in answered("which GPUs have more than 80 GB of memory").text
    assert "mi300x" in answered("which GPUs have more than 190 GB of memory").text
    assert ask("which GPUs have less than 40 GB of memory").outcome is None


def test_a_load_beyond_a_gpu_still_says_so() -> None:
    assert answered("cost per token of Llama 3.1 8B on an L4").broken != []
