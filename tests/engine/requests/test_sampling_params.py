import math

import pytest

from assay.engine import SamplingParams
from assay.errors import InputError


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("max_tokens", 0, "max_tokens: expected a whole number of at least 1, got 0"),
        ("max_tokens", True, "max_tokens: expected a whole number of at least 1, got True"),
        ("max_tokens", 1.5, "max_tokens: expected a whole number of at least 1, got 1.5"),
        ("top_k", -1, "top_k: expected a whole number of at least 0, got -1"),
        ("temperature", -0.1, "temperature: expected a finite number from 0, got -0.1"),
        ("temperature", math.nan, "temperature: expected a finite number from 0, got nan"),
        ("temperature", math.inf, "temperature: expected a finite number from 0, got inf"),
        ("temperature", "hot", "temperature: expected a finite number from 0, got 'hot'"),
        ("top_p", 0.0, "top_p: expected a finite number above 0 to 1, got 0.0"),
        ("top_p", 1.1, "top_p: expected a finite number above 0 to 1, got 1.1"),
        ("min_p", 2, "min_p: expected a finite number from 0 to 1, got 2"),
        ("repetition_penalty", 0, "repetition_penalty: expected a finite number above 0, got 0"),
        ("logprobs", 21, "logprobs: expected a whole number from 0 to 20, got 21"),
        ("stop", "", "stop: expected texts with characters, got ''"),
        ("stop", ["a", ""], "stop: expected texts with characters, got ''"),
        ("stop_token_ids", [-1], "stop_token_ids: expected a whole number of at least 0, got -1"),
    ],
)
def test_invalid_value_is_refused_by_name(field, value, message):
    with pytest.raises(InputError) as error:
        SamplingParams(**{field: value})
    assert str(error.value) == message


def test_single_stop_string_becomes_a_tuple():
    assert SamplingParams(stop="END").stop == ("END",)
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")


def test_penalized_is_true_for_any_penalty():
    assert not SamplingParams().penalized
    for field in ("repetition_penalty", "presence_penalty", "frequency_penalty"):
        assert SamplingParams(**{field: 1.25}).penalized
