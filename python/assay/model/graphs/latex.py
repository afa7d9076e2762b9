r"""Expressions and relations as LaTeX, from our own tree.

>>> from assay.model.language.expression import Symbol
>>> expression_to_latex(2 * Symbol("a") / (Symbol("b") + 1), {"a": "a", "b": "b"})
'\\frac{2\\,a}{b + 1}'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.model.graphs import latex_names
from assay.model.language.distributions import KINDS
from assay.model.language.dynamics import Differential, Iterative, Stochastic
from assay.model.language.expression import (
    Expression,
    Number,
    Operation,
    Symbol,
    postorder,
    shared_parts,
)
from assay.model.language.operators import COMPARISONS
from assay.model.language.relations import Approximation, Inequality, Piecewise, Relation

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

# Ranks of what an operand may be without parentheses; higher binds tighter.
_CHOICE, _OR, _AND, _NOT, _COMPARED, _SUM = range(0, 60, 10)
_SIGNED, _QUANTITY, _PRODUCT, _FRACTION, _ATOM = range(60, 110, 10)

_INFIX: Final = {
    "and": (r" \land ", _AND), "or": (r" \lor ", _OR), "add": (" + ", _SUM), "sub": (" - ", _SUM),
    "lt": (" < ", _COMPARED), "le": (r" \le ", _COMPARED), "gt": (" > ", _COMPARED),
    "ge": (r" \ge ", _COMPARED), "eq": (" = ", _COMPARED), "ne": (r" \ne ", _COMPARED),
}  # fmt: skip
_ASSOCIATIVE: Final = ("add", "and", "or")
_CALLED: Final = {
    "exp": r"\exp", "log": r"\ln", "log2": r"\log_{2}", "log10": r"\log_{10}", "sin": r"\sin",
    "cos": r"\cos", "tan": r"\tan", "atan": r"\arctan", "tanh": r"\tanh",
    "erf": r"\operatorname{erf}",
    "minimum": r"\min", "maximum": r"\max",
}  # fmt: skip
_ENCLOSED: Final = {
    "abs": (r"\left|", r"\right|"),
    "floor": (r"\left\lfloor ", r" \right\rfloor"),
    "ceil": (r"\left\lceil ", r" \right\rceil"),
    "sqrt": (r"\sqrt{", "}"),
}


class _Printed(NamedTuple):
    """Text with its rank; `items` keeps what a longer list of the same operation takes over."""

    text: str
    rank: int
    operator: str = ""
    items: tuple[str, ...] = ()


def expression_to_latex(expression: Expression, symbols: Mapping[str, str]) -> str:
    """The expression with `symbols` for its variables, for LaTeX's mathematics mode."""
    return _print(expression, symbols).text


def relation_to_latex(registry: Declarations, relation: Relation) -> str:
    """The whole relation; variables that share a symbol are distinguished by their names."""
    left, right = relation_sides(relation, relation_symbols(registry, relation))
    return f"{left} {right}".strip()


def relation_symbols(registry: Declarations, relation: Relation) -> dict[str, str]:
    """The symbol of every variable that a relation mentions."""
    names = dict.fromkeys([relation.variable] if relation.variable else [])
    for part in relation.parts:
        names.update(dict.fromkeys(relation.part_variables(part)))
    known = [name for name in names if name in registry.units]
    symbols = latex_names.symbols(registry.variable(name) for name in known)
    for bound in relation.own_symbols:
        symbols.setdefault(bound, latex_names.symbol(bound.rpartition(".")[2]))
    return symbols


def relation_sides(relation: Relation, symbols: Mapping[str, str]) -> tuple[str, str]:
    """The relation in two halves, the second with the relation sign, to be aligned there."""

    def part(name: str) -> str:
        return expression_to_latex(relation.part(name), symbols)

    if isinstance(relation, Inequality):
        return _condition_sides(relation.part("expression"), symbols)
    left = symbols[relation.variable]
    if isinstance(relation, Piecewise):
        rows = [(part(f"case{i}"), part(f"condition{i}")) for i in range(relation.options["cases"])]
        otherwise = part("otherwise") if "otherwise" in relation.parts else None
        return left, f"= {_cases(rows, otherwise)}"
    if isinstance(relation, Iterative):
        return left, rf"\leftarrow {part('update')} \quad \text{{from }} {left} = {part('start')}"
    if isinstance(relation, Differential):
        time = symbols[relation.time]
        return rf"\frac{{\mathrm{{d}} {left}}}{{\mathrm{{d}} {time}}}", (
            rf"= {part('rate')} \quad \text{{from }} {left} = {part('initial')} "
            rf"\text{{ at }} {time} = {part('start')} \text{{ to }} {time} = {part('end')}"
        )
    if isinstance(relation, Stochastic):
        count = len(KINDS[relation.distribution][0])
        inner = ", ".join(part(f"parameter{i}") for i in range(count))
        return left, rf"\sim \operatorname{{{relation.distribution}}}\left({inner}\right)"
    sign = r"\approx" if isinstance(relation, Approximation) else "="
    valid = rf" \quad \text{{where }} {part('valid')}" if "valid" in relation.parts else ""
    return left, f"{sign} {part('expression')}{valid}"


def _condition_sides(condition: Expression, symbols: Mapping[str, str]) -> tuple[str, str]:
    if isinstance(condition, Operation) and condition.operator in COMPARISONS:
        left, right = (_print(operand, symbols) for operand in condition.operands)
        sign, rank = _INFIX[condition.operator]
        return _within(left, rank + 1), f"{sign.strip()} {_within(right, rank + 1)}"
    return "", expression_to_latex(condition, symbols)


def _print(expression: Expression, symbols: Mapping[str, str]) -> _Printed:
    names = shared_parts(expression)
    written: list[str] = []
    printed: dict[int, _Printed] = {}
    for node in postorder(expression):
        if isinstance(node, Operation):
            operands = [printed[id(operand)] for operand in node.operands]
            printed[id(node)] = _operation(node.operator, operands)
        elif isinstance(node, Symbol):
            printed[id(node)] = _Printed(symbols[node.name], _ATOM)
        else:
            assert isinstance(node, Number)
            printed[id(node)] = _literal(node)
        if id(node) in names:
            name = rf"s_{{{names[id(node)].lstrip('#')}}}"
            written.append(f"{name} = {printed[id(node)].text}")
            printed[id(node)] = _Printed(name, _ATOM)
    main = printed[id(expression)]
    if not written:
        return main
    parts = r",\; ".join(written)
    return _Printed(rf"{main.text} \quad \text{{where }} {parts}", main.rank)


def _literal(node: Number) -> _Printed:
    text = latex_names.number(node.unit.from_coherent(node.value))
    if node.unit.text != "1":
        text = rf"{text}\,{latex_names.unit(node.unit.text)}"
    if text.startswith("-"):
        return _Printed(text, _SIGNED)
    if node.unit.text != "1":
        # A unit's slash would swallow the next factor; in a product the literal is bracketed.
        return _Printed(text, _QUANTITY)
    return _Printed(text, _PRODUCT if "^" in text else _ATOM)


def _within(printed: _Printed, least: int) -> str:
    """The operand, in parentheses unless its precedence is at least `least`."""
    return printed.text if printed.rank >= least else rf"\left({printed.text}\right)"


def _operation(operator: str, operands: list[_Printed]) -> _Printed:
    first = operands[0]
    if operator in _INFIX:
        sign, rank = _INFIX[operator]
        # On the right a sign needs parentheses, and so does an operand of the same rank
        # wherever grouping matters.
        after = rank if operator in _ASSOCIATIVE else rank + 1
        if rank == _SUM and operands[1].text.startswith("-"):
            after = _ATOM
        before = rank + 1 if rank == _COMPARED else rank
        return _Printed(_within(first, before) + sign + _within(operands[1], after), rank)
    if operator == "mul":
        return _product(first, operands[1])
    if operator == "div":
        return _Printed(rf"\frac{{{first.text}}}{{{operands[1].text}}}", _FRACTION)
    if operator == "pow":
        return _Printed(f"{_within(first, _ATOM)}^{{{operands[1].text}}}", _FRACTION)
    if operator == "neg":
        return _Printed(f"-{_within(first, _PRODUCT)}", _SIGNED)
    if operator == "modulo":
        text = rf"{_within(first, _FRACTION)} \bmod {_within(operands[1], _FRACTION)}"
        return _Printed(text, _SIGNED)
    if operator == "not":
        return _Printed(rf"\lnot {_within(first, _ATOM)}", _NOT)
    if operator == "select":
        return _choice(operands)
    if operator in _ENCLOSED:
        opening, closing = _ENCLOSED[operator]
        return _Printed(opening + first.text + closing, _FRACTION)
    # min(min(a, b), c) is written min(a, b, c).
    items = (*(first.items if first.operator == operator else (first.text,)), *_texts(operands[1:]))
    return _Printed(
        rf"{_CALLED[operator]}\left({', '.join(items)}\right)", _FRACTION, operator, items
    )


def _texts(operands: list[_Printed]) -> tuple[str, ...]:
    return tuple(operand.text for operand in operands)


def _product(left: _Printed, right: _Printed) -> _Printed:
    before, after = _within(left, _PRODUCT), _within(right, _PRODUCT)
    # Two numbers side by side would read as one, and 2 before 1/3 as two and a third.
    is_joined = after[:1].isdigit() or (before[-1:].isdigit() and after.startswith(r"\frac"))
    return _Printed(before + (r" \cdot " if is_joined else r"\,") + after, _PRODUCT)


def _choice(operands: list[_Printed]) -> _Printed:
    condition, then, otherwise = operands
    rows = [(then.text, condition.text)]
    final = otherwise.text
    if otherwise.operator == "select":
        *inner, final = otherwise.items
        rows += zip(inner[::2], inner[1::2], strict=True)
    items = (*(text for row in rows for text in row), final)
    return _Printed(_cases(rows, final), _CHOICE, "select", items)


def _cases(rows: list[tuple[str, str]], otherwise: str | None) -> str:
    lines = [rf"{value} & \text{{if }} {condition}" for value, condition in rows]
    if otherwise is not None:
        lines.append(rf"{otherwise} & \text{{otherwise}}")
    return r"\begin{cases} " + r" \\ ".join(lines) + r" \end{cases}"
