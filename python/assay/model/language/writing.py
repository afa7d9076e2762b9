"""Expressions as lines of text.

An expression is a tree whose branches may be shared. Written out in full, a large one repeats
its shared parts over and over: a thousand nodes become a million characters. Beyond a certain
size such parts are written once, under a name of their own.
"""

from __future__ import annotations

from typing import Final

from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder
from assay.model.language.operators import OPERATORS

MOST_NODES: Final = 120
"""Nodes, repeated ones counted each time, that are still written out in full."""

_LEAST_PART: Final = 3
"""Nodes that a part has at least to be worth a name."""


def shared_parts(expression: Expression) -> dict[int, str]:
    """Names for the parts that occur more than once; none for an expression of modest size.

    Keyed by `id`, in the order in which each can be written from those before it.
    """
    sizes: dict[int, int] = {}
    uses: dict[int, int] = {}
    order = postorder(expression)
    for node in order:
        operands = node.operands if isinstance(node, Operation) else ()
        sizes[id(node)] = 1 + sum(sizes[id(operand)] for operand in operands)
        for operand in operands:
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    if sizes[id(expression)] <= MOST_NODES:
        return {}
    shared = [n for n in order if uses.get(id(n), 0) > 1 and sizes[id(n)] >= _LEAST_PART]
    return {id(node): f"#{position}" for position, node in enumerate(shared, 1)}


def to_text(expression: Expression) -> str:
    """The expression as a line of text that reads like its declaration.

    >>> print(Symbol("a") / (Symbol("b") + 1))
    a / (b + 1)
    """
    names = shared_parts(expression)
    results: dict[int, tuple[str, int]] = {}
    written: list[str] = []
    for node in postorder(expression):
        if isinstance(node, Operation):
            operator = OPERATORS[node.operator]
            parts = []
            for position, operand in enumerate(node.operands):
                text, precedence = results[id(operand)]
                # Infix operators group to the left, and towers of powers read either way: an
                # operand of equal rank keeps its parentheses where grouping matters.
                loose = node.operator in ("add", "mul", "and", "or") and not (
                    isinstance(operand, Operation) and operand.operator == "modulo"
                )
                grouped = node.operator == "pow" or (position > 0 and not loose)
                if operator.precedence < 100 and (
                    precedence < operator.precedence
                    or (grouped and precedence == operator.precedence)
                ):
                    text = f"({text})"
                parts.append(text)
            results[id(node)] = (operator.form.format(*parts), operator.precedence)
        elif isinstance(node, Symbol):
            results[id(node)] = (node.name, 100)
        else:
            assert isinstance(node, Number)
            results[id(node)] = _number_text(node)
        if id(node) in names:
            written.append(f"{names[id(node)]} = {results[id(node)][0]}")
            results[id(node)] = (names[id(node)], 100)
    text = results[id(expression)][0]
    return f"{text}, where {', '.join(written)}" if written else text


def _number_text(node: Number) -> tuple[str, int]:
    value = node.unit.from_coherent(node.value)
    text = f"{value:.12g}"
    if node.unit.text != "1":
        text += f" {node.unit.text}"
    simple = node.unit.text == "1" and value >= 0
    return text, 100 if simple else 65
