"""Variables that take one of named cases, and flags."""

from __future__ import annotations

import pytest

from assay.errors import DeclarationError, InputError, UnitError
from assay.model import Registry, Scope, where

SCOPE = Scope("job", "A job")
RECOMPUTE = SCOPE.choice(
    "recompute, r: recomputation",
    {"none": "none", "selective": "attention", "full": "every layer"},
    default="none",
)
TABLES = SCOPE.choice(
    "tables, n: embeddings", {"tied": "tied", "untied": "untied"}, first=1, boundary="primitive"
)
OVERLAP = SCOPE.flag("overlap, u: 1: communication overlaps", boundary="scenario")
SCOPE.declare("passes, p: passes", equals=where(RECOMPUTE.is_("selective"), 2, 1))
SCOPE.declare("kept, k: kept", equals=where(RECOMPUTE.is_at_least("selective"), 1, 0))
SCOPE.declare("shared, s: shared", equals=where(TABLES.is_("tied"), 1, 0))
SCOPE.declare(
    "exposed, e: exposed", equals=where(~OVERLAP, 1, where(OVERLAP & TABLES.is_("tied"), 2, 3))
)
REGISTRY = Registry.from_scopes([SCOPE])


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        ("passes", {}, 1),
        ("passes", {"recompute": "selective"}, 2),
        ("passes", {"recompute": 1}, 2),
        ("passes", {"recompute": "1"}, 2),
        ("passes", {"recompute": " full "}, 1),
        ("kept", {"recompute": "full"}, 1),
        ("kept", {"recompute": "none"}, 0),
        ("shared", {"tables": "tied"}, 1),
        ("shared", {"tables": 2}, 0),
        ("exposed", {"overlap": "off", "tables": "tied"}, 1),
        ("exposed", {"overlap": "on", "tables": "tied"}, 2),
        ("exposed", {"overlap": 1, "tables": 2}, 3),
    ],
)
def test_cases_are_given_by_name_or_number(
    target: str, given: dict[str, str | int], expected: int
) -> None:
    inputs = {f"job.{name}": value for name, value in given.items()}
    assert REGISTRY.resolve(f"job.{target}", inputs).value == expected


@pytest.mark.parametrize("value", ["selectiv", 0.5, 3, -1, "1.5"])
def test_what_is_no_case_is_refused_with_the_cases(value: str | float) -> None:
    with pytest.raises(InputError) as caught:
        REGISTRY.resolve("job.passes", {"job.recompute": value})
    message = f"job.recompute: expected one of none (0), selective (1), full (2), got {value}"
    assert str(caught.value).splitlines()[0] == message


def test_units_are_still_refused() -> None:
    with pytest.raises(UnitError, match="unit mismatch"):
        REGISTRY.resolve("job.passes", {"job.recompute": "1 kg"})


def test_meaning_lists_the_cases_and_the_default() -> None:
    meaning = REGISTRY.variable("job.recompute").meaning
    assert meaning == "recomputation: 0 none, 1 attention, 2 every layer. Unless given, 0"
    assert REGISTRY.variable("job.tables").meaning == "embeddings: 1 tied, 2 untied"


def test_conditions_name_declared_cases() -> None:
    with pytest.raises(DeclarationError, match=r'job\.recompute has no case "half"'):
        RECOMPUTE.is_("half")
    with pytest.raises(DeclarationError, match=r's\.x has no case "on"'):
        Scope("s", "").declare("x, x: any").is_("on")
