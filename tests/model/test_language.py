"""Declarations as text and as data: how they are printed, and what they refuse."""

from __future__ import annotations

import pytest

from assay.errors import ConvergenceError, DeclarationError, UnitError
from assay.model import ANY_SIGN, Expression, Registry, Scope, Symbol, number

A, B, C = Symbol("a"), Symbol("b"), Symbol("c")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A - (B - C), "a - (b - c)"),
        (A + (B + C), "a + b + c"),
        (A / (B * C), "a / (b * c)"),
        (A * (B % C), "a * (b % c)"),
        ((A * B) % C, "a * b % c"),
        ((A**B) ** C, "(a ^ b) ^ c"),
        (A ** (B**C), "a ^ (b ^ c)"),
        (-(A**B), "-a ^ b"),
        ((-A) ** B, "(-a) ^ b"),
        (~((A < B) & (B < C)), "not (a < b and b < c)"),
    ],
)
def test_text_of_an_expression_keeps_its_grouping(expression: Expression, text: str) -> None:
    assert str(expression) == text


@pytest.mark.parametrize("text", ["inf W", "nan", "-inf s", "1e400 W", "1e308 TW", "six W", ""])
def test_literals_are_finite_numbers(text: str) -> None:
    with pytest.raises(DeclarationError, match="is not a finite number"):
        number(text)


def test_starts_of_a_block_name_its_members() -> None:
    scope = Scope("s", "a block")
    power = scope.variable("power", "P", "W", "power")
    with pytest.raises(UnitError, match=r"start of s\.power: expected W, got s"):
        scope.simultaneous("loop", [power], {"s.power": "5 s"})
    with pytest.raises(DeclarationError, match=r"a start for s\.pwer, which is not one of its"):
        scope.simultaneous("loop", [power], {"s.pwer": "5 W"})


def test_diverging_iteration_reports_the_iteration() -> None:
    scope = Scope("s", "an iteration")
    x = scope.variable("x", "x", "1", "iterate", bounds=ANY_SIGN)
    scope.iterative(x, x * x, start=10)
    with pytest.raises(
        ConvergenceError, match=r"s\.x leaves the finite numbers after 9 iterations"
    ):
        Registry.from_scopes([scope]).resolve("s.x")


def test_a_heading_declares_what_its_parts_declare() -> None:
    scope = Scope("s", "")
    energy = scope.declare("step.energy, E_1 [J as kWh]: energy: of one step", boundary="scenario")
    other = Scope("s", "").variable(
        "step.energy", "E_1", "J", "energy: of one step", display="kWh", boundary="scenario"
    )
    for fact in ("name", "symbol", "meaning", "unit", "display", "lower", "boundary"):
        assert getattr(energy, fact) == getattr(other, fact)
    assert scope.declare("share, s: of all").unit == number("1").unit


@pytest.mark.parametrize("heading", ["energy", "energy, E [J] of a step", "energy [J]: of a step"])
def test_a_malformed_heading_is_refused(heading: str) -> None:
    with pytest.raises(DeclarationError, match="malformed heading"):
        Scope("s", "").declare(heading)
