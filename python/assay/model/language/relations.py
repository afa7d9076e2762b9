"""Relations between variables.

Expressions are stored encoded and decoded on first use, so that a registry of thousands of
relations loads in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from assay.errors import DeclarationError, EvaluationError
from assay.lazy_import import LazyModule
from assay.model.language.encoding import (
    evaluate_entries,
    evaluate_partly,
    expression_of_entries,
    read_entries,
    variables_of_entries,
)
from assay.model.language.expression import (
    Expression,
    Number,
    Operation,
    as_sympy,
    evaluate_nodes,
    postorder,
    to_text,
)
from assay.model.language.functions import where
from assay.model.language.operators import COMPARISONS
from assay.model.language.references import UNSOURCED, Reference
from assay.model.language.units import Unit

if TYPE_CHECKING:
    from assay.model.language import check
else:
    # Only declarations are checked; those of a stored registry were.
    check = LazyModule("assay.model.language.check", globals(), "check")


@dataclass(eq=False)
class Relation:
    """A statement about variables. `variable` is the one it defines, if it defines one."""

    kind: ClassVar[str] = ""
    is_identity: ClassVar[bool] = True

    name: str
    variable: str
    scope: str
    parts: dict[str, str]
    reference: Reference = UNSOURCED
    meaning: str = ""
    library: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    position: int = 0
    _formula: Callable[[Sequence[str], Mapping[str, float]], float] | None = field(
        default=None, init=False, repr=False
    )

    def part(self, name: str) -> Expression:
        """One of the expressions the relation is made of."""
        cache: dict[str, Expression] = self.__dict__.setdefault("_decoded", {})
        if name not in cache:
            cache[name] = expression_of_entries(self.entries(name))
        return cache[name]

    def entries(self, name: str) -> list[Any]:
        """The entries of one of the expressions."""
        cache: dict[str, list[Any]] = self.__dict__.setdefault("_entries", {})
        if name not in cache:
            cache[name] = read_entries(self.parts[name])
        return cache[name]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the variables the relation needs, in order of appearance."""
        names: dict[str, None] = {}
        for part in self.parts:
            if part != "valid":
                names.update(dict.fromkeys(variables_of_entries(self.entries(part))))
        for own in self.own_symbols:
            names.pop(own, None)
        return tuple(names)

    def use_formula(self, formula: Callable[[Sequence[str], Mapping[str, float]], float]) -> None:
        """Compute the right-hand side by a function of its inputs instead of its expression."""
        self._formula = formula

    def use_inputs(self, inputs: Sequence[str], valid_inputs: Sequence[str]) -> None:
        """Take names of inputs that are known already, so that expressions need not be read."""
        self.inputs, self.valid_inputs = tuple(inputs), tuple(valid_inputs)

    def part_variables(self, name: str) -> tuple[str, ...]:
        """Names of the variables in one part; none when the relation lacks it."""
        return variables_of_entries(self.entries(name)) if name in self.parts else ()

    @cached_property
    def valid_inputs(self) -> tuple[str, ...]:
        """Names of the variables in the validity condition."""
        return self.part_variables("valid")

    @property
    def own_symbols(self) -> tuple[str, ...]:
        """Names bound inside the relation: its own state while it is being integrated."""
        return ()

    @property
    def is_conditional(self) -> bool:
        """Whether the relation may be used under a condition only."""
        return "valid" in self.parts

    @property
    def validity(self) -> Expression | None:
        """The condition under which the relation may be used; None when it always may."""
        return self.part("valid") if self.is_conditional else None

    @property
    def expression(self) -> Expression | None:
        """The right-hand side as one expression, where the relation has one."""
        return self.part("expression") if "expression" in self.parts else None

    @cached_property
    def text(self) -> str:
        """The relation as one line of text."""
        return f"{self.variable} = {to_text(self.part('expression'))}"

    def evaluate_rhs(self, values: Mapping[str, float]) -> float:
        """Compute the right-hand side at a point, everything in base units."""
        if self._formula is not None and math.isfinite(value := self._formula(self.inputs, values)):
            return value
        value = evaluate_entries(self.entries("expression"), values)
        if not math.isfinite(value):
            raise _not_finite(self, self.part("expression"), values)
        return value

    def evaluate_partly(self, values: Mapping[str, float]) -> tuple[float | None, tuple[str, ...]]:
        """The right-hand side where inputs are missing, and the inputs that it depends on.

        Only the branches that known conditions take count; the value is None where they lack inputs.
        """
        if (
            set(self.parts) - {"valid"} != {"expression"}
            or "select" not in self.parts["expression"]
        ):
            return None, self.inputs
        value, names = evaluate_partly(self.entries("expression"), values)
        if value is not None and not math.isfinite(value):
            absent = dict.fromkeys(self.inputs, math.nan)
            raise _not_finite(self, self.part("expression"), {**absent, **values})
        return value, names

    def as_sympy(self) -> Any:
        """The relation as a SymPy equality over real symbols named like the variables."""
        import sympy

        right = as_sympy(self.part("expression"))
        return sympy.Eq(sympy.Symbol(self.variable, real=True), right, evaluate=False)

    def check_units(self, units: Mapping[str, Unit]) -> None:
        """Refuse the relation unless both sides agree in dimension and scale."""
        right = check.infer_unit(self.part("expression"), units)
        check.require_same(f"{self.kind} {self.name}", units[self.variable], right)
        self._check_validity(units)

    def _check_validity(self, units: Mapping[str, Unit]) -> None:
        if (valid := self.validity) is not None:
            unit = check.infer_unit(valid, units)
            check.require_same(f"validity of {self.name}", check.TRUTH, unit)


class Equation(Relation):
    """An identity: the variable equals the expression, always."""

    kind = "equation"


class Approximation(Relation):
    """A relation that holds approximately, where its validity condition is true."""

    kind = "approximation"
    is_identity = False


class Piecewise(Relation):
    """An identity given case by case; the first case whose condition holds decides."""

    kind = "piecewise"

    @cached_property
    def _chosen(self) -> Expression:
        count = self.options["cases"]
        result = self.part("otherwise") if "otherwise" in self.parts else Number(math.nan)
        for case in reversed(range(count)):
            result = where(self.part(f"condition{case}"), self.part(f"case{case}"), result)
        return result

    @property
    def expression(self) -> Expression:
        """All cases as one nested choice."""
        return self._chosen

    @cached_property
    def text(self) -> str:
        """The relation as one line of text."""
        cases = [
            f"{to_text(self.part(f'case{i}'))} if {to_text(self.part(f'condition{i}'))}"
            for i in range(self.options["cases"])
        ]
        if "otherwise" in self.parts:
            cases.append(f"{to_text(self.part('otherwise'))} otherwise")
        return f"{self.variable} = " + "; ".join(cases)

    def evaluate_rhs(self, values: Mapping[str, float]) -> float:
        """Compute the case that applies."""
        part = self._applying(values)
        value = evaluate_entries(self.entries(part), values)
        if not math.isfinite(value):
            raise _not_finite(self, self.part(part), values)
        return value

    def _applying(self, values: Mapping[str, float]) -> str:
        for case in range(self.options["cases"]):
            if evaluate_entries(self.entries(f"condition{case}"), values):
                return f"case{case}"
        if "otherwise" in self.parts:
            return "otherwise"
        raise EvaluationError(f"no case of {self.name} applies", f"cases: {self.text}")

    def as_sympy(self) -> Any:
        """The relation as a SymPy equality with a Piecewise right-hand side."""
        import sympy

        cases = [
            (as_sympy(self.part(f"case{i}")), as_sympy(self.part(f"condition{i}")))
            for i in range(self.options["cases"])
        ]
        if "otherwise" in self.parts:
            cases.append((as_sympy(self.part("otherwise")), True))
        left = sympy.Symbol(self.variable, real=True)
        return sympy.Eq(left, sympy.Piecewise(*cases), evaluate=False)

    def check_units(self, units: Mapping[str, Unit]) -> None:
        """Check every case against the variable, and every condition."""
        for case in range(self.options["cases"]):
            what = f"{self.kind} {self.name}, case {case + 1}"
            unit = check.infer_unit(self.part(f"condition{case}"), units)
            check.require_same(f"{what}, condition", check.TRUTH, unit)
            self._check_part(what, f"case{case}", units)
        if "otherwise" in self.parts:
            self._check_part(f"{self.kind} {self.name}, otherwise", "otherwise", units)

    def _check_part(self, what: str, part: str, units: Mapping[str, Unit]) -> None:
        unit = check.infer_unit(self.part(part), units)
        check.require_same(what, units[self.variable], unit)


class Inequality(Relation):
    """A constraint: a condition that a feasible scenario fulfills."""

    kind = "inequality"

    @cached_property
    def text(self) -> str:
        """The condition as one line of text."""
        return to_text(self.part("expression"))

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether the condition is fulfilled at a point."""
        return bool(evaluate_entries(self.entries("expression"), values))

    def check_units(self, units: Mapping[str, Unit]) -> None:
        """Both sides of every comparison must agree."""
        unit = check.infer_unit(self.part("expression"), units)
        check.require_same(f"{self.kind} {self.name}", check.TRUTH, unit)

    def as_sympy(self) -> Any:
        """The condition in SymPy."""
        return as_sympy(self.part("expression"))


def margin(condition: Expression) -> Expression:
    """The signed margin of a condition: >= 0 where it holds, < 0 where it fails.

    Strict and loose comparisons share a margin; equality and `not` give 0 or -1.
    """
    if isinstance(condition, Operation):
        operands = condition.operands
        if condition.operator in ("le", "lt"):
            return operands[1] - operands[0]
        if condition.operator in ("ge", "gt"):
            return operands[0] - operands[1]
        if condition.operator in ("eq", "ne", "not"):
            return where(condition, Number(0.0), Number(-1.0))
        if condition.operator == "and":
            return Operation("minimum", *map(margin, operands))
        if condition.operator == "or":
            return Operation("maximum", *map(margin, operands))
    raise DeclarationError(
        f"{to_text(condition)} is not a condition: expected one of {', '.join(COMPARISONS)}"
    )


def _not_finite(
    relation: Relation, expression: Expression, values: Mapping[str, float]
) -> EvaluationError:
    """An error that names the innermost operation whose result is not finite."""
    results = evaluate_nodes(expression, values)
    for node in postorder(expression):
        if isinstance(node, Operation) and not math.isfinite(results[id(node)]):
            operands = [results[id(operand)] for operand in node.operands]
            if all(map(math.isfinite, operands)):
                reason = _reason(node, operands)
                zero = [
                    to_text(o) for o, v in zip(node.operands, operands, strict=True) if v == 0.0
                ]
                hint = (
                    f"{zero[-1]} is 0"
                    if node.operator == "div" and zero
                    else f"in: {relation.text}"
                )
                return EvaluationError(f"{relation.name} has no finite value: {reason}", hint)
    return EvaluationError(f"{relation.name} has no finite value", f"in: {relation.text}")


def _reason(node: Operation, operands: list[float]) -> str:
    if node.operator == "div" and operands[1] == 0.0:
        return f"division by zero in {to_text(node)}"
    arguments = ", ".join(f"{value:g}" for value in operands)
    return f"{node.operator}({arguments}) in {to_text(node)} is not a finite number"
