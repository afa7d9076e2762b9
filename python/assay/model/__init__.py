"""The equation language: declare variables and relations with units, then ask questions."""

from assay.model.language.distributions import Distribution, interval90
from assay.model.language.dynamics import Differential, Iterative, Stochastic
from assay.model.language.expression import (
    Expression,
    Symbol,
    ceil,
    cos,
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
    tanh,
    total,
    where,
)
from assay.model.language.quantity import Quantity, parse_quantity
from assay.model.language.relations import Approximation, Equation, Inequality, Piecewise, Relation
from assay.model.language.scope import ANY_SIGN, NONNEGATIVE, POSITIVE, Scope
from assay.model.language.units import Unit, parse_unit
from assay.model.language.variables import (
    UNSOURCED,
    Constant,
    Reference,
    Variable,
    by_definition,
    cited,
)
from assay.model.preset import Preset
from assay.model.registry import Block, Registry
from assay.model.resolving.resolution import Resolution

__all__ = [
    "ANY_SIGN",
    "NONNEGATIVE",
    "POSITIVE",
    "UNSOURCED",
    "Approximation",
    "Block",
    "Constant",
    "Differential",
    "Distribution",
    "Equation",
    "Expression",
    "Inequality",
    "Iterative",
    "Piecewise",
    "Preset",
    "Quantity",
    "Reference",
    "Registry",
    "Relation",
    "Resolution",
    "Scope",
    "Stochastic",
    "Symbol",
    "Unit",
    "Variable",
    "by_definition",
    "ceil",
    "cited",
    "cos",
    "equal",
    "erf",
    "exp",
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
    "tanh",
    "total",
    "where",
]
