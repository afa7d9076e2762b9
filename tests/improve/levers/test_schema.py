"""Lever files: every mistake is named with its lever and key."""

from collections.abc import Mapping
from typing import Any

import pytest

from assay.errors import InputError
from assay.improve.levers.schema import FORMAT, levers_of

GOOD: Mapping[str, Any] = {
    "name": "mine",
    "mechanism": "It saves time.",
    "knobs": {"depth": [2, "= 2 * knob.depth"], "mode": ["on", "off"]},
    "applies": ['cause("host launch") > 0.05'],
    "addresses": ["host launch", "floor"],
    "changes": ["launch=graph", "batch={depth}"],
    "riskier": {"depth": "larger"},
    "safety": "safe",
    "hot": True,
    "correctness": "bitwise",
    "reference": "a page",
}


def levers(*rows: Any, **document: Any) -> Any:
    return levers_of(
        {"format": FORMAT, "engine": "vllm", "levers": list(rows), **document}, "lever file x"
    )


def test_a_good_lever_is_read() -> None:
    (one,) = levers(GOOD)
    assert (one.name, one.engine, one.source) == ("mine", "vllm", "lever file x")
    assert one.knobs[0].values == (2, "= 2 * knob.depth")
    assert one.knobs[0].riskier == "larger"
    assert one.applies == ('cause("host launch") > 0.05',)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "Mine!"}, "lever 1: name: expected unique in its engine"),
        ({"nam": 1}, 'lever mine: unknown key "nam"'),
        ({"mechanism": None}, "lever mine: expected name, mechanism, knobs"),
        ({"mechanism": 3}, "lever mine: mechanism: expected a text, got 3"),
        ({"knobs": {}}, "lever mine: knobs: expected a knob and its values, got none"),
        ({"knobs": {"depth": 3}, "riskier": None}, "knobs: depth: expected 1 to 64 values, got 3"),
        ({"knobs": {"depth": [[1]]}}, "knobs: depth: expected a number, word"),
        ({"knobs": {"depth": [1, 2], "mode": [1, 2, 3]}}, "expected as many values of each knob"),
        ({"knobs": {"depth": ["= open(1)"]}}, "knobs: depth:  open(1): unknown function open"),
        ({"knobs": {"a b": [1]}}, "knobs: a b: expected the name of a knob"),
        ({"riskier": {"width": "larger"}}, 'riskier: unknown knob "width"'),
        ({"riskier": {"depth": "more"}}, "riskier: depth: expected one of larger, smaller"),
        ({"applies": "true"}, "applies: expected a list, got 'true'"),
        ({"applies": ["knob.x >"]}, "lever mine: applies: knob.x >: expected an expression"),
        ({"applies": ['cause("host lunch") > 0']}, 'unknown cause "host lunch"'),
        ({"applies": ['term("flor") > 0']}, 'unknown term "flor"'),
        ({"addresses": ["host lunch"]}, 'addresses: unknown cause or term "host lunch"'),
        ({"changes": ["launch=rocket"]}, "lever mine: changes: "),
        ({"changes": ["batch={width}"]}, 'changes: batch={width}: unknown knob "width"'),
        ({"safety": "dangerous"}, "safety: expected one of safe, may slow, may fail"),
        ({"hot": "yes"}, "hot: expected true or false, got 'yes'"),
        ({"correctness": "fine"}, "correctness: expected one of bitwise, rounding, lossy"),
    ],
)
def test_mistakes_are_named(changes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        levers({**GOOD, **changes})
    assert caught.value.message.startswith("lever file x: ")
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"format": "other"}, "expected format: assay.levers/1, got other"),
        ({"levers": []}, "levers: expected a list of levers, got []"),
        ({"levers": [3]}, "lever 1: expected keys such as name and knobs, got 3"),
        ({"levers": [GOOD, GOOD]}, "lever mine: expected each name once, got it twice"),
        ({"levers": [GOOD] * 501}, "levers: expected at most 500, got 501"),
        ({"engine": None}, "expected format, engine, levers, engine missing"),
        ({"more": 1}, 'unknown key "more"'),
    ],
)
def test_documents_that_are_none(document: Mapping[str, Any], why: str) -> None:
    with pytest.raises(InputError) as caught:
        levers(**document)
    assert why in caught.value.message


def test_a_list_is_no_lever_file() -> None:
    with pytest.raises(InputError, match=r"expected format: assay\.levers/1, got list"):
        levers_of([], "lever file x")
