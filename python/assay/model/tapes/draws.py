"""A draw of an uncertain input as a tape: a standard normal score becomes a value.

A page draws points and has no distributions of its own: it passes the kind by number and the
parameters. A draw beyond the bounds of its variable lies on the bound; one of a count is whole.
"""

from __future__ import annotations

import math
from typing import Final

from assay._native import Tape
from assay.model.language.distributions import KINDS, Z90
from assay.model.language.expression import Expression, Number, Operation, Symbol
from assay.model.language.functions import maximum, minimum, where
from assay.model.tapes.program import TapeProgram

INPUTS: Final = ("kind", "first", "second", "third", "lower", "upper", "whole", "score")
"""Inputs of the tape: kind of distribution, its parameters, bounds, whether it is a count, score."""
ASSIGNED: Final = "assigned"
"""The kind of a value that a person states with the relative half-width of its 90 % interval."""
KIND_NUMBERS: Final = {kind: number for number, kind in enumerate((*KINDS, ASSIGNED))}


def draw_tape() -> Tape:
    """The tape of one draw."""
    program = TapeProgram(len(INPUTS))
    places = {name: program.input(place) for place, name in enumerate(INPUTS)}
    return program.finish([program.expression(_draw(), places.__getitem__)])


def _draw() -> Expression:
    first, second, third, score = map(Symbol, ("first", "second", "third", "score"))
    share = 0.5 * (1 + Operation("erf", score / math.sqrt(2)))
    width = where(third > first, third - first, 1.0)
    left = first + _function("sqrt", maximum(share * width * (second - first), 0.0))
    right = third - _function("sqrt", maximum((1 - share) * width * (third - second), 0.0))
    by_kind = {
        "normal": first + second * score,
        "lognormal": first * _function("exp", second * score),
        "uniform": first + (second - first) * share,
        "triangular": where(
            third > first, where(share < (second - first) / width, left, right), first
        ),
        ASSIGNED: first * _function("exp", _function("log1p", second) / Z90 * score),
    }
    drawn: Expression = Number(math.nan)
    for kind, value in by_kind.items():
        is_kind = Operation("eq", Symbol("kind"), Number(KIND_NUMBERS[kind]))
        drawn = where(is_kind, value, drawn)
    rounded = maximum(_function("round", drawn), _function("ceil", Symbol("lower")))
    number = where(Symbol("whole"), rounded, drawn)
    return minimum(maximum(number, Symbol("lower")), Symbol("upper"))


def _function(operator: str, operand: Expression) -> Expression:
    return Operation(operator, operand)
