"""Structured output: texts of random weights are valid, alone, in batches and with speculation."""

import json
import re

import jsonschema_rs
import numpy as np
import pytest
from random_schemas import random_schema

from assay.engine import Completion, Engine, SamplingParams, StructuredOutput
from assay.engine.requests.structured_output import WHITESPACE
from assay.engine.runner.model_runner import ModelRunner
from assay.errors import InputError, UnsupportedError
from chosen_device import NAME

BATCH = 20
MAX_TOKENS = 900


@pytest.fixture(scope="module")
def engine():
    with Engine.load("synthetic", NAME, max_batch=BATCH) as engine:
        yield engine


def constrained(constraint, seed=0, **options) -> SamplingParams:
    return SamplingParams(max_tokens=MAX_TOKENS, seed=seed, structured_output=constraint, **options)


def outputs_under_schemas(engine: Engine, seeds: range) -> list[Completion]:
    params = [
        constrained(StructuredOutput.json_schema(random_schema(seed)), seed) for seed in seeds
    ]
    return engine.generate(["Once"] * len(params), params)


def check_valid(seed: int, output: Completion) -> None:
    assert output.finish_reason == "stop", (seed, output.error, output.text)
    value = json.loads(output.text)
    validator = jsonschema_rs.validator_for(random_schema(seed), validate_formats=True)
    validator.validate(value)


def test_outputs_are_valid_under_their_schemas(engine):
    for seed, output in zip(range(BATCH), outputs_under_schemas(engine, range(BATCH)), strict=True):
        check_valid(seed, output)


@pytest.mark.slow
def test_a_thousand_outputs_are_valid_under_their_schemas(engine):
    for first in range(0, 1000, BATCH):
        seeds = range(first, first + BATCH)
        for seed, output in zip(seeds, outputs_under_schemas(engine, seeds), strict=True):
            check_valid(seed, output)


@pytest.mark.parametrize("settings", [{"speculation_depth": 4}, {"overlap": "on"}])
def test_speculation_and_async_scheduling_change_nothing(engine, settings):
    params = [
        *(constrained(StructuredOutput.regex("((ab)+c){9}"), seed) for seed in range(2)),
        constrained(StructuredOutput.json_schema(random_schema(1), whitespace="")),
        SamplingParams(max_tokens=30, seed=7),
        SamplingParams(max_tokens=30, seed=8, logit_bias={65: 5.0}),
    ]
    prompts = ["Once", "upon", "a", "time", "there"]
    expected = [one.token_ids for one in engine.generate(prompts, params)]
    alone = [engine.generate([p], q)[0].token_ids for p, q in zip(prompts, params, strict=True)]
    undo = engine.configure(settings)
    accepted = engine.statistics()["accepted_tokens"]
    found = [one.token_ids for one in engine.generate(prompts, params)]
    accepted = engine.statistics()["accepted_tokens"] - accepted
    undo()
    assert found == expected == alone
    assert accepted or "speculation_depth" not in settings


def test_steps_with_masks_are_launched_ahead_of_the_tokens_that_they_follow(engine, monkeypatch):
    expected = [output.token_ids for output in outputs_under_schemas(engine, range(BATCH))]
    masked_ahead, begun = [], []
    launch, begin_masks = ModelRunner.launch, ModelRunner.begin_masks

    def watch(runner, scheduled, *, after=None, **options):
        step = launch(runner, scheduled, after=after, **options)
        masked_ahead.append(after is not None and step.buffers.shape.masked)
        return step

    def watch_masks(runner, step):
        begun.append(step)
        begin_masks(runner, step)

    monkeypatch.setattr(ModelRunner, "launch", watch)
    monkeypatch.setattr(ModelRunner, "begin_masks", watch_masks)
    # With few free blocks steps are not launched ahead.
    room = BATCH * 2 * MAX_TOKENS
    with Engine.load("synthetic", NAME, max_batch=BATCH, overlap="on", kv_tokens=room) as ahead:
        outputs = outputs_under_schemas(ahead, range(BATCH))
    assert [output.token_ids for output in outputs] == expected
    # All but those that begin where nothing is in flight.
    assert sum(masked_ahead) > 0.9 * len(masked_ahead)
    assert len(begun) == sum(masked_ahead)


@pytest.mark.parametrize("pattern", [r"[a-f]{3,9}", r"(yes|no)( please)?", r"\d{4}-\d{2}-\d{2}"])
def test_regular_expressions(engine, pattern):
    [output] = engine.generate("q", constrained(StructuredOutput.regex(pattern)))
    assert re.fullmatch(pattern, output.text)
    assert output.finish_reason == "stop"


def test_choices(engine):
    texts = ["yes", "no", 'a "third" one', "n\u00e4chste"]
    seen = {
        engine.generate("q", constrained(StructuredOutput.choices(texts), seed))[0].text
        for seed in range(12)
    }
    assert len(seen) > 1
    assert seen <= set(texts)


@pytest.mark.parametrize("grammar", ['start: "x"~2..3 "y"', 'root ::= "x" "x" "x"? "y"'])
def test_grammars_of_lark_and_gbnf(engine, grammar):
    [output] = engine.generate("q", constrained(StructuredOutput.grammar(grammar)))
    assert output.text in ("xxy", "xxxy")


def test_json_object_and_white_space(engine):
    schema = {"type": "array", "items": {"const": 1}, "minItems": 3, "maxItems": 3}
    compact = StructuredOutput.json_schema(schema, whitespace="")
    [output] = engine.generate("q", constrained(compact))
    assert output.text == "[1,1,1]"
    [output] = engine.generate(
        "q", SamplingParams(max_tokens=20, structured_output=StructuredOutput.json_object())
    )
    assert output.text.lstrip().startswith("{")


def test_white_space_ends(engine):
    # A weak model writes line after line: json.dumps with an indent needs one line's end at a time.
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for seed in range(8):
        lines = constrained(
            StructuredOutput.json_schema(schema), seed, logit_bias={10: 30.0, 13: 20.0}
        )
        [output] = engine.generate("Once", lines)
        text = output.text
        assert "\n" in text
        assert not re.search(r"(\r?\n[ \t]*){3}", text), text
    pattern = re.compile(WHITESPACE)
    for indent in (None, 1, 4):
        given = json.dumps({"a": [1, {"b": []}], "c": 2}, indent=indent)
        assert all(pattern.fullmatch(blank) for blank in re.findall(r"\s+", given))


def test_a_constraint_begins_after_a_text(engine):
    constraint = StructuredOutput("regex", "[0-9]{5}", after="x")
    bias = {ord("x"): 6.0, 257: -100.0}
    forced = constrained(constraint, seed=3, logit_bias=bias)
    [output] = engine.generate("q", forced)
    before, marker, after = output.text.partition("x")
    assert marker == "x"
    assert re.fullmatch("[0-9]{5}", after)
    assert before


def test_a_fork_continues_in_the_grammar(engine):
    constraint = StructuredOutput.regex("[ab]{40}")
    name = engine.add_request("q", constrained(constraint, seed=1))
    for _ in range(10):
        engine.step()
    twin = engine.fork(name, constrained(constraint, seed=2))
    texts = {name: "", twin: ""}
    while engine.has_work:
        for output in engine.step():
            texts[output.request_id] += output.text
    assert all(re.fullmatch("[ab]{20,40}", text) for text in texts.values())


def test_logit_bias_is_added_to_the_logits(engine):
    tokens = [256, 65, 66]
    logits = engine.logits(tokens)[-1].astype(np.float64)
    bias = {int(token): 3.5 for token in np.argsort(logits)[-40:-20]}
    for token, value in bias.items():
        logits[token] += value
    params = SamplingParams(max_tokens=1, temperature=0.0, logit_bias=bias, logprobs=2)
    [output] = engine.generate([tokens], params)
    assert output.token_ids == (int(logits.argmax()),)
    assert output.logprobs is not None
    normalizer = np.log(np.exp(logits - logits.max()).sum()) + logits.max()
    assert output.logprobs[0].logprob == pytest.approx(logits.max() - normalizer, abs=1e-3)


def test_a_masked_token_has_no_probability(engine):
    params = constrained(StructuredOutput.choices(["a"]), logprobs=2)
    [output] = engine.generate("q", params)
    assert output.logprobs is not None
    (token, logprob), (_, other) = output.logprobs[0].top_logprobs
    assert (token, logprob, other) == (ord("a"), 0.0, -np.inf)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (StructuredOutput.regex("("), "a regular expression that can be compiled.*unclosed group"),
        (StructuredOutput.grammar("start: nothing"), 'unknown name: "nothing"'),
        (StructuredOutput.json_schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (StructuredOutput.json_schema({"$ref": "https://example.com/x"}), "does not fetch"),
        (StructuredOutput.json_schema("{"), "JSON"),
        (StructuredOutput.json_schema({"$ref": "#"}), "can be compiled"),
    ],
)
def test_constraints_that_do_not_compile_are_refused(engine, constraint, message):
    with pytest.raises(InputError, match=message):
        engine.generate("q", constrained(constraint))
    assert not engine.has_work


def test_parameters_are_checked(engine):
    with pytest.raises(InputError, match="logit_bias: expected tokens from 0 to 257, got 258"):
        engine.generate("q", SamplingParams(logit_bias={258: 1.0}))
    with pytest.raises(InputError, match="logit_bias: expected a finite number"):
        SamplingParams(logit_bias={1: float("nan")})
    with pytest.raises(InputError, match="choice: expected texts"):
        StructuredOutput.choices([])


def test_a_grammar_that_grows_too_complex_fails_its_own_request(engine):
    hostile = StructuredOutput.regex("a?" * 2000)
    outputs = engine.generate(
        ["q", "q"],
        [constrained(hostile, logit_bias={257: -100.0}), SamplingParams(max_tokens=5, seed=1)],
    )
    assert outputs[0].finish_reason == "error"
    assert isinstance(outputs[0].error, InputError)
    assert "simplify" in (outputs[0].error.hint or "")
    assert outputs[1].finish_reason == "length"


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "llguidance", None)
    with (
        Engine.load("synthetic", NAME) as engine,
        pytest.raises(UnsupportedError, match="llguidance") as caught,
    ):
        engine.generate("q", constrained(StructuredOutput.json_object()))
    assert caught.value.hint == "install it with: pip install 'assay[serve]'"
