"""The expressions of lever files: when a lever applies, and values that depend on the machine.

    capability("cuda-graphs") and knob.enforce_eager == true
    workload.concurrency > knob.max_batch
    cause("host launch") > 0.05

They read as Python does, with `true`, `false` and `null`. They are parsed by Python's own parser
and walked over a short list of nodes; nothing is evaluated as code. What is not known (no
diagnosis, a knob that the engine lacks) is `null`, and so is what depends on it, as in SQL.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from assay.errors import InputError, unknown_name
from assay.improve.levers.facts import HARDWARE, WORKLOAD, Facts

Value = int | float | str | bool | None

MAX_LENGTH: Final = 400
"""Characters of an expression at most."""
MAX_DEPTH: Final = 40
"""Levels of parts within parts at most."""
_WORDS: Final[Mapping[str, Value]] = {"true": True, "false": False, "null": None}
_NAMESPACES: Final = ("knob", "workload", "hardware")
_ARITHMETIC: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARISONS: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_CALLS: Final = ("capability", "cause", "term", "has_knob")
"""Functions of one name in quotes."""
_CHOICES: Final[Mapping[str, Callable[..., Any]]] = {"min": min, "max": max}


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression."""

    text: str
    where: str
    """What errors name: the lever and the place."""
    _tree: ast.expr

    def value(self, facts: Facts) -> Value:
        """Its value; None where it depends on something that is not known."""
        try:
            value = _evaluate(self._tree, facts)
        except (TypeError, ZeroDivisionError, OverflowError) as error:
            raise InputError(f"{self.where}: {self.text}: {error}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{self.where}: {self.text}: expected a finite number, got {value}")
        return value

    def knobs(self) -> Iterator[str]:
        """The knobs that it reads."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and _name(node.value) == "knob":
                yield node.attr

    def names(self, function: str) -> Iterator[str]:
        """The names in quotes that it asks a function for: those of causes, say."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and _name(node.func) == function:
                yield str(node.args[0].value)  # type: ignore[attr-defined]


def parse(text: str, where: str) -> Expression:
    """Parse an expression; `where` names lever and place in errors.

    >>> list(parse('capability("cuda") and 2 * knob.depth < 9', "lever x").names("capability"))
    ['cuda']
    """
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: expected an expression, got {text!r}")
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"{where}: expected at most {MAX_LENGTH} characters, got {len(text)}",
            "split it: every line of applies must hold",
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None)
        place = f" at column {column}" if column else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"{where}: {text}: expected an expression, got{place}: {reason}") from None
    _check(tree, text, where, 0)
    return Expression(text.strip(), where, tree)


def _check(node: ast.expr, text: str, where: str, depth: int) -> None:
    """Refuse what is not in the language, by its place."""

    def refuse(what: str, hint: str | None = None) -> InputError:
        return InputError(f"{where}: {text}: {what} at column {node.col_offset + 1}", hint)

    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Name(id=name):
            if name not in _WORDS:
                known = ", ".join((*_WORDS, *(f"{namespace}.NAME" for namespace in _NAMESPACES)))
                raise refuse(f"unknown name {name}", f"names: {known}; words are in quotes")
            return
        case ast.Attribute(value=ast.Name(id=space), attr=name) if space in _NAMESPACES:
            facts = {"workload": WORKLOAD, "hardware": HARDWARE}.get(space)
            if facts is not None and name not in facts:
                error = unknown_name(f"{space} fact", name, facts)
                raise refuse(error.message, error.hint or f"facts: {', '.join(facts)}")
            return
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            _check_call(name, args, refuse)
            for argument in args if name in _CHOICES else ():
                _check(argument, text, where, depth + 1)
            return
    if depth > MAX_DEPTH:
        raise refuse(f"expected at most {MAX_DEPTH} levels, got more")
    children = _children(node)
    if children is None:
        raise refuse(f"{type(node).__name__} is not part of these expressions")
    for child in children:
        _check(child, text, where, depth + 1)


def _check_call(name: str, args: list[ast.expr], refuse: Callable[..., InputError]) -> None:
    if name in _CHOICES:
        if len(args) < 2:
            raise refuse(f"expected {name}(a, b)")
    elif name not in _CALLS:
        raise refuse(f"unknown function {name}", f"functions: {', '.join((*_CALLS, *_CHOICES))}")
    elif len(args) != 1 or not (
        isinstance(args[0], ast.Constant) and isinstance(args[0].value, str)
    ):
        raise refuse(f'expected {name}("a name")')


def _children(node: ast.expr) -> list[ast.expr] | None:
    """The parts of a compound expression; None where it is not part of the language."""
    match node:
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return [left, right]
        case ast.Compare(left=left, ops=ops, comparators=rest):
            if all(type(op) in _COMPARISONS for op in ops):
                return [left, *rest]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return [test, body, orelse]
    return None


def _evaluate(node: ast.expr, facts: Facts) -> Value:
    match node:
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]
        case ast.Name(id=name):
            return _WORDS[name]
        case ast.Attribute(value=ast.Name(id=space), attr=name):
            return facts.look_up(space, name)  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            return facts.ask(name, str(args[0].value))  # type: ignore[attr-defined]
        case ast.Call(func=ast.Name(id=name), args=args):
            values = [_evaluate(argument, facts) for argument in args]
            return None if None in values else _CHOICES[name](values)
        case ast.BoolOp(op=op, values=parts):
            return _joined([_truth(part, facts) for part in parts], isinstance(op, ast.And))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            known = _truth(operand, facts)
            return None if known is None else not known
        case ast.UnaryOp(operand=operand):
            value = _evaluate(operand, facts)
            return None if value is None else -value  # type: ignore[operator]
        case ast.BinOp(left=left, op=op, right=right):
            pair = _evaluate(left, facts), _evaluate(right, facts)
            if None in pair:
                return None
            _numbers(pair)
            return _ARITHMETIC[type(op)](*pair)  # type: ignore[no-any-return]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            known = _truth(test, facts)
            return None if known is None else _evaluate(body if known else orelse, facts)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            return _compare(left, ops, rest, facts)
    raise TypeError(f"{type(node).__name__} is not part of these expressions")


def _compare(
    left: ast.expr, ops: list[ast.cmpop], rest: list[ast.expr], facts: Facts
) -> bool | None:
    """A chain of comparisons; `== null` and `!= null` ask whether something is known."""
    nodes = [left, *rest]
    truths: list[bool | None] = []
    for op, first, second in zip(ops, nodes, nodes[1:], strict=False):
        pair = _evaluate(first, facts), _evaluate(second, facts)
        asks = isinstance(op, (ast.Eq, ast.NotEq)) and "null" in (_name(first), _name(second))
        if None in pair and not asks:
            truths.append(None)
            continue
        if not isinstance(op, (ast.Eq, ast.NotEq)):
            _numbers(pair)
        elif isinstance(pair[0], bool) != isinstance(pair[1], bool):
            # Python holds True for 1, which settings do not.
            truths.append(isinstance(op, ast.NotEq))
            continue
        truths.append(_COMPARISONS[type(op)](*pair))
    return _joined(truths, True)


def _joined(parts: list[bool | None], every: bool) -> bool | None:
    """And, or or, of three-valued truths."""
    if (not every) in parts:
        return not every
    return None if None in parts else every


def _truth(node: ast.expr, facts: Facts) -> bool | None:
    value = _evaluate(node, facts)
    if value is None or isinstance(value, bool):
        return value
    raise TypeError(f"expected true or false, got {value!r} of {ast.unparse(node)}")


def _numbers(pair: tuple[Value, Value]) -> None:
    for value in pair:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"expected a number, got {value!r}")


def _name(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else None
