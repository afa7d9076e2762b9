"""Expressions as JSON text, the form in which a registry stores them."""

from __future__ import annotations

import json
from typing import Any

from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder
from assay.model.language.units import parse_unit


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


def decode(text: str) -> Expression:
    """Read back what `encode` wrote."""
    nodes: list[Expression] = []
    for entry in json.loads(text):
        if isinstance(entry, str):
            nodes.append(Symbol(entry))
        elif isinstance(entry, list):
            nodes.append(Operation(entry[0], *(nodes[position] for position in entry[1:])))
        elif isinstance(entry, dict):
            nodes.append(Number(entry["value"], parse_unit(entry["unit"])))
        else:
            nodes.append(Number(entry))
    return nodes[-1]
