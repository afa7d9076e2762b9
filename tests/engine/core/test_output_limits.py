"""min_tokens and bad_words, with and without drafts."""

from collections.abc import Iterator

import pytest
from small_models import fixture_engine

from assay.engine import Engine, SamplingParams, StructuredOutput
from assay.engine.requests.bad_words import banned_sequences
from assay.errors import InputError

PROMPT = [5, 7, 11, 5, 7, 11, 5, 7]


@pytest.fixture(scope="module", params=[0, 4], ids=["plain", "drafts"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with fixture_engine("llama", speculation_depth=request.param) as one:
        yield one


def tokens(engine: Engine, **params: object) -> list[int]:
    [answer] = engine.generate([PROMPT], SamplingParams(temperature=0.0, **params))  # type: ignore[arg-type]
    return list(answer.token_ids)


def test_output_does_not_end_before_min_tokens(engine: Engine) -> None:
    free = tokens(engine, max_tokens=12, ignore_eos=True)
    stop = free[0]
    assert tokens(engine, max_tokens=12, ignore_eos=True, stop_token_ids=[stop]) == [stop]
    late = tokens(engine, max_tokens=12, ignore_eos=True, stop_token_ids=[stop], min_tokens=5)
    assert len(late) >= 5
    assert stop not in late[:5]


def test_stop_string_before_min_tokens_is_text() -> None:
    with Engine.load("synthetic") as engine:
        params = {"temperature": 0.0, "max_tokens": 12, "ignore_eos": True}
        [free] = engine.generate(["Once"], SamplingParams(**params))  # type: ignore[arg-type]
        stop = free.text[3:5]
        assert free.text.count(stop) == 1
        [early] = engine.generate(["Once"], SamplingParams(**params, stop=stop))  # type: ignore[arg-type]
        [late] = engine.generate(
            ["Once"],
            SamplingParams(**params, stop=stop, min_tokens=len(free.token_ids)),  # type: ignore[arg-type]
        )
    assert (early.text, late.text) == (free.text[:3], free.text)


def test_banned_sequence_is_never_completed(engine: Engine) -> None:
    free = tokens(engine, max_tokens=12, ignore_eos=True)
    tokenizer = engine.files.tokenizer
    word = tokenizer.decode(free[2:4], skip_special=False).strip()
    banned = banned_sequences([word], tokenizer)
    assert tuple(free[2:4]) in banned
    other = tokens(engine, max_tokens=12, ignore_eos=True, bad_words=[word])
    assert other[0] == free[0]
    spans = {tuple(other[at : at + len(each)]) for each in banned for at in range(len(other))}
    assert spans.isdisjoint(banned)


def test_grammar_that_allows_nothing_else_comes_first() -> None:
    pytest.importorskip("llguidance")
    with Engine.load("synthetic") as engine:
        params = SamplingParams(
            structured_output=StructuredOutput.choices(["yes"]), bad_words=["yes"], min_tokens=9
        )
        [answer] = engine.generate(["Is it?"], params)
    assert answer.text == "yes"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens: expected at most max_tokens 8, got 9"),
        ({"min_tokens": -1}, "min_tokens: expected a whole number"),
        ({"bad_words": [" "]}, "bad_words: expected texts with characters"),
        ({"bad_words": [3]}, "bad_words: expected texts with characters"),
    ],
)
def test_invalid_limits_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SamplingParams(**params)  # type: ignore[arg-type]
