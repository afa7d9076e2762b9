"""Changes as the command line writes them."""

from __future__ import annotations

import re

import pytest

from assay.diagnose.replay.changes import Amount, clock_ratio, parse, parse_all
from assay.errors import AssayError, InputError


@pytest.mark.parametrize(
    ("text", "kind", "target", "amount"),
    [
        ("op:attention=0.8x", "op", "attention", Amount(factor=0.8)),
        ("op:input_norm+qkv_proj=-20%", "op", "input_norm+qkv_proj", Amount(factor=0.8)),
        ("op:sampling=12us", "op", "sampling", Amount(ns=12_000)),
        ("kernel:nvjet.*splitK=1.5ms", "kernel", "nvjet.*splitK", Amount(ns=1_500_000)),
        ("host=0", "host", "", Amount(factor=0.0)),
        ("host=+10%", "host", "", Amount(factor=1.1)),
    ],
)
def test_amounts(text: str, kind: str, target: str, amount: Amount) -> None:
    found = parse(text)
    assert (found.kind, found.target) == (kind, target)
    assert found.amount is not None
    assert found.amount.factor == pytest.approx(amount.factor)
    assert found.amount.ns == amount.ns


@pytest.mark.parametrize(
    ("text", "value"),
    [("batch=64", 64.0), ("context=4096", 4096.0), ("kv=fp8", "fp8"), ("launch=graph", "graph"),
     ("rate=7.5", 7.5), ("policy=shortest", "shortest"), ("clock=1.2GHz", "1.2ghz")],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    assert parse(text).value == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bach=64", 'unknown change "bach"'),
        ("batch", "expected batch=COUNT"),
        ("batch=0", "expected a whole number from 1, got 0"),
        ("batch=1e9", "expected a whole number from 1, got 1e9"),
        ("op:attention", "expected op:NAME=AMOUNT"),
        ("op:atention=0.5x", 'unknown operation "atention"'),
        ("op:attention=fast", "expected an amount such as 0.8x, -20% or 12us, got fast"),
        ("op:attention=-1x", "expected at least 0, got -1x"),
        ("kernel:(=0.5x", "expected a regular expression"),
        ("launch=eager", "expected launch=graph, got eager"),
        ("rate=nan", "expected requests a second above 0, got nan"),
        ("clock=fast", "expected 1200MHz, 1.2GHz or 0.8x, got fast"),
        ("batch:x=3", "expected batch=VALUE"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(AssayError, match=re.escape(message)):
        parse(text)


def test_one_thing_is_changed_once() -> None:
    with pytest.raises(InputError, match='"batch=8": "batch=4" changes the same already'):
        parse_all(["batch=4", "batch=8"])
    assert len(parse_all(["op:attention=0.5x", "op:sampling=0.5x"])) == 2


def test_clock() -> None:
    assert clock_ratio("0.8x", None, "") == 0.8
    assert clock_ratio("915mhz", 1.83e9, "") == pytest.approx(0.5)
    with pytest.raises(InputError, match="the clock of the trace is not known"):
        clock_ratio("915mhz", None, "clock=915MHz")
