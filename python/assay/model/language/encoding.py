"""Expressions as JSON text, the form in which a registry stores them.

The text is a flat list of entries, operands before operations. Resolving needs the names in a list
and its value at one point: both are read from the list itself, without building the tree.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder
from assay.model.language.operators import OPERATORS
from assay.model.language.units import parse_unit

_FUNCTIONS: Final = {name: operator.evaluate for name, operator in OPERATORS.items()}


def encode(expression: Expression) -> str:
    """The expression as JSON text: one entry per node, operands before operations.

    An entry is a number, `{"value", "unit"}`, a name, or an operation followed by the positions
    of its operands. The list is flat, so depth and sharing cost nothing; it is stored as text, so a
    registry is read without decoding expressions that are not used.
    """
    entries: list[Any] = []
    positions: dict[int, int] = {}
    for node in postorder(expression):
        positions[id(node)] = len(entries)
        if isinstance(node, Operation):
            entries.append([node.operator, *(positions[id(o)] for o in node.operands)])
        elif isinstance(node, Symbol):
            entries.append(node.name)
        else:
            assert isinstance(node, Number)
            dimensionless = node.unit.text == "1"
            entries.append(
                node.value if dimensionless else {"value": node.value, "unit": node.unit.text}
            )
    return json.dumps(entries, separators=(",", ":"))


def read_entries(text: str) -> list[Any]:
    """The entries that `encode` wrote."""
    entries: list[Any] = json.loads(text)
    return entries


def variables_of_entries(entries: Sequence[Any]) -> tuple[str, ...]:
    """Names of the variables in the order in which they first appear."""
    return tuple(dict.fromkeys(entry for entry in entries if type(entry) is str))


def evaluate_entries(entries: Sequence[Any], values: Mapping[str, float]) -> float:
    """Compute the value at a point; values are in base units.

    >>> evaluate_entries(["a", "b", ["div", 0, 1]], {"a": 1.0, "b": 4.0})
    0.25
    """
    return _results(entries, values)[-1]


def evaluate_numbers(entries: Sequence[Any], values: Mapping[str, float]) -> float | None:
    """The value at a point; None where anything on the way to it is not a number.

    >>> evaluate_numbers(["a", 0, ["div", 0, 1], 2, ["lt", 2, 3]], {"a": 0.0}) is None
    True
    """
    results = _results(entries, values)
    return None if any(map(math.isnan, results)) else results[-1]


def _results(entries: Sequence[Any], values: Mapping[str, float]) -> list[float]:
    """The value of every entry."""
    results: list[float] = []
    functions, append = _FUNCTIONS, results.append
    for entry in entries:
        kind = type(entry)
        if kind is list:
            if len(entry) == 3:
                operator, first, second = entry
                append(functions[operator](results[first], results[second]))
            else:
                operator, *operands = entry
                append(functions[operator](*[results[operand] for operand in operands]))
        elif kind is str:
            append(values[entry])
        else:
            append(float(entry["value"] if kind is dict else entry))
    return results


def evaluate_partly(
    entries: Sequence[Any], values: Mapping[str, float]
) -> tuple[float | None, tuple[str, ...]]:
    """The value where some variables have none, and the variables that it depends on.

    A choice with a known condition depends on the branch that it takes only. The value is None where
    a variable that it depends on has none.

    >>> entries = ["f", "a", "b", ["select", 0, 1, 2]]
    >>> evaluate_partly(entries, {"f": 1.0, "a": 4.0})
    (4.0, ('f', 'a'))
    """
    results: list[float | None] = []
    for entry in entries:
        kind = type(entry)
        if kind is list:
            operator, *operands = entry
            arguments = [results[operand] for operand in operands]
            if operator == "select" and arguments[0] is not None:
                results.append(arguments[1] if arguments[0] else arguments[2])
            elif None in arguments:
                results.append(None)
            else:
                results.append(_FUNCTIONS[operator](*arguments))
        elif kind is str:
            results.append(values.get(entry))
        else:
            results.append(float(entry["value"] if kind is dict else entry))
    needed: set[int] = set()
    stack = [len(entries) - 1]
    while stack:
        position = stack.pop()
        if position in needed:
            continue
        needed.add(position)
        entry = entries[position]
        if type(entry) is list:
            operator, *operands = entry
            if operator == "select" and (condition := results[operands[0]]) is not None:
                operands = [operands[0], operands[1] if condition else operands[2]]
            stack.extend(operands)
    names = [entry for position, entry in enumerate(entries) if position in needed]
    return results[-1], variables_of_entries(names)


def decode(text: str) -> Expression:
    """Read back what `encode` wrote."""
    return expression_of_entries(read_entries(text))


def expression_of_entries(entries: Sequence[Any]) -> Expression:
    """The expression that entries describe."""
    nodes: list[Expression] = []
    for entry in entries:
        if isinstance(entry, str):
            nodes.append(Symbol(entry))
        elif isinstance(entry, list):
            nodes.append(Operation(entry[0], *(nodes[position] for position in entry[1:])))
        elif isinstance(entry, dict):
            nodes.append(Number(entry["value"], parse_unit(entry["unit"])))
        else:
            nodes.append(Number(entry))
    return nodes[-1]
