"""The equation language: declare variables and relations with units, then ask questions.

- `language/`: units, expressions, relations, scopes. `declarations.py`: all declarations by name;
  `registry.py`: declarations with queries as methods.
- A folder per kind of query: `resolving/`, `solving/`, `optimizing/`, `uncertainty/`, `comparing/`
  (differences, sensitivities), `graphs/`, `auditing/`.
- `tapes/` lowers a cone to a tape, for queries of many points.
"""

from typing import TYPE_CHECKING, Any

from assay.model.declarations import SimultaneousBlock as SimultaneousBlock
from assay.model.language.distributions import (
    Distribution as Distribution,
    interval90 as interval90,
)
from assay.model.language.dynamics import (
    Differential as Differential,
    Iterative as Iterative,
    Stochastic as Stochastic,
)
from assay.model.language.expression import Expression as Expression, Symbol as Symbol
from assay.model.language.functions import (
    at_least as at_least,
    atan as atan,
    below as below,
    ceil as ceil,
    cos as cos,
    different as different,
    equal as equal,
    erf as erf,
    exp as exp,
    floor as floor,
    log as log,
    log2 as log2,
    log10 as log10,
    maximum as maximum,
    minimum as minimum,
    number as number,
    sin as sin,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
    total as total,
    where as where,
)
from assay.model.language.quantity import Quantity as Quantity, parse_quantity as parse_quantity
from assay.model.language.references import (
    UNSOURCED as UNSOURCED,
    Reference as Reference,
    by_definition as by_definition,
    cited as cited,
    fitted as fitted,
)
from assay.model.language.relations import (
    Approximation as Approximation,
    Equation as Equation,
    Inequality as Inequality,
    Piecewise as Piecewise,
    Relation as Relation,
)
from assay.model.language.units import Unit as Unit, parse_unit as parse_unit
from assay.model.language.variables import Constant as Constant, Variable as Variable
from assay.model.registry import Registry as Registry
from assay.model.resolving.resolution import Resolution as Resolution

if TYPE_CHECKING:
    from assay.model.language.scope import (
        ANY_SIGN as ANY_SIGN,
        NONNEGATIVE as NONNEGATIVE,
        POSITIVE as POSITIVE,
        Scope as Scope,
    )


_TO_DECLARE = ("ANY_SIGN", "NONNEGATIVE", "POSITIVE", "Scope")
"""Names that only declarations need: a question of a stored registry declares nothing."""


def __getattr__(name: str) -> Any:
    if name not in _TO_DECLARE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.model.language import scope

    return getattr(scope, name)
