"""Answers of the workload compared: the bound, near ties, garbling, and what an experiment makes of it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from planted_engine import PlantedEngine, planted_workload
from scipy import stats

from assay.improve.engines import following
from assay.improve.engines.probing import Position, Prober, Prompt, positions
from assay.improve.engines.protocol import Followed, Given
from assay.improve.experiments.experiment import run_experiment
from assay.improve.experiments.outputs.bounds import answers_needed, changed_rate, level_of
from assay.improve.experiments.outputs.judging import garbling_evidence, judge, near_tie
from assay.improve.experiments.outputs.ledger import answers_gate
from assay.improve.experiments.result import ComparedAnswers, DifferingAnswer, GateResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.levers.lever import Candidate
from assay.load.workloads.workload import PlannedRequest
from assay.openai_api.answers import PART

SETTINGS = ExperimentSettings(budget_s=120.0, block_s=0.5, noise_sd=0.015)
FASTER = Candidate("threads=2", ("threads",), {"threads": 2}, "rounding", "safe", hot=True)


@pytest.mark.parametrize(("wrong", "compared"), [(0, 1400), (1, 2000), (3, 500), (40, 900)])
def test_the_bound_is_clopper_and_pearsons_at_its_level(wrong: int, compared: int) -> None:
    bound = changed_rate(wrong, compared, 0.999).hi
    # At the bound so few wrong answers have exactly the chance that is spent on their number.
    assert stats.binom.cdf(wrong, compared, bound) == pytest.approx(level_of(wrong, 0.999))


def test_levels_of_all_counts_sum_to_no_more_than_alpha() -> None:
    assert math.fsum(level_of(wrong, 0.95) for wrong in range(200)) <= 0.05 + 1e-12


def test_the_bound_holds_however_often_one_looks() -> None:
    """Of streams at a rate of 2 %, at most 5 % ever look as if 2 % were excluded."""
    chance, missed, streams = random.Random(0), 0, 2000
    # By number of wrong answers, how many compared ones exclude the rate.
    limits = [
        next(n for n in range(1, 3000) if changed_rate(k, n, 0.95).hi < 0.02) for k in range(9)
    ]
    for _ in range(streams):
        wrong = 0
        for compared in range(1, 800):
            wrong += chance.random() < 0.02
            if wrong < len(limits) and compared >= limits[wrong]:
                missed += 1
                break
    assert missed / streams <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)
    assert missed > 0


def test_what_a_promotion_needs() -> None:
    assert answers_needed(1 / 200, 0.999) == 1400
    assert changed_rate(0, answers_needed(1 / 50, 0.95), 0.95).hi <= 1 / 50
    assert changed_rate(0, 0, 0.95).hi == 1.0


def test_rows_of_different_data_sets_count_and_runs_of_the_same_do_not() -> None:
    def gate(compared: ComparedAnswers, least_requests: int = 3) -> GateResult:
        return answers_gate(compared, 0.95, 1 / 50, least_requests)

    # The same 58 answers: of a language model they exclude too little, of events enough.
    assert not gate(ComparedAnswers(58, (), 3), 0).passed
    many = gate(ComparedAnswers(58, (), 3, rows=20_000, row="events"))
    assert many.passed
    assert many.statement.startswith("58 runs of 3 data sets with 60,000 events compared: 58 equal")
    # To run one data set again and again tells nothing of others.
    assert not gate(ComparedAnswers(1_000, (), 1, rows=20_000, row="events")).passed
    assert not gate(ComparedAnswers(1_000, (), 3, rows=10, row="events")).passed
    wrong = DifferingAnswer(0, "wrong")
    assert not gate(ComparedAnswers(57, (wrong,), 3, rows=20_000, row="events")).passed


def _server(texts: Sequence[str], rivals: dict[int, tuple[str, float]]) -> following.Ask:
    """A server that says these tokens, with a rival and its gap at some of them."""
    whole = "".join(texts)

    def ask(prompt: str, tokens: int) -> list[Position]:
        said = prompt.removeprefix("Q:")
        place, at = 0, 0
        while at < len(said):
            token = texts[place]
            at += (
                len(rivals[place][0])
                if place in rivals and said[at:].startswith(rivals[place][0])
                else len(token)
            )
            place += 1
        answer = []
        for number in range(place, min(place + tokens, len(texts))):
            top = {texts[number]: -0.2, "~": -9.0}
            if number in rivals:
                top[rivals[number][0]] = -0.2 - rivals[number][1]
            answer.append(Position(texts[number], -0.2, top))
        return answer

    assert whole
    return ask


def test_a_server_is_led_along_near_ties_to_the_end() -> None:
    texts = [" a", " b", " c", " d", " e", " f"]
    ask = _server(texts, {1: (" B", 0.01), 4: (" E", 0.02)})
    followed = following.led(ask, "Q:", " a B c d E f", 6, tie=0.05)
    assert followed is not None
    assert followed.is_whole
    assert followed.gaps == pytest.approx((0.0, 0.01, 0.0, 0.0, 0.02, 0.0))


def test_a_token_that_the_server_would_not_say_ends_it() -> None:
    ask = _server([" a", " b", " c"], {1: (" B", 0.3)})
    followed = following.led(ask, "Q:", " a B c", 3, tie=0.05)
    assert followed is not None
    assert max(followed.gaps) == pytest.approx(0.3)
    unlisted = following.led(ask, "Q:", " a X c", 3, tie=0.05)
    assert unlisted is not None
    assert max(unlisted.gaps) == pytest.approx(8.8)
    assert not unlisted.is_whole


def test_a_server_without_log_probabilities_tells_nothing() -> None:
    assert following.led(lambda *_: [], "Q:", " a", 1, 0.1) is None
    assert judge(None, 0.1, "rounding", greedy=True).kind == "not judged"


def test_parts_of_characters_are_compared_as_bytes() -> None:
    said = [(r"bytes:\xe4\xb8", -0.1), (r"bytes:\x96", -0.1), ("!", -0.1)]

    def ask(stands: str, tokens: int) -> list[Position]:
        rest = said[{"": 0, "\u4e16": 2}[stands] :]
        return [Position(token, logprob, {token: logprob, "?": -0.15}) for token, logprob in rest]

    followed = following.led(ask, "", "\u4e16?", 3, tie=0.1)
    assert followed is not None
    assert followed.gaps == pytest.approx((0.0, 0.0, 0.05))
    # An answer in which a part of a character was replaced leads nowhere behind it.
    cut = following.led(ask, "", "\u4e16\ufffd", 3, tie=0.1)
    assert cut == Followed((0.0, 0.0), is_whole=False)


class ChatServer:
    """The tokens of a conversation are 1, 2, 3; those of a text behind it are its characters."""

    def rendered(self, request: PlannedRequest) -> tuple[int, ...] | None:
        return (1, 2, 3) if request.messages[0]["content"] == "Why?" else None

    def continued(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))


class TokenProber(Prober):
    """Says "ab" behind tokens, with "x" as the rival of "b"."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def positions(self, model: str, prompt: Prompt, max_tokens: int) -> list[Position]:
        assert not isinstance(prompt, str)
        self.asked.append(list(prompt))
        said = len(prompt) - 3
        top = [{"a": -0.1, "~": -9.0}, {"b": -0.3, "x": -0.35}][said:]
        return [
            Position(max(one, key=lambda token: one[token]), max(one.values()), one) for one in top
        ]

    def scored(self, model: str, prompt: Prompt) -> list[Position]:
        return [Position("?", -0.5, {})] * (len(prompt) - 1) + [Position("!", -2.0, {})]


def chat(content: str = "Why?", **fields: Any) -> PlannedRequest:
    return PlannedRequest(0, "Why?", 2, messages=({"role": "user", "content": content},), **fields)


def test_a_server_is_led_along_a_chat_by_the_tokens_of_its_template() -> None:
    prober = TokenProber()
    followed = following.along(prober, ChatServer(), "m", (chat(), "ax"), 0.1)
    assert followed is not None
    assert followed.gaps == pytest.approx((0.0, 0.05))
    assert prober.asked == [[1, 2, 3]]
    sampled = chat(sampling={"temperature": 1.0})
    scored = following.along(prober, ChatServer(), "m", (sampled, "ab"), 0.1)
    # The tokens of the conversation are not the answer's.
    assert scored is not None
    assert scored.logprobs == (-0.5, -2.0)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param((chat("Who?"), "ab"), id="a server that renders no conversation"),
        pytest.param((chat(), f"a thought{PART}ab"), id="marks of thoughts are not in the answer"),
        pytest.param((chat(fields={"response_format": {}}), "ab"), id="a grammar would begin anew"),
        pytest.param((chat(fields={"tool_choice": "required"}), "ab"), id="a forced call"),
    ],
)
def test_an_answer_behind_which_no_server_can_be_led_is_not_judged(given: Given) -> None:
    assert following.along(TokenProber(), ChatServer(), "m", given, 0.1) is None


def test_positions_of_both_interfaces() -> None:
    lists = {"tokens": [" a"], "token_logprobs": [None], "top_logprobs": [{" a": -0.1}]}
    records = [{"token": " a", "logprob": -0.1, "top_logprobs": [{"token": " a", "logprob": -0.1}]}]
    assert positions({"choices": [{"logprobs": lists}]})[0].top == {" a": -0.1}
    assert positions({"choices": [{"logprobs": {"content": records}}]})[0].logprob == -0.1
    assert positions({"choices": [{"text": " a"}]}) == []


def test_near_ties_come_from_the_engines_own_noise() -> None:
    tie = near_tie(0.2)
    assert judge(Followed((0.0, 0.3)), tie, "rounding", greedy=True).kind == "near ties"
    assert judge(Followed((0.0, 0.5)), tie, "rounding", greedy=True).kind == "wrong"
    cut = Followed((0.0, 0.01), is_whole=False)
    assert judge(cut, tie, "rounding", greedy=True).kind == "not judged"


def test_lossy_answers_may_part_now_and_then_but_not_for_long() -> None:
    now_and_then = Followed((0.0,) * 9 + (0.4,))
    assert judge(now_and_then, 0.01, "lossy", greedy=True).kind == "near ties"
    assert judge(Followed((0.0,) * 4 + (3.0,) * 6), 0.01, "lossy", greedy=True).kind == "wrong"


def test_correctly_sampled_answers_are_rarely_called_garbled_and_garbled_ones_always() -> None:
    """Draws of a Zipf distribution against draws without looking, as both sides of the e-value."""
    chance, vocabulary = random.Random(1), 20_000
    weights = [1.0 / (rank + 1) ** 1.2 for rank in range(vocabulary)]
    total = math.fsum(weights)
    logs = [math.log(weight / total) for weight in weights]
    drawn = [chance.choices(logs, weights, k=40) for _ in range(500)]
    assert max(garbling_evidence(answer) for answer in drawn) < math.log(1e6)
    for answer in drawn[:50]:
        garbled = answer[:12] + [chance.choice([-18.0, -21.0, -25.0]) for _ in range(12)]
        assert garbling_evidence(garbled) > math.log(1e6)


def test_an_answer_that_parts_at_a_near_tie_is_kept_and_said() -> None:
    engine = PlantedEngine(flips=lambda _: 0.0005)
    result = run_experiment(engine, planted_workload(), FASTER, SETTINGS, clock=engine.clock)
    assert result.verdict == "improved"
    gate = next(gate for gate in result.gates if gate.gate == "answers")
    assert gate.passed
    assert "differ at near ties only" in gate.statement
    assert result.answers is not None
    assert result.answers.near_ties == result.answers.total > 0


def test_a_wrong_answer_ends_the_experiment() -> None:
    engine = PlantedEngine(garbles=lambda settings, request: settings["threads"] == 2)
    result = run_experiment(engine, planted_workload(), FASTER, SETTINGS, clock=engine.clock)
    assert result.verdict == "invalid"
    assert "wrongly changed" in result.reason
    assert len(result.blocks) < 12


def test_too_few_answers_are_undecided_never_improved() -> None:
    engine = PlantedEngine()
    settings = replace(SETTINGS, most_changed=1 / 200, answer_confidence=0.999)
    result = run_experiment(engine, planted_workload(), FASTER, settings, clock=engine.clock)
    assert result.verdict == "undecided"
    assert "1 in 200 has to be excluded" in result.reason


def test_without_log_probabilities_a_rounding_lever_is_undecided_unless_equal() -> None:
    settings = replace(SETTINGS, most_changed=1 / 50, hold_s=60.0)
    engine = PlantedEngine(flips=lambda _: 0.0005, follows=False)
    result = run_experiment(engine, planted_workload(), FASTER, settings, clock=engine.clock)
    assert result.verdict == "undecided"
    assert "cannot be judged" in result.reason
    equal = PlantedEngine(follows=False)
    result = run_experiment(equal, planted_workload(), FASTER, settings, clock=equal.clock)
    assert result.verdict == "improved"


def test_a_rare_wrong_answer_is_found_in_the_soak() -> None:
    """One request of 200 garbled, of a workload of 400: the pairs alone would miss it."""
    engine = PlantedEngine(
        rate=4000.0,
        garbles=lambda settings, request: settings["threads"] == 2 and request % 200 == 150,
    )
    settings = replace(
        SETTINGS, block_requests=8, hold_s=60.0, most_changed=1 / 200, answer_confidence=0.999
    )
    result = run_experiment(
        engine, planted_workload(requests=400), FASTER, settings, clock=engine.clock
    )
    assert result.verdict == "invalid"
    assert "request 150" in result.reason


def test_faster_first_and_slower_later_is_refused() -> None:
    engine = PlantedEngine(
        effect=lambda settings: 1.2 if settings["threads"] == 2 else 1.0,
        later=lambda settings, windows: 0.75 if settings["threads"] == 2 and windows > 12 else 1.0,
    )
    settings = replace(SETTINGS, hold_s=60.0)
    result = run_experiment(engine, planted_workload(), FASTER, settings, clock=engine.clock)
    assert result.verdict == "invalid"
    assert "faster first, slower later" in result.reason
    steady = PlantedEngine(effect=lambda settings: 1.2 if settings["threads"] == 2 else 1.0)
    result = run_experiment(steady, planted_workload(), FASTER, settings, clock=steady.clock)
    assert result.verdict == "improved"
    assert any(gate.gate == "soak" and gate.passed for gate in result.gates)


def test_memory_that_grows_without_end_is_refused() -> None:
    settings = replace(SETTINGS, hold_s=60.0)
    leaking = PlantedEngine(memory=lambda windows: 1e9 + 2e6 * windows)
    result = run_experiment(leaking, planted_workload(), FASTER, settings, clock=leaking.clock)
    assert result.verdict == "invalid"
    assert "memory grows without end" in result.reason
    filling = PlantedEngine(memory=lambda windows: 1e9 + 3e8 * (1 - math.exp(-windows / 5)))
    result = run_experiment(filling, planted_workload(), FASTER, settings, clock=filling.clock)
    assert result.verdict == "improved"
