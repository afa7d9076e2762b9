"""`assay ask` on questions whose answers were written down before it was: right, or refused."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from assay.asking.answering import ask
from assay.cli.app import run
from assay.errors import InputError

from .judging import QUESTIONS, judge

ESTIMATED = (
    "duration", "gpus", "train-cost", "gpu-hours", "emissions", "energy", "mfu",
    "training-throughput",
)  # fmt: skip
"""Intents that search for a layout, which takes longer."""
QUICK = (
    "fit", "users", "memory", "weights", "kv", "longest-context", "limit", "rent", "gpu-price",
    "power", "electricity", "electricity-bill", "loading", "checkpoint", "train-memory", "failures",
    "layers", "variable", "bandwidth", "peak", "board-power", "capacity-of-memory", "train-flops",
)  # fmt: skip
LEAST_RIGHT = 0.9


def score(rows: Iterable[dict[str, Any]]) -> tuple[Counter[str], list[str]]:
    """How many are right, partly right, refused and wrong; and the wrong ones."""
    counts: Counter[str] = Counter()
    wrong = []
    for row in rows:
        answer = ask(row["question"])
        verdict = judge(row, answer)
        counts[verdict] += 1
        if verdict in ("wrong", "partly"):
            said = answer.outcome.text if answer.outcome else str(answer.problem)
            wrong.append(f"{row['question']}: {said}; expected {row['expect']}")
    return counts, wrong


def test_there_are_sixty_questions_of_our_own_and_each_has_an_oracle() -> None:
    parts = Counter(row["part"] for row in QUESTIONS)
    assert parts["own"] >= 60
    assert parts["further"] >= 60
    assert parts["plain"] >= 80
    assert parts["B wrong"] >= 25
    assert all(row["oracle"] and row["expect"] for row in QUESTIONS)


def test_questions_of_strangers_are_answered_right_or_refused() -> None:
    rows = [row for row in QUESTIONS if row["part"] == "B wrong" and row["intent"] not in ESTIMATED]
    counts, wrong = score(rows)
    print(dict(counts))
    assert wrong == []
    assert counts["right"] >= LEAST_RIGHT * counts.total()


def test_questions_as_people_type_them_are_answered_right() -> None:
    """Those that no layout is searched for; `-m slow` asks all of them."""
    rows = [row for row in QUESTIONS if row["part"] == "plain" and row["intent"] in QUICK]
    counts, wrong = score(rows)
    assert wrong == []
    assert counts["right"] >= LEAST_RIGHT * counts.total()
    assert counts.total() >= 40


def test_answers_that_a_stranger_found_wrong_are_right() -> None:
    """Some of each kind; `-m slow` asks all of them."""
    counts, wrong = score(row for row in QUESTIONS if row.get("quick"))
    assert wrong == []
    assert counts["right"] == counts.total() >= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "B",
        "own",
        "further",
        "plain",
        "stranger",
        "words",
        "persona",
        "fresh",
        "second",
        "buyer",
        "collective",
    ],
)
def test_all_questions_are_answered_right_or_refused(part: str) -> None:
    counts, wrong = score(row for row in QUESTIONS if row["part"].startswith(part))
    print(part, dict(counts))
    assert wrong == []
    assert counts["right"] >= LEAST_RIGHT * counts.total()


def test_traps_are_refused() -> None:
    """Negations, ranges, choices among nothing, places and names that do not exist."""
    rows = [row for row in QUESTIONS if row["part"] == "further" and "refused" in row["expect"]]
    counts, wrong = score(rows)
    assert wrong == []
    assert counts["right"] == len(rows) >= 13


COMMANDS = (
    "Does Llama 405B fit on 8 H100?",
    "What is the TTFT with a 32k prompt?",
    "KV cache per token for Llama 3.1 8B",
    "Cost per million tokens if I pay $2/h per H100 for Llama 3.1 8B",
    "int4 vs bf16 tok/s for a single user, Llama 3.1 8B on RTX 4090",
    "MTBF of a 1,024 GPU H100 job",
    "What is the break-even utilization?",
    "what does a B200 cost per hour on AWS",
)


@pytest.mark.parametrize("question", COMMANDS)
def test_the_printed_command_gives_the_same_number(
    question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ask(question)
    assert answer.outcome is not None
    assert str(number_of(answer.outcome.lines[-1], capsys)) in _figures(answer.outcome)


def number_of(line: str, capsys: pytest.CaptureFixture[str]) -> float:
    """The figure that a command line prints as JSON."""
    import json

    program, *words = shlex.split(line)
    assert program == "assay"
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    return float(data["value"] if "value" in data else data["unknowns"][0]["value"])


def _figures(outcome: Any) -> list[str]:
    """The figures behind an answer: its own, and those of what it was compared with."""
    return [str(command.run().value) for command in outcome.commands or (outcome.result.command,)]


def test_a_refusal_names_the_words_and_the_nearest_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["ask", "what does Lama 70b cost per token on an H10O?"]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("nearest assay resolve econ.cost.per_output_token")
    assert 'not understood: "lama", "h10o"' in captured.err
    assert "did you mean llama-3.1-70b" in captured.err
    assert "did you mean h100_sxm?" in captured.err


def test_the_command_is_printed_before_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "does", "llama", "405b", "fit", "on", "8", "h100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("$ assay resolve serving.kv.max_concurrency --preset")
    assert lines[2].startswith("no: llama-3.1-405b does not fit on 8 x h100_sxm")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("TTFT of Llama 3.1 8B on H200 with 37 bananas", ["37", "bananas"]),
        ("Does Llama 3.1 8B fit on an H100 in Japan?", ["japan"]),
        ("How fast is Llama 3.1 8B on an H100 at 10 req/s with 3 wizards?", ["3", "wizards"]),
        ("Does Llama 3.1 8B fit on one H100 for $3/h?", ["$3/h"]),
        ("how much does a DGX H100 cost in Japan", ["dgx h100"]),
        ("what fraction of the cost is electricity?", ["fraction", "electricity"]),
        ("What is the cheapest AMD GPU for Llama 3.1 8B?", ["amd"]),
        ("Which GPU is the most expensive for Llama 3.1 8B?", ["most expensive"]),
        ("When will H100s get cheaper?", ["when"]),
        ("is the H100 good", ["good"]),
        ("Is Llama 3.1 8B faster on H100?", ["faster"]),
        ("How much does Llama 3.1 8B cost on H100 under $1?", ["under $1"]),
        ("How long do 1000 requests take on Llama 3.1 8B on H100?", ["1000 requests"]),
        ("Cost per token of training Llama 3.1 8B per GPU on 1T tokens, 64 H100", ["per gpu"]),
    ],
)
def test_a_name_or_number_that_is_not_used_is_refused(question: str, words: list[str]) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert set(words) <= set(answer.unknown)
    assert answer.problem is not None
    assert answer.problem.exit_code == 2


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (
            "how long, how much and what power to train an 8B on 1T tokens with 64 H100?",
            "more than one question",
        ),
        ("How many kWh does it take to train GPT-3?", "how many tokens"),
        ("What limits training of Llama 3.1 70B on 64 H100?", "not understood"),
        ("what tensor size does the scenario have", "not understood"),
    ],
)
def test_what_a_question_leaves_open_is_not_guessed(question: str, reason: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert reason in str(answer.problem)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (
            "TTFT of Llama 3.1 8B on H200 with an 8k prompt and 32k context",
            "a prompt and a context",
        ),
        ("throughput of Llama 3.1 70B with TP 4 on 8 H100", "replicas or pipeline stages"),
        ("what if electricity doubles: H100 or B200?", "a change and a comparison"),
        ("How many GPUs for 1000 users and 2 requests per minute of Llama 3.1 8B?", "say whose"),
        ("How many GPU-hours did Llama 3 70B take?", "how many tokens"),
        ("price per million input tokens and output tokens of Llama 8B", "more than one question"),
    ],
)
def test_values_that_may_mean_two_things_are_asked_back(question: str, reason: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert answer.problem is not None
    assert reason in f"{answer.problem} {answer.problem.hint}"


def test_a_question_longer_than_is_read_is_refused() -> None:
    with pytest.raises(InputError, match="at most 400 characters"):
        ask("TTFT of Llama 3.1 8B on H200 " + "please " * 60)


@pytest.mark.parametrize(
    ("question", "choice"),
    [
        ("which is slower for llama 3.1 8b, H200 or A100?", "a100_sxm"),
        ("which has higher throughput for llama 3.1 8b, H200 or A100?", "h200_sxm"),
        ("Is a B200 or an H100 more expensive per hour?", "b200_sxm"),
        ("which is more efficient in tokens per watt, H100 or A100, for llama 3.1 8b?", "h100_sxm"),
        ("which grid is dirtier, Poland or Norway?", "poland"),
    ],
)
def test_a_comparison_may_ask_for_the_worse_one(question: str, choice: str) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.choice == choice


def test_a_verdict_on_fitting_counts_the_requests() -> None:
    """43 GB of KV cache a request of 128k beside 70.6 GB of weights: one on 4 H100, not 64."""
    verdicts = [
        ask(f"Does Llama 3.1 70B fit on 4 H100 with {users} users at 128k context?").outcome
        for users in (1, 64)
    ]
    assert [outcome and outcome.verdict for outcome in verdicts] == ["yes", "no"]


def test_rates_of_each_user_add_up() -> None:
    """1,000 users with 2 requests a minute each send 33.3 requests/s."""
    each, whole = (
        ask(f"How many H200 for {load} of Llama 3.1 8B?").outcome
        for load in ("1000 users sending 2 requests per minute each", "33.33 requests per second")
    )
    assert each is not None
    assert whole is not None
    assert each.value == whole.value


def test_a_node_stands_for_its_gpus() -> None:
    node, gpus = (
        ask(f"Does DeepSeek V3 fit on {machine}?").outcome for machine in ("a DGX B200", "8 B200")
    )
    assert node is not None
    assert gpus is not None
    assert node.lines == gpus.lines
    rack = ask("What power does a GB200 NVL72 draw?").outcome
    assert rack is not None
    assert "--with accelerators/gb200 " in rack.lines[0]


@pytest.mark.parametrize(
    ("question", "low", "high", "unit"),
    [
        # 70.6 GB of weights and 16 requests of 8,192 x 327,680 bytes.
        (
            "how much memory does llama 70b need at 8k context with 16 users in fp8",
            112.5,
            116.5,
            "GB",
        ),
        ("how much VRAM does Llama 3.1 8B need?", 16.0, 16.2, "GB"),
        # 6 N D, and the attention of sequences of 8,192 tokens.
        ("how many flops to train llama 70b on 2T tokens", 8.4e23, 1e24, "FLOP"),
        # 64 x 989 TFLOP/s for 14 days at 36 to 62 %, over 6 x 8.03e9.
        ("train llama 8b for 2 weeks on 64 h100: how many tokens?", 5.7e11, 9.9e11, "token"),
        # 27,500 USD each.
        ("How many H100s can I buy for $1M?", 36, 36, "GPU"),
    ],
)
def test_further_figures_have_closed_forms(
    question: str, low: float, high: float, unit: str
) -> None:
    row = {"question": question, "uses": [], "expect": {"value": [low, high, unit]}}
    assert judge(row, ask(question)) == "right"


def test_a_size_of_memory_stands_for_a_gpu() -> None:
    """16.1 GB of weights, and of 24 GB the engine uses nine tenths."""
    verdicts = [ask(f"does llama 3.1 8b fit in {size} GB?").outcome for size in (16, 24)]
    assert [outcome and outcome.verdict for outcome in verdicts] == ["no", "yes"]


def test_a_format_alone_is_compared_with_16_bits() -> None:
    outcome = ask("Is FP8 faster for Llama 3.1 8B on H100?").outcome
    assert outcome is not None
    assert (outcome.choice, len(outcome.rows)) == ("fp8", 2)
    outcome = ask("Is it faster to serve Llama 70B with TP=8 or TP=4 on H100?").outcome
    assert outcome is not None
    assert outcome.choice == "tensor 8"


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        # 16 bytes for each of 6.7e9 weights, against 80 GB; LoRA: 2 bytes, and adapters.
        ("Can I full fine-tune a 7B on one A100?", "no"),
        ("Can I fine-tune Llama 3.1 8B with LoRA on one H100?", "yes"),
        ("Can I train llama 70b on 8 H100?", "no"),
        # vLLM 0.24 saturates an H200 at some 28 requests/s (measured).
        ("Can I serve 100 requests per second with 6 H200 and Llama 3.1 8B?", "yes"),
        ("Can one H200 handle 60 req/s of Llama 3.1 8B?", "no"),
    ],
)
def test_whether_a_run_fits_or_a_rate_is_served(question: str, verdict: str) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    assert outcome.verdict == verdict


def test_borrowed_constants_are_said_beside_a_winner() -> None:
    answer = ask("H100 vs MI300X for llama 70b cost per token")
    assert any("mi300x" in note and "constants of" in note for note in answer.notes)
    assert answer.outcome is not None
    assert "h100_sxm: 4 GPUs, the fewest that hold it and its requests" in answer.outcome.assumed


def test_gpus_and_days_of_a_run_give_a_verdict() -> None:
    """6 N D = 4.8e22 FLOP: 64 H100 need 8.8 days at their peak."""
    verdicts = [
        ask(f"Can 64 H100 train Llama 3.1 8B on 1T tokens in {days} days?").outcome
        for days in (8, 60)
    ]
    assert [outcome and outcome.verdict for outcome in verdicts] == ["no", "yes"]


def test_alternatives_of_other_sizes_are_compared_on_as_many_gpus() -> None:
    # FP8 halves the weights: it fits on half the GPUs, and is faster on the same.
    outcome = ask("FP8 or BF16 for Llama 70B on H100: which is faster?").outcome
    assert outcome is not None
    assert outcome.choice == "fp8"
    assert all("--set serving.tensor=4" in line for line in outcome.lines)


def test_prices_of_a_comparison_are_one_provider_s() -> None:
    outcome = ask("Should I rent H100 or B200 for Llama 3.1 70B?").outcome
    assert outcome is not None
    assert len({line.rpartition("--offer ")[2].split()[0] for line in outcome.lines}) == 1


def test_numbers_of_gpus_belong_to_the_accelerators_beside_them() -> None:
    outcome = ask("Is Llama 3.1 70B faster on 4 H100 or 2 H200?").outcome
    assert outcome is not None
    assert [name for name, _ in outcome.rows] == ["4 x h100_sxm", "2 x h200_sxm"]


def test_requests_beyond_one_instance_take_several() -> None:
    """70 GB on each of two H200 leave (135.7 - 70.6 - 2) x 2 GB for 1,280 tokens of 327,680 bytes."""
    held = (0.9 * 150.75e9 - 70.55e9 - 2e9) * 2 / (1280 * 327_680)
    outcome = ask("how many H200 do I need for 1000 concurrent users on Llama 3.1 70B").outcome
    assert outcome is not None
    assert outcome.value == 2 * -(-1000 // held)
