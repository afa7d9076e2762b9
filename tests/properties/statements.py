"""Statements that many invariants make: order and bounds; and bugs that break them."""

from __future__ import annotations

from collections.abc import Callable

from property_harness import SLACK, Answers, Bug, Draw, Violation

Check = Callable[[Draw, Answers], Violation | None]


def scaled(name: str, factor: Callable[[Draw], float]) -> Bug:
    """A product that answers a variable times a factor by the draw."""
    return lambda draw, what, number: number * factor(draw) if what == name else number


def by(name: str, power: float = 1.0) -> Callable[[Draw], float]:
    """A factor that goes by a value of the draw, where it has one."""
    return lambda draw: draw.given(name) ** power if draw.has(name) else 1.0


def _ordered(name: str, change: str, factor: float, sign: int) -> Check:
    def check(draw: Draw, answers: Answers) -> Violation | None:
        if not draw.has(change):
            return None
        more = draw.changed({change: draw.given(change) * factor})
        before, after = answers.value(draw, name), answers.value(more, name)
        if not sign * (after - before) < -SLACK * abs(before):
            return None
        text = f"{name} went from {before:.6g} to {after:.6g} with {factor:g} times {change}"
        return Violation(text, name, (draw, more))

    return check


def not_below(name: str, change: str, factor: float = 2.0) -> Check:
    """A figure does not fall when a value of the draw grows."""
    return _ordered(name, change, factor, 1)


def not_above(name: str, change: str, factor: float = 2.0) -> Check:
    """A figure does not grow when a value of the draw grows."""
    return _ordered(name, change, factor, -1)


def at_most(name: str, bound: str) -> Check:
    """A figure is at most another."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        value, most = answers.value(draw, name), answers.value(draw, bound)
        if value <= most * (1 + SLACK):
            return None
        return Violation(
            f"{name}: expected at most {bound}, {most:.6g}, got {value:.6g}", name, (draw,)
        )

    return check
