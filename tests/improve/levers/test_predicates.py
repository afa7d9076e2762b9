"""Expressions of levers: what they mean, what is unknown, and what is refused."""

import pytest

from assay.errors import InputError
from assay.improve.levers.facts import Facts
from assay.improve.levers.predicates import parse

FACTS = Facts(
    capabilities=frozenset({"cuda-graphs"}),
    settings={"depth": 4, "eager": True, "mode": "auto", "share": 0.9, "unset": None},
    workload={"concurrency": 8, "rate": None},
    hardware={"usable_cores": 2},
    causes={"host launch": 0.5},
    terms={"floor": 0.25},
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('capability("cuda-graphs")', True),
        ('capability("speculation")', False),
        ("knob.eager == true", True),
        ("knob.depth == true", False),
        ('knob.mode != "off"', True),
        ("2 * knob.depth - 1", 7),
        ("knob.depth / 2", 2.0),
        ("-knob.depth < 0 <= workload.concurrency", True),
        ('cause("host launch") > 0.05', True),
        ('cause("sampling") > 0', False),
        ('term("floor")', 0.25),
        ('has_knob("depth") and not has_knob("width")', True),
        ("min(workload.concurrency, hardware.usable_cores)", 2),
        ("knob.depth if knob.depth > 9 else null", None),
        ("knob.unset == null", True),
        ("knob.depth != null", True),
        # What is not known stays so, unless the rest decides.
        ("knob.width > 1", None),
        ("workload.rate > 1 and knob.eager", None),
        ("workload.rate > 1 and knob.depth > 9", False),
        ("workload.rate > 1 or knob.depth < 9", True),
        ("not workload.rate > 1", None),
        ("max(workload.rate, 1)", None),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse(text, "lever x: applies").value(FACTS) == value


def test_without_a_diagnosis_causes_are_not_known() -> None:
    blind = Facts(frozenset(), {}, {}, {}, None)
    assert parse('cause("host launch") > 0.05', "lever x").value(blind) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os').system('ls')", "Call is not part of these expressions at column 1"),
        ("knob.__class__.__mro__", "Attribute is not part of these expressions at column 1"),
        ("open('x')", "unknown function open at column 1"),
        ("[1 for _ in 'ab']", "ListComp is not part"),
        ("lambda: 1", "Lambda is not part"),
        ("2 ** 99999999", "BinOp is not part"),
        ("'a' % 1", "BinOp is not part"),
        ("knob['x']", "Subscript is not part"),
        ("f'{1}'", "JoinedStr is not part"),
        ("(x := 1)", "NamedExpr is not part"),
        ("capability(knob.x)", 'expected capability("a name")'),
        ("capability()", 'expected capability("a name")'),
        ("min(1)", "expected min(a, b)"),
        ("gpu == 'H100'", "unknown name gpu at column 1"),
        ("hardware.device_description == 'x'", 'unknown hardware fact "device_description"'),
        ("workload.concurency > 1", 'unknown workload fact "concurency" at column 1'),
        ("1 +", "1 +: expected an expression, got: invalid syntax"),
        ("1; 2", "expected an expression, got at column"),
        ("", "expected an expression, got ''"),
        ("1 + " * 200 + "1", "expected at most 400 characters, got 801"),
        ("not " * 99 + "true", "at most 40 levels"),
    ],
)
def test_what_is_not_in_the_language_is_refused_by_lever_and_place(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "lever x: applies")
    assert caught.value.message.startswith("lever x: applies: ")
    assert why in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("knob.mode > 1", "expected a number, got 'auto'"),
        ("knob.depth and knob.eager", "expected true or false, got 4 of knob.depth"),
        ("knob.eager + 1", "expected a number, got True"),
        ("1 / (knob.depth - 4)", "division by zero"),
        ("1e308 * 10 * knob.depth", "expected a finite number, got inf"),
    ],
)
def test_values_that_do_not_fit_are_refused(text: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "lever x: applies").value(FACTS)
    assert caught.value.message == f"lever x: applies: {text}: {why}"
