"""Every operation an expression may contain, in one table.

A row has an operation's function on floats, the rule for its unit, its text form, and the tape
instruction that computes it. Arithmetic follows IEEE 754: a division by zero yields an infinity,
which the caller reports, so that the branch of a `where` that is not selected raises nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

INFINITY: Final = math.inf
NAN: Final = math.nan


class UnitRule(Enum):
    """How the unit of a result follows from the units of the operands."""

    SAME = "all operands and the result share one unit"
    WHOLE = "the operand is counted in a coherent unit, which the result keeps"
    PRODUCT = "units multiply"
    QUOTIENT = "units divide"
    ROOT = "the unit's square root"
    POWER = "a number as exponent raises the unit; else base and exponent are pure numbers"
    PURE = "operands and result are pure numbers"
    COMPARISON = "operands share one unit, the result is a truth value"
    LOGIC = "operands and result are truth values"
    CHOICE = "a truth value, then two operands that share the result's unit"


class Operator(NamedTuple):
    """One operation; `precedence` and `form` say how it is printed."""

    name: str
    arity: int
    rule: UnitRule
    evaluate: Callable[..., float]
    form: str
    precedence: int = 100
    sympy: str = ""


def _guard(function: Callable[..., float], domain: float = NAN) -> Callable[..., float]:
    def guarded(*operands: float) -> float:
        try:
            return function(*operands)
        except OverflowError:
            return INFINITY
        except ValueError:
            return domain

    return guarded


def _divide(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return NAN
    return math.copysign(INFINITY, a) * math.copysign(1.0, b)


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -INFINITY if a < 0 and b % 2 == 1 else INFINITY
    except ValueError:
        return INFINITY if a == 0.0 else NAN


def _modulo(a: float, b: float) -> float:
    return a % b if b != 0.0 and math.isfinite(a) else NAN


def _minimum(a: float, b: float) -> float:
    return a if a <= b or a != a else b


def _maximum(a: float, b: float) -> float:
    return a if a >= b or a != a else b


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda a: float(function(a)) if math.isfinite(a) else a


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    def guarded(a: float) -> float:
        if a > 0.0:
            return function(a)
        return -INFINITY if a == 0.0 else NAN

    return guarded


def _choose(condition: float, a: float, b: float) -> float:
    return a if condition else b


_ROWS: Final[tuple[Operator, ...]] = (
    Operator("add", 2, UnitRule.SAME, lambda a, b: a + b, "{} + {}", 50),
    Operator("sub", 2, UnitRule.SAME, lambda a, b: a - b, "{} - {}", 50),
    Operator("mul", 2, UnitRule.PRODUCT, lambda a, b: a * b, "{} * {}", 60),
    Operator("div", 2, UnitRule.QUOTIENT, _divide, "{} / {}", 60),
    Operator("neg", 1, UnitRule.SAME, lambda a: -a, "-{}", 70),
    Operator("pow", 2, UnitRule.POWER, _power, "{} ^ {}", 80),
    Operator("sqrt", 1, UnitRule.ROOT, _guard(math.sqrt), "sqrt({})", sympy="sqrt"),
    Operator("exp", 1, UnitRule.PURE, _guard(math.exp), "exp({})", sympy="exp"),
    Operator("log", 1, UnitRule.PURE, _logarithm(math.log), "log({})", sympy="log"),
    Operator("log2", 1, UnitRule.PURE, _logarithm(math.log2), "log2({})"),
    Operator("log10", 1, UnitRule.PURE, _logarithm(math.log10), "log10({})"),
    Operator("sin", 1, UnitRule.PURE, _guard(math.sin), "sin({})", sympy="sin"),
    Operator("cos", 1, UnitRule.PURE, _guard(math.cos), "cos({})", sympy="cos"),
    Operator("tan", 1, UnitRule.PURE, _guard(math.tan), "tan({})", sympy="tan"),
    Operator("atan", 1, UnitRule.PURE, math.atan, "atan({})", sympy="atan"),
    Operator("tanh", 1, UnitRule.PURE, math.tanh, "tanh({})", sympy="tanh"),
    Operator("erf", 1, UnitRule.PURE, math.erf, "erf({})", sympy="erf"),
    Operator("abs", 1, UnitRule.SAME, abs, "abs({})", sympy="Abs"),
    Operator("minimum", 2, UnitRule.SAME, _minimum, "min({}, {})", sympy="Min"),
    Operator("maximum", 2, UnitRule.SAME, _maximum, "max({}, {})", sympy="Max"),
    Operator("floor", 1, UnitRule.WHOLE, _whole(math.floor), "floor({})", sympy="floor"),
    Operator("ceil", 1, UnitRule.WHOLE, _whole(math.ceil), "ceil({})", sympy="ceiling"),
    Operator("modulo", 2, UnitRule.SAME, _modulo, "{} % {}", 60, "Mod"),
    Operator("lt", 2, UnitRule.COMPARISON, lambda a, b: float(a < b), "{} < {}", 40, "Lt"),
    Operator("le", 2, UnitRule.COMPARISON, lambda a, b: float(a <= b), "{} <= {}", 40, "Le"),
    Operator("gt", 2, UnitRule.COMPARISON, lambda a, b: float(a > b), "{} > {}", 40, "Gt"),
    Operator("ge", 2, UnitRule.COMPARISON, lambda a, b: float(a >= b), "{} >= {}", 40, "Ge"),
    Operator("eq", 2, UnitRule.COMPARISON, lambda a, b: float(a == b), "{} == {}", 40, "Eq"),
    Operator("ne", 2, UnitRule.COMPARISON, lambda a, b: float(a != b), "{} != {}", 40, "Ne"),
    Operator(
        "and", 2, UnitRule.LOGIC, lambda a, b: float(bool(a) and bool(b)), "{} and {}", 30, "And"
    ),
    Operator("or", 2, UnitRule.LOGIC, lambda a, b: float(bool(a) or bool(b)), "{} or {}", 20, "Or"),
    Operator("not", 1, UnitRule.LOGIC, lambda a: float(not a), "not {}", 35, "Not"),
    Operator("select", 3, UnitRule.CHOICE, _choose, "where({}, {}, {})"),
)

OPERATORS: Final[dict[str, Operator]] = {row.name: row for row in _ROWS}

COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")


def to_sympy(name: str, operands: list[Any]) -> Any:
    """Apply the SymPy counterpart of an operation."""
    import sympy

    arithmetic: dict[str, Callable[..., Any]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "neg": lambda a: -a,
        "pow": lambda a, b: a**b,
        "log2": lambda a: sympy.log(a, 2),
        "log10": lambda a: sympy.log(a, 10),
        "select": lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
    }
    if name in arithmetic:
        return arithmetic[name](*operands)
    if name in ("minimum", "maximum") and not all(operand.is_number for operand in operands):
        # SymPy would compare the two formulas symbolically, which takes minutes for long ones.
        return getattr(sympy, OPERATORS[name].sympy)(*operands, evaluate=False)
    return getattr(sympy, OPERATORS[name].sympy)(*operands)
