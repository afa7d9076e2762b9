"""YAML of users: data, and nothing that acts or explodes."""

import pytest

from assay import yaml_text
from assay.errors import InputError


def test_words_are_text_and_numbers_are_numbers() -> None:
    text = "a: [1, -2.5, 1e3, on, no, true, null, ~, '1', 1:30, 2020-01-01]\nb:\n- {c: }"
    assert yaml_text.loads(text, "file") == {
        "a": [1, -2.5, 1000.0, "on", "no", True, None, None, "1", "1:30", "2020-01-01"],
        "b": [{"c": None}],
    }


def test_an_empty_text_is_nothing() -> None:
    assert yaml_text.loads("# only a comment\n", "file") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: &x [1]\nb: [*x, *x]", "expected no anchor, got &x in line 1"),
        ("a: 1\nb: *x", "expected no alias, got *x in line 2"),
        ("a: !!python/object/apply:os.system [ls]", "expected no tag, got tag:yaml.org"),
        ("a: 1\na: 2", "expected each key once, got a again in line 2"),
        ("1: a", "expected a word as key, got 1 in line 1"),
        ("a\n---\nb", "expected one document, got a second one in line 2"),
        ("[" * 5000, "expected at most 32 levels, got more in line 1"),
        ("a: 1e999", "expected a finite number, got 1e999 in line 1"),
        ("a: [1", "expected YAML, got in line 1: "),
        ("a: \x00", "expected YAML, got: unacceptable character"),
    ],
)
def test_hostile_or_broken_text_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        yaml_text.loads(text, "file")
    assert caught.value.message.startswith(f"file: {why}")
    assert "\n" not in caught.value.message
