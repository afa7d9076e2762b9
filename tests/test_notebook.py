"""What notebooks show: HTML that is well-formed, escaped, without scripts and colors of its own, and short."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from decode_traces import replayed

import assay
from assay import scenario, xp
from assay.answers import Answer
from assay.errors import InputError
from assay.observe.importers.storing import import_trace
from assay.observe.trace import Trace
from assay.report.claim import Claim, Provenance
from assay.report.stored import StoredReport

ALLOWED = {
    *(
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "ul",
        "li",
        "pre",
        "b",
    )
}


def _all_answers() -> set[type[Answer]]:
    """Every class of an answer that the public functions give."""
    for name in assay.__all__:
        getattr(assay, name)
    kinds, left = set[type[Answer]](), [Answer]
    while left:
        own = left.pop().__subclasses__()
        kinds |= {kind for kind in own if kind.__module__.startswith("assay.")}
        left += own
    return kinds


HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


class Page(HTMLParser):
    """Elements that are opened and closed in order, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= {"style", "class"}
        # Light or dark, the page has the colors.
        assert not re.search(r"(?<!-)color:|background|url\(", dict(attrs).get("style") or "")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(value: Any) -> str:
    page = Page()
    markup = value._repr_html_()
    page.feed(markup)
    page.close()
    assert page.open == []
    assert len(markup) < 400_000
    return page.text


def test_answer_to_a_question_in_words_is_shown_first() -> None:
    answer = assay.ask("does Llama 3.1 70B in FP8 fit on one H100?")
    assert answer.outcome is not None
    text = shown(answer)
    assert answer.outcome.text in text
    assert text.index(answer.outcome.text) < text.index("intent")


def test_value_is_shown_with_its_unit_and_its_interval() -> None:
    given = {"econ.electricity.price": "0.20..0.50 USD/kWh"}
    answer = assay.resolve(
        "econ.cost.per_token", preset="dense_training_cost_fixture", assign=given
    )
    text = shown(answer)
    assert re.search(
        r"econ\.cost\.per_token = \$3\.\d+ per million tokens \(90 %: 3\.\d+ to 3\.\d+\)", text
    )
    explained = assay.explain("econ.cost.per_token", preset="dense_training_cost_fixture")
    assert "econ.cost.per_token = $3.00 per million tokens" in shown(explained)
    fixture = scenario.preset("dense_training_cost_fixture")
    assert "$3.00 per million tokens" in shown(fixture.resolve("econ.cost.per_token"))


def test_missing_inputs_are_counted_and_the_problem_said() -> None:
    answer = assay.resolve("econ.cost.per_token")
    assert answer.problem is not None
    text = shown(answer)
    assert f"needs {len(answer.resolution.missing)} more inputs" in text
    assert "problem:" in text


@dataclass(frozen=True)
class HostileAnswer(Answer):
    """An answer whose every text is hostile."""

    name: str
    rows: list[dict[str, Any]]
    nested: dict[str, Any]

    def headline(self) -> str:
        """The same text."""
        return self.name


def test_a_receipt_begins_with_its_largest_shares_and_lists_its_lines() -> None:
    answer = assay.receipt("econ.cost.per_token", preset="dense_training_cost_fixture")
    # Cost over tokens: each moves the quotient by all of itself.
    assert answer.headline() == (
        "econ.cost.per_token = $3.00 per million tokens: training.total_tokens -100 %, "
        "econ.run.total_cost 100 %"
    )
    text = shown(answer)
    assert re.search(r"econ\.capex\.rate\$72000 per hour100 %", text)
    assert "10000000 token" in text


def test_a_list_of_lines_is_no_list_of_verdicts() -> None:
    line = {"name": "econ.x", "status": "given", "text": "kept", "meaning": "a line"}
    assert "econ.xgivenkept" in shown(HostileAnswer("x", [line], {}))
    verdict = {**line, "status": "true"}
    assert "1 hold" in shown(HostileAnswer("x", [verdict], {}))


def test_a_sweep_has_a_headline_and_units_over_its_columns() -> None:
    over = {"gpu.power": "400,500 W/GPU"}
    answer = assay.sweep(["econ.cost.per_token"], over, preset="dense_training_cost_fixture")
    assert answer.headline() == (
        "2 points of gpu.power: econ.cost.per_token goes from $3.00007 to $3.00008 per million "
        "tokens"
    )
    text = shown(answer)
    assert "gpu.power (W/GPU)econ.cost.per_token (USD/token)" in text
    one = assay.sweep(
        ["econ.capex.rate"], {"gpu.power": "400 W/GPU"}, preset="dense_training_cost_fixture"
    )
    assert one.headline() == "1 point of gpu.power: econ.capex.rate is $72000 per hour"
    by_entry = assay.sweep(
        ["econ.cost.per_token"],
        {"accelerators": "h100_sxm,h200_sxm"},
        preset="llama3_8b_8_h100_training",
    )
    assert by_entry.headline().startswith("2 points of accelerators: econ.cost.per_token goes from")
    assert "accelerators" + "econ.cost.per_token (USD/token)" in shown(by_entry)
    front = assay.pareto(
        "econ.cost.per_token",
        "econ.run.duration",
        {"accelerators": "h100_sxm,h200_sxm"},
        preset="llama3_8b_8_h100_training",
    )
    assert front.headline().startswith("front of 2 feasible of 2 points: ")


def test_searches_and_differences_have_headlines() -> None:
    """A token costs the same at any power in the fixture but for electricity: the lower is cheaper."""
    given = {"preset": "dense_training_cost_fixture"}
    solved = assay.solve(
        "econ.electricity.price", {"econ.cost.per_token": "3.0002e-6 USD/token"}, **given
    )
    assert solved.headline().startswith("econ.electricity.price = $0.9")
    assert solved.headline().endswith("where econ.cost.per_token is $3.00 per million tokens")
    least = assay.minimize("econ.cost.per_token", {"gpu.power": "400,500 W/GPU"}, **given)
    assert least.headline().endswith("per million tokens, with gpu.power = 400 W/GPU")
    entry = assay.minimize(
        "econ.cost.per_token",
        {"accelerators": "h100_sxm,a100_sxm"},
        preset="llama3_8b_8_h100_training",
    )
    assert entry.headline().endswith("with h100_sxm")
    same = ("llama3_8b_8_h100_training", "llama3_8b_8_h100_training")
    assert assay.diff(*same).headline().endswith("token/s before and after")
    moved = assay.diff(*same, with_after=["accelerators/h200_sxm"]).headline()
    assert moved.endswith("most by accelerators/h100_sxm -> h200_sxm")


def test_a_prompt_shows_the_class_and_the_headline_alone() -> None:
    step = assay.predict_step("llama-3.1-8b", "h200")
    assert repr(step) == f"<StepPrediction: {step.headline()}>"
    lacking = assay.resolve("econ.cost.per_token")
    assert repr(lacking) == f"<ResolveAnswer: {lacking.headline()}>"
    assert repr(lacking.resolution) == f"<Resolution: {lacking.headline()}>"
    assert len(repr(HostileAnswer("long " * 100, [], {}))) < 230
    refused = HostileAnswer("two\nlines", [], {}, problem=InputError("no x"))
    assert repr(refused) == "<HostileAnswer: two lines; problem: no x>"


@pytest.mark.parametrize("kind", sorted(_all_answers(), key=lambda kind: kind.__name__), ids=str)
def test_no_answer_prints_its_fields(kind: type[Answer]) -> None:
    assert kind.__repr__ is Answer.__repr__


def test_texts_are_escaped_wherever_they_stand() -> None:
    rows = [{"a": HOSTILE, HOSTILE: 1.5, "list": [HOSTILE]} for _ in range(100)]
    nested = {HOSTILE: {HOSTILE: {HOSTILE: {HOSTILE: [{"deep": HOSTILE}]}}}}
    answer = HostileAnswer(
        HOSTILE, rows, nested, notes=[HOSTILE], problem=InputError(HOSTILE, HOSTILE)
    )
    text = shown(answer)
    assert HOSTILE in text
    assert "88 more" in text


def test_a_value_is_said_as_the_command_line_says_it() -> None:
    import assay

    answer = assay.resolve("econ.cost.per_token", preset="dense_training_cost_fixture")
    # An interval as wide as its rounding is none.
    assert answer.headline() == "econ.cost.per_token = $3.00 per million tokens"


def test_an_estimate_begins_with_cost_and_time_and_has_no_json() -> None:
    trained = assay.estimate("llama-3.1-8b", "h100_sxm", "15T", "us_virginia")
    assert re.fullmatch(
        r"\$\d+ \(90 %: \d+ to \d+\), \d+ day \(90 %: \d+ to \d+\) to train: "
        r"training of llama-3\.1-8b on h100_sxm, 15T tokens, us_virginia",
        trained.headline(),
    )
    served = assay.estimate("llama-3.1-8b", "h100_sxm", "1T", "us_virginia", serving=True)
    assert " for all output tokens: serving of llama-3.1-8b" in served.headline()
    for answer in (trained, served):
        text = shown(answer)
        assert text.index(answer.headline()) < 20
        assert '{"' not in text


def test_a_predicted_step_begins_with_its_time_and_lists_operations() -> None:
    answer = assay.predict_step("llama-3.1-8b", "h100")
    assert re.match(
        r"[\d.]+ ms \([\d.]+ to [\d.]+\); floor [\d.]+ ms \(\d+ %\): llama-3\.1-8b on h100_sxm, vllm, ",
        answer.headline(),
    )
    text = shown(answer)
    assert "gate_up_proj" in text
    assert '{"' not in text


def test_times_are_dates_and_an_interval_without_width_is_none() -> None:
    row = {"started_at": 1.75e9, "waited_at": 3.5, "value": 2.0, "lo": 2.0, "hi": 2.0}
    text = shown(HostileAnswer("x", [row], dict(row)))
    assert text.count("2025-06-15 15:06:40") == 2
    assert text.count("3.5") == 2
    assert "lohi" not in text
    wide = {"value": 2.0, "lo": 1.0, "hi": 3.0}
    assert "valuelohi213" in shown(HostileAnswer("x", [wide], {}))


def test_deep_data_is_words() -> None:
    deep = {"a": {"b": {"c": {"spec": 0.25, "of": ["x", "y"]}}}}
    assert "spec: 0.25; of: x, y" in shown(HostileAnswer("x", [], deep))


def test_constraints_left_open_are_a_line() -> None:
    text = shown(assay.resolve("econ.cost.per_token", preset="dense_training_cost_fixture"))
    assert re.search(r"\d+ undetermined by the inputs: ", text)
    assert "lo" not in re.findall(r"\w+", text.partition("trace")[0])


def test_plans_sensitivities_and_scenarios_begin_with_their_line() -> None:
    plan = assay.plan_capacity(
        model="llama-3.1-8b", rate=20, slo="ttft=1s,tpot=50ms,p=99%", gpus=["h100"], tensor=[1]
    )
    assert re.fullmatch(
        r"1 GPU: 1 x h100_sxm TP1, bf16, vllm, at most [\d,]+ running, "
        r"\$\d+\.\d\d an hour at the peak",
        plan.headline(),
    )
    assert shown(plan).index(plan.headline()) < 100
    # Of a step of 150 ms, 125 are divided among the GPUs.
    moved = assay.sensitivity("econ.cost.per_token", preset="dense_training_cost_fixture")
    assert moved.headline() == (
        "econ.cost.per_token = $3.00 per million tokens; training.gpus moves it most, "
        "-0.833 % for each per cent"
    )
    text = shown(scenario.preset("llama3_8b_8_h100_training"))
    assert "gpu.memory.bandwidth" in text or "training.batch" in text


def test_an_answer_is_small_enough_for_notebooks_of_many() -> None:
    answer = assay.resolve("econ.cost.per_token", preset="llama3_8b_8_h100_training")
    assert len(answer._repr_html_()) < 60_000


def test_a_traceback_has_the_hint() -> None:
    with pytest.raises(assay.errors.UnknownNameError) as caught:
        assay.resolve("econ.cost.per_tokn", preset="dense_training_cost_fixture")
    said = "".join(traceback.format_exception(caught.value))
    assert said.rstrip().endswith(f"hint: {caught.value.hint}")
    assert "econ.cost.per_token" in said


def test_many_notes_do_not_hide_the_answer() -> None:
    notes = [f"rent {number}" for number in range(9)]
    text = shown(HostileAnswer("x", [], {"kept": 1}, notes=notes))
    assert text.index("rent 2") < text.index("6 more notes") < text.index("rent 3")


def test_tab_completion_shows_the_public_names() -> None:
    import assay

    names = dir(assay)
    assert {"resolve", "ask", "plan_capacity", "report"} <= set(names)
    assert "importlib" not in names


def test_numbers_that_are_none_are_left_out() -> None:
    answer = HostileAnswer("x", [], {"nan": float("nan"), "empty": None, "kept": 1234567})
    text = shown(answer)
    assert "nan" not in text
    assert "1,234,567" in text


def test_trace_is_shown_by_its_header_and_length(tmp_path: Path) -> None:
    replayed().save(tmp_path / "trace.json")
    stored = import_trace([tmp_path / "trace.json"], out=tmp_path / "stored")
    trace = Trace.open(tmp_path / "stored")
    text = shown(trace)
    assert f"{trace.events.height:,}" in text
    assert re.search(r"[\d.,]+ ms", text)
    assert shown(stored)


def test_report_is_shown_by_its_claims(tmp_path: Path) -> None:
    claims = [Claim("final.ratio", f"1.5x {HOSTILE}", None, "", (), verdict="improved")]
    provenance = Provenance("run", 0.0, "0.0", {}, "")
    text = shown(StoredReport(tmp_path, claims, provenance))
    assert "improved" in text
    assert HOSTILE in text


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 3), "array of 2 x 3"),
        ((), "array of one"),
        ((100, 100), "its first 8 x 8"),
        ((0,), "[]"),
    ],
)
def test_array_is_shown_with_shape_and_a_corner(shape: tuple[int, ...], words: str) -> None:
    text = shown(xp.zeros(shape))
    assert words in text
    assert "cpu" in text
