"""Scopes: declarations of variables and relations, one line each.

scope = Scope("training", "What a training run takes")
steps = scope.declare("steps, n: optimizer steps in the run", boundary="scenario")
step_time = scope.declare("step_time, t [s]: time of one step", boundary="scenario")
scope.declare("time, T [s as h]: time of the whole run", equals=steps * step_time)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from assay.errors import DeclarationError
from assay.model.language.check import declared_unit
from assay.model.language.distributions import KINDS
from assay.model.language.encoding import encode
from assay.model.language.expression import Expression, Number, Operand, Symbol, as_expression
from assay.model.language.quantity import check_dimension, parse_quantity
from assay.model.language.references import UNSOURCED, Reference
from assay.model.language.units import Unit
from assay.model.language.variables import BOUNDARIES, FLAG, NATURES, Constant, Variable

ANY_SIGN = (None, None)
NONNEGATIVE = (0, None)
POSITIVE = ("positive", None)
"""Bounds that exclude zero itself; a number or a text with a unit may stand at either end."""

Bound = float | int | str | None
_TINY = 5e-324
_HEADING = re.compile(r"([\w.]+), ([^\s:]+)(?: \[(.+?)(?: as (.+?))?\])?: (.+)")


class VariableFacts(TypedDict, total=False):
    """What a variable may state under its heading; `Scope.variable` describes each."""

    equals: Operand | None
    bounds: tuple[Bound, Bound]
    reference: Reference
    boundary: str | None
    family: str | None
    target: bool
    library: bool
    nature: str
    cases: Sequence[str]


class RelationFacts(TypedDict, total=False):
    """What every relation may state besides its expressions."""

    name: str | None
    reference: Reference
    meaning: str
    library: bool


class Scope:
    """An ordered collection of declarations under one name."""

    def __init__(self, name: str, meaning: str) -> None:
        """Open a scope; its names start with `name` and a dot."""
        self.name = name
        self.meaning = meaning
        self.variables: list[Variable] = []
        self.relations: list[dict[str, Any]] = []
        self.blocks: list[dict[str, Any]] = []

    def variable(
        self,
        name: str,
        symbol: str,
        unit: str,
        meaning: str,
        *,
        equals: Operand | None = None,
        display: str | None = None,
        bounds: tuple[Bound, Bound] = NONNEGATIVE,
        reference: Reference = UNSOURCED,
        boundary: str | None = None,
        family: str | None = None,
        target: bool = False,
        library: bool = False,
        nature: str = "measure",
        cases: Sequence[str] = (),
    ) -> Variable:
        """Declare a quantity and, with `equals`, the identity that defines it.

        Quantities are non-negative unless their bounds say otherwise. For a quantity without a
        defining relation, `boundary` says why: `decompose` (a later layer will compute it),
        `primitive` (a datum), `scenario` (a choice), `needs-source`. Its `nature` is `measure`,
        `count` (given as a whole number) or `difference` (of two temperatures).
        """
        full = f"{self.name}.{name}"
        declared = self._variable_facts(full, unit, display, bounds)
        if boundary is not None and boundary not in BOUNDARIES:
            raise DeclarationError(
                f'variable {full}: unknown boundary "{boundary}"',
                f"one of: {', '.join(BOUNDARIES)}",
            )
        if nature not in NATURES:
            raise DeclarationError(
                f'variable {full}: unknown nature "{nature}"', f"one of: {', '.join(NATURES)}"
            )
        variable = Variable(
            full, scope=self.name, symbol=symbol, meaning=meaning, reference=reference,
            boundary=boundary, family=family, target=target, library=library, nature=nature,
            cases=cases, **declared,
        )  # fmt: skip
        self.variables.append(variable)
        if equals is not None:
            self.equation(variable, equals, reference=reference, library=library)
        return variable

    def declare(self, heading: str, **facts: Unpack[VariableFacts]) -> Variable:
        """Declare a variable by a heading, as a textbook lists its symbols.

        `"step.energy, E_step [J as kWh]: energy of one step"` has the name, the symbol, the unit, the
        unit of display where it differs, and the meaning; a pure number has no unit. The facts are
        those of `variable`.
        """
        match = _HEADING.fullmatch(heading)
        if match is None:
            raise DeclarationError(
                f'malformed heading "{heading}" in {self.name}',
                'write "name, symbol [unit]: meaning" or "name, symbol [unit as unit shown]: meaning"',
            )
        name, symbol, unit, display, meaning = match.groups()
        return self.variable(name, symbol, unit or "1", meaning, display=display, **facts)

    def choice(
        self,
        heading: str,
        cases: Mapping[str, str],
        /,
        *,
        first: int = 0,
        default: str | None = None,
        **facts: Unpack[VariableFacts],
    ) -> Variable:
        """Declare a variable that takes one of named cases; `cases` has the meaning of each.

        Answers have the case as a number, from `first` on; inputs may name it. `default` is the case
        where none is given.
        """
        meanings = ", ".join(
            f"{number} {text}" for number, text in enumerate(cases.values(), first)
        )
        if default is not None:
            number = first + tuple(cases).index(default)
            meanings += f". Unless given, {number}"
            facts["equals"] = Number(number)
        facts |= {"cases": tuple(cases), "bounds": (first, first + len(cases) - 1)}
        return self.declare(f"{heading}: {meanings}", **facts)

    def flag(self, heading: str, **facts: Unpack[VariableFacts]) -> Variable:
        """Declare a variable that is 1 (on) or 0 (off) and may stand where a condition does."""
        facts |= {"cases": FLAG, "bounds": (0, 1)}
        return self.declare(heading, **facts)

    def constant(
        self, name: str, symbol: str, value: str, meaning: str, *, reference: Reference
    ) -> Constant:
        """Declare a constant of nature, for example `constant("k_B", "k_B", "1.380649e-23 J/K", ...)`."""
        quantity = parse_quantity(value)
        constant = Constant(
            f"{self.name}.{name}", value=quantity.value, scope=self.name, symbol=symbol,
            unit=quantity.unit, meaning=meaning, reference=reference,
        )  # fmt: skip
        self.variables.append(constant)
        return constant

    def equation(self, variable: Variable, equals: Operand, **facts: Unpack[RelationFacts]) -> None:
        """State an identity; several for one variable are variants to choose from."""
        self._relation("equation", variable, {"expression": equals}, facts)

    def approximation(
        self,
        variable: Variable,
        equals: Operand,
        *,
        valid: Expression | None = None,
        **facts: Unpack[RelationFacts],
    ) -> None:
        """State a relation that holds approximately where `valid` is true."""
        parts: dict[str, Operand] = {"expression": equals}
        if valid is not None:
            parts["valid"] = valid.as_condition()
        self._relation("approximation", variable, parts, facts)

    def piecewise(
        self,
        variable: Variable,
        cases: Sequence[tuple[Expression, Operand]],
        *,
        otherwise: Operand | None = None,
        **facts: Unpack[RelationFacts],
    ) -> None:
        """State an identity case by case; the first condition that holds decides."""
        if not cases:
            raise DeclarationError(
                f"piecewise {variable.name}: expected at least one case, got none"
            )
        parts: dict[str, Operand] = {}
        for position, (condition, value) in enumerate(cases):
            parts[f"condition{position}"] = condition.as_condition()
            parts[f"case{position}"] = value
        if otherwise is not None:
            parts["otherwise"] = otherwise
        self._relation("piecewise", variable, parts, facts, cases=len(cases))

    def iterative(
        self,
        variable: Variable,
        update: Operand,
        *,
        start: Operand,
        tolerance: float = 1e-12,
        max_iterations: int = 1000,
        **facts: Unpack[RelationFacts],
    ) -> None:
        """State a fixed point: `update` refers to the variable and is repeated to convergence."""
        parts = {"update": update, "start": start}
        options = {"tolerance": tolerance, "max_iterations": max_iterations}
        self._relation("iterative", variable, parts, facts, **options)

    def differential(
        self,
        variable: Variable,
        rate: Operand,
        *,
        time: Symbol,
        time_like: Variable,
        initial: Operand,
        start: Operand,
        end: Operand,
        tolerance: float = 1e-9,
        **facts: Unpack[RelationFacts],
    ) -> None:
        """State dx/dt = rate; the variable is its value at `end`.

        `rate` may refer to the variable itself and to `time`, a symbol bound in this relation
        and measured like `time_like`.
        """
        parts = {"rate": rate, "initial": initial, "start": start, "end": end}
        options = {"time": time.name, "time_like": time_like.name, "tolerance": tolerance}
        self._relation("differential", variable, parts, facts, **options)

    def stochastic(
        self,
        variable: Variable,
        distribution: str,
        *parameters: Operand,
        **facts: Unpack[RelationFacts],
    ) -> None:
        """State that the variable is drawn from a distribution with these parameters."""
        if distribution not in KINDS or len(parameters) != len(KINDS[distribution][0]):
            known = "; ".join(f"{kind}({', '.join(names)})" for kind, (names, _) in KINDS.items())
            raise DeclarationError(
                f"stochastic {variable.name}: {distribution} with {len(parameters)} parameters",
                f"known: {known}",
            )
        parts = {f"parameter{i}": parameter for i, parameter in enumerate(parameters)}
        self._relation("stochastic", variable, parts, facts, distribution=distribution)

    def inequality(
        self,
        name: str,
        condition: Expression,
        meaning: str,
        *,
        reference: Reference = UNSOURCED,
        library: bool = False,
    ) -> None:
        """State a constraint that a feasible scenario fulfills."""
        facts: RelationFacts = {"name": name, "meaning": meaning, "reference": reference}
        self._relation(
            "inequality",
            None,
            {"expression": condition.as_condition()},
            {**facts, "library": library},
        )

    def simultaneous(
        self, name: str, members: Sequence[Variable], starts: dict[str, str] | None = None
    ) -> None:
        """Declare that these variables define each other and are solved together.

        `starts` gives first guesses by full name where the solver needs one.
        """
        units = {member.name: member.unit for member in members}
        first: dict[str, float] = {}
        for key, text in (starts or {}).items():
            if key not in units:
                raise DeclarationError(
                    f"simultaneous block {self.name}.{name}: a start for {key}, "
                    "which is not one of its members"
                )
            quantity = parse_quantity(text)
            check_dimension(f"start of {key}", quantity.unit, units[key])
            first[key] = quantity.value
        self.blocks.append(
            {"name": f"{self.name}.{name}", "scope": self.name,
             "members": [member.name for member in members], "starts": first}
        )  # fmt: skip

    def _relation(
        self,
        kind: str,
        variable: Variable | None,
        parts: dict[str, Operand],
        facts: RelationFacts,
        **options: Any,
    ) -> None:
        own = variable.name if variable is not None else ""
        name = facts.get("name")
        reference = facts.get("reference", UNSOURCED)
        self.relations.append(
            {
                "kind": kind,
                "name": f"{self.name}.{name}" if name else own,
                "variable": own,
                "scope": self.name,
                "parts": {key: encode(as_expression(part)) for key, part in parts.items()},
                "reference": [reference.kind, reference.work, reference.where],
                "meaning": facts.get("meaning", ""),
                "library": facts.get("library", False),
                "options": options,
            }
        )

    def _variable_facts(
        self, full: str, unit: str, display: str | None, bounds: tuple[Bound, Bound]
    ) -> dict[str, Any]:
        declared = declared_unit(f"variable {full}", unit)
        shown = parse_display(full, display, declared)
        lower = self._bound(full, bounds[0], declared, -math.inf)
        upper = self._bound(full, bounds[1], declared, math.inf)
        if lower > upper:
            raise DeclarationError(
                f"variable {full}: lower bound {lower:g} lies above upper bound {upper:g}"
            )
        return {"unit": declared, "display": shown, "lower": lower, "upper": upper}

    def _bound(self, full: str, bound: Bound, unit: Unit, missing: float) -> float:
        if bound is None:
            return missing
        if bound == "positive":
            return _TINY
        if isinstance(bound, str):
            quantity = parse_quantity(bound)
            check_dimension(f"bound of {full}", quantity.unit, unit)
            return quantity.value
        return unit.to_coherent(float(bound))


def parse_display(full: str, display: str | None, declared: Unit) -> Unit:
    """Read a display unit, which may differ from the declared one in scale but not in kind."""
    from assay.model.language.units import parse_unit

    if display is None:
        return declared
    shown = parse_unit(display)
    check_dimension(f"display unit of {full}", shown, declared)
    return shown
