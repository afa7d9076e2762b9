"""The equation language: declare variables and relations with units, then ask questions."""

from typing import TYPE_CHECKING, Any

from assay.model.declarations import SimultaneousBlock
from assay.model.language.distributions import Distribution, interval90
from assay.model.language.dynamics import Differential, Iterative, Stochastic
from assay.model.language.expression import Expression, Symbol
from assay.model.language.functions import (
    at_least,
    atan,
    below,
    ceil,
    cos,
    different,
    equal,
    erf,
    exp,
    floor,
    log,
    log2,
    log10,
    maximum,
    minimum,
    number,
    sin,
    sqrt,
    tan,
    tanh,
    total,
    where,
)
from assay.model.language.quantity import Quantity, parse_quantity
from assay.model.language.references import UNSOURCED, Reference, by_definition, cited, fitted
from assay.model.language.relations import Approximation, Equation, Inequality, Piecewise, Relation
from assay.model.language.units import Unit, parse_unit
from assay.model.language.variables import Constant, Variable
from assay.model.registry import Registry
from assay.model.resolving.resolution import Resolution

if TYPE_CHECKING:
    from assay.model.language.scope import ANY_SIGN, NONNEGATIVE, POSITIVE, Scope

__all__ = [
    "ANY_SIGN",
    "NONNEGATIVE",
    "POSITIVE",
    "UNSOURCED",
    "Approximation",
    "Constant",
    "Differential",
    "Distribution",
    "Equation",
    "Expression",
    "Inequality",
    "Iterative",
    "Piecewise",
    "Quantity",
    "Reference",
    "Registry",
    "Relation",
    "Resolution",
    "Scope",
    "SimultaneousBlock",
    "Stochastic",
    "Symbol",
    "Unit",
    "Variable",
    "at_least",
    "atan",
    "below",
    "by_definition",
    "ceil",
    "cited",
    "cos",
    "different",
    "equal",
    "erf",
    "exp",
    "fitted",
    "floor",
    "interval90",
    "log",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "number",
    "parse_quantity",
    "parse_unit",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "total",
    "where",
]

_TO_DECLARE = ("ANY_SIGN", "NONNEGATIVE", "POSITIVE", "Scope")
"""Names that only declarations need: a question of a stored registry declares nothing."""


def __getattr__(name: str) -> Any:
    if name not in _TO_DECLARE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.model.language import scope

    return getattr(scope, name)
