"""Whose price an hourly price is, as a stranger said it; expected figures by hand."""

import re

import pytest

from assay.asking.answering import ask
from assay.catalog import offers

HOURLY = [
    ("what does it cost to rent 8 H100s for 10 days at $16/hour for the node", 16 * 240),
    ("how much does a DGX H100 at $25/hour cost per week", 25 * 168),
    ("what do 16 H100s at $30/h for the whole cluster cost for a week", 30 * 168),
    ("8xH100 box at $18/hr, cost for 2 weeks", 18 * 336),
    ("what does it cost to rent 8 H100s for 10 days at $2/hour", 8 * 2 * 240),
    ("what does it cost to rent 8 H100s for 10 days at $2 per GPU-hour", 8 * 2 * 240),
    ("what does it cost to rent a cluster of 64 H100s at $2/h for 10 days", 64 * 2 * 240),
    ("what do all 8 H100s at $2/h each cost for a week", 8 * 2 * 168),
]


@pytest.mark.parametrize(("question", "dollars"), HOURLY)
def test_a_price_is_of_what_the_question_says(question: str, dollars: float) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    value, unit = outcome.number
    assert value == pytest.approx(dollars)
    assert unit == "USD"


@pytest.mark.parametrize(
    ("question", "per_gpu"),
    [
        ("cost of llama 3.1 70b per million tokens if my 4 H100s cost $8 per hour in total", 2.0),
        ("my server with 4 A100s costs $5 per hour, cost per million tokens of llama 3.1 70b", 1.25),
        ("train llama 3.1 8b on 1T tokens with 64 H100 at $150 per hour total, what does it cost", 150 / 64),
    ],
)  # fmt: skip
def test_a_price_of_all_is_shared_among_them(question: str, per_gpu: float) -> None:
    answer = ask(question)
    assert answer.outcome is not None
    assert any(f"${per_gpu:.4g} per GPU-hour" in line for line in answer.outcome.assumed)


def test_a_price_that_no_gpu_has_is_asked_back() -> None:
    answer = ask("cost per million tokens of llama 3.1 70b on 8x H100 at $98.32 per hour on AWS")
    assert answer.outcome is None
    assert "for each of 8 GPUs, or for all of them?" in str(answer.problem)


@pytest.mark.parametrize(
    "question", ["how fast is llama 3.1 70b on an H100", "how fast is llama 3.1 405b on a 3090"]
)
def test_an_article_is_a_count_of_one(question: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert "does not fit on 1 x" in str(answer.problem)


def test_articles_of_both_sides_compare_one_with_one() -> None:
    outcome = ask("is a 4090 faster than a 3090 for llama 3.1 8b").outcome
    assert outcome is not None
    assert all("serving.tensor=1" in line for line in outcome.lines)


def test_no_gpus_at_all_are_refused() -> None:
    assert ask("does llama 3.1 8b fit on 0 H100s").outcome is None


def test_a_limit_of_a_price_is_no_price() -> None:
    answer = ask("cost per million tokens of llama 3.1 8b on one H100 for at most $2 an hour")
    assert answer.outcome is None
    assert answer.problem is not None
    assert "a limit of a price, not a price" in answer.problem.message


def test_a_limit_of_a_price_leaves_out_what_costs_more() -> None:
    answer = ask("which GPU below $3 per hour is cheapest for llama 3.1 8b?")
    assert answer.outcome is not None
    rents = {
        name: offers.usual(name) for name in ("l4", "l40s", "a100_sxm", "h100_sxm", "b200_sxm")
    }
    within = {name for name, offer in rents.items() if offer and offer.usd_per_hour <= 3}
    assert within == {"l4", "l40s", "a100_sxm"}
    texts = dict(answer.outcome.rows)
    assert {name for name in rents if "beyond the limit" not in texts[name]} == within
    assert answer.outcome.choice in within


def test_a_limit_of_a_deployment_counts_all_of_its_gpus() -> None:
    answer = ask("Cheapest way to serve llama 3.1 70b under $5 per hour")
    assert answer.outcome is not None
    # 2 x 1.59 USD are within it, on which fewer requests run; 4 x 1.59 are not.
    assert any(
        "a100_sxm: one instance over all of them: 2 tensor" in line
        for line in answer.outcome.assumed
    )


def test_terms_are_compared_at_one_provider() -> None:
    answer = ask("how much cheaper are spot H100s than on-demand ones")
    assert answer.outcome is not None
    commands = " ".join(command.line for command in answer.outcome.commands)
    providers = {text.partition(":")[0] for text in re.findall(r"--offer (\S+)", commands)}
    assert len(providers) == 1
