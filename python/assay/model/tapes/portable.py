"""The whole graph as portable data: every relation as a tape over its inputs, for other programs.

A relation refers to a formula, its lowered
right-hand side over inputs by position; relations of one template share a formula. Which relation
defines a variable stays open, because it depends on values: the reader chooses as `Resolver` does.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from assay._native import TAPE_OPS
from assay.model import store
from assay.model.language.conditions import certain, possible
from assay.model.language.expression import Expression, variables_of
from assay.model.language.figures import unit_choices
from assay.model.language.relations import Relation
from assay.model.language.units import Unit
from assay.model.language.variables import Constant, Variable
from assay.model.tapes.program import TapeProgram
from assay.paths import cache

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

FORMAT: Final = 1
"""Raised whenever the meaning of the data changes."""


def graph_text(registry: Declarations) -> str:
    """The graph of `portable_graph` as JSON, cached on disk: to lower it takes a second or two."""
    path = cache("tapes") / f"{store.fingerprint('portable', FORMAT, registry.key)}.graph"
    content = store.read_cache(path)
    if content is None:
        content = json.dumps(portable_graph(registry), separators=(",", ":")).encode()
        store.write_cache(path, content)
    return content.decode()


def portable_graph(registry: Declarations) -> dict[str, Any]:
    """Variables, relations, constraints and blocks as plain data, in base units.

    Variables and formulas are referred to by position. A relation that no tape can hold, such as a
    differential one, has no formula: what needs it has no value there.
    """
    writer = _Writer([*registry.constants.values(), *registry.variables.values()])
    constraints = registry.constraints
    defining = [r for name, r in registry.relations.items() if name not in constraints]
    relations = [writer.relation(relation) for relation in defining]
    numbers = {relation.name: number for number, relation in enumerate(defining)}
    return {
        "format": FORMAT,
        "key": registry.key,
        "operations": dict(TAPE_OPS),
        "variables": [_with_relations(writer.variable(v), v, numbers) for v in writer.variables],
        "relations": relations,
        "constraints": [
            {
                "name": constraint.name,
                "text": constraint.text,
                "meaning": constraint.meaning,
                **writer.condition(constraint.part("expression")),
            }
            for constraint in constraints.values()
        ],
        "blocks": [
            {
                "name": block.name,
                "members": [writer.position[name] for name in block.members],
                "starts": [block.starts.get(name) for name in block.members],
            }
            for block in registry.blocks.values()
        ],
        "formulas": writer.formulas,
        "units": writer.units,
    }


def portable_variables(registry: Declarations) -> dict[str, Any]:
    """The variables with the names of their relations, and their units; cases are numbers that count."""
    writer = _Writer(list(registry.variables.values()))
    facts = []
    for variable in writer.variables:
        whole = {"count": True} if variable.cases else {}
        relations = [relation.name for relation in variable.defining_equations]
        facts.append({**writer.variable(variable), **whole, "relations": relations})
    return {"variables": facts, "units": writer.units}


class _Writer:
    """Numbers variables, units and formulas, equal ones once."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = variables
        self.position = {variable.name: place for place, variable in enumerate(variables)}
        self.formulas: list[dict[str, Any]] = []
        self.units: list[dict[str, Any]] = []
        self._formula_numbers: dict[str, int] = {}
        self._unit_numbers: dict[str, int] = {}

    def variable(self, variable: Variable) -> dict[str, Any]:
        """One variable; the facts that most lack are left out."""
        facts: dict[str, Any] = {
            "name": variable.name,
            "symbol": variable.symbol,
            "meaning": variable.meaning,
            "unit": self._unit(variable.display),
        }
        if isinstance(variable, Constant):
            facts["constant"] = variable.value
        if math.isfinite(variable.lower):
            facts["lower"] = variable.lower
        if math.isfinite(variable.upper):
            facts["upper"] = variable.upper
        if variable.is_count:
            facts["count"] = True
        if variable.target:
            facts["target"] = True
        return facts

    def relation(self, relation: Relation) -> dict[str, Any]:
        """One defining relation."""
        expression = relation.expression
        facts: dict[str, Any] = {
            "name": relation.name,
            "kind": relation.kind,
            "inputs": self._positions(relation.inputs),
            "formula": None if expression is None else self._formula(expression, relation.inputs),
        }
        if relation.is_identity:
            facts["identity"] = True
        if relation.validity is not None:
            facts["valid"] = {"text": str(relation.validity), **self.condition(relation.validity)}
        # Only these are evaluated where inputs of branches not taken are missing.
        if (
            set(relation.parts) - {"valid"} == {"expression"}
            and "select" in relation.parts["expression"]
        ):
            facts["partly"] = True
        return facts

    def condition(self, condition: Expression) -> dict[str, Any]:
        """A condition as two formulas: where it is certainly true, and where it may be."""
        inputs = variables_of(condition)
        return {
            "inputs": self._positions(inputs),
            "certain": self._formula(certain(condition), inputs),
            "possible": self._formula(possible(condition), inputs),
        }

    def _positions(self, names: Sequence[str]) -> list[int]:
        return [self.position[name] for name in names]

    def _formula(self, expression: Expression, inputs: Sequence[str]) -> int:
        place = {name: number for number, name in enumerate(inputs)}
        formula = _lower(expression, len(inputs), place.__getitem__)
        key = repr(formula)
        if key not in self._formula_numbers:
            self._formula_numbers[key] = len(self.formulas)
            self.formulas.append(formula)
        return self._formula_numbers[key]

    def _unit(self, unit: Unit) -> int:
        if unit.text not in self._unit_numbers:
            self._unit_numbers[unit.text] = len(self.units)
            self.units.append(
                {
                    **_conversion(unit),
                    "choices": [_conversion(other) for other in unit_choices(unit)][1:],
                }
            )
        return self._unit_numbers[unit.text]


def _with_relations(
    facts: dict[str, Any], variable: Variable, numbers: Mapping[str, int]
) -> dict[str, Any]:
    defined = [numbers[relation.name] for relation in variable.defining_equations]
    return {**facts, "relations": defined} if defined else facts


def _lower(expression: Expression, inputs: int, place: Callable[[str], int]) -> dict[str, Any]:
    """One expression as constants and instructions; each instruction is a code and three operands."""
    program = TapeProgram(inputs)
    result = program.expression(expression, lambda name: program.input(place(name)))
    code = program.code()
    return {
        "inputs": inputs,
        "constants": program.constant_values(),
        "code": list(struct.unpack(f"<{len(code) // 4}I", code)),
        "result": program.number(result),
    }


def _conversion(unit: Unit) -> dict[str, Any]:
    facts: dict[str, Any] = {"text": unit.text, "scale": float(unit.scale)}
    if unit.offset:
        facts["offset"] = float(unit.offset)
    return facts
