"""Duplicates: relations with equal right-hand sides, and variables with similar meanings."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.model.language.expression import Expression, Number, Operation, Symbol, postorder
from assay.model.language.relations import Inequality, Relation
from assay.model.language.units import Unit

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

SIMILAR = 0.8
"""Share of their words that the meanings of two variables must have in common."""

_MIRRORED = {"gt": "lt", "ge": "le"}
_ASSOCIATIVE = ("minimum", "maximum", "and", "or")
_SYMMETRIC = ("eq", "ne")
_STOP_WORDS = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "is", "it", "its", "of", "on",
     "or", "per", "that", "the", "their", "to", "which", "with")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Relations with the same right-hand side."""

    relations: tuple[str, ...]
    variables: tuple[str, ...]

    @property
    def same_variable(self) -> bool:
        """Whether a variable is defined twice in the same way."""
        return len(set(self.variables)) < len(self.variables)

    def __str__(self) -> str:
        return " and ".join(self.relations)


def duplicate_relations(registry: Declarations) -> list[Duplicate]:
    """Groups of relations with the same right-hand side, up to order of terms and factors.

    Relations of variables that bear the same name in several families are left out: they
    state the same about different things, as when a template is used more than once.
    """
    forms = _CanonicalForms()
    groups: dict[Any, list[Relation]] = {}
    for relation in registry.relations.values():
        if relation.inputs:
            groups.setdefault(forms.of_relation(relation), []).append(relation)
    return [
        Duplicate(tuple(r.name for r in group), tuple(r.variable for r in group))
        for group in groups.values()
        if len(group) > 1 and not _of_one_template([r.variable for r in group])
    ]


def _of_one_template(variables: Sequence[str]) -> bool:
    """Whether these are variables of the same local name in different families."""
    distinct = len(set(variables)) == len(variables)
    return distinct and len({name.rpartition(".")[2] for name in variables}) == 1


def template_of(registry: Declarations, relation: Relation) -> tuple[str, ...]:
    """A key that the instances of one template share.

    Templates (a GEMM, an exchange) declare the same relations once per instance: of one kind, local
    names, unit and reference, over different variables.
    """
    unit = registry.units[relation.variable].text if relation.variable else ""
    names = [name.rpartition(".")[2] for name in (relation.variable, relation.name)]
    return (relation.kind, *names, unit, str(relation.reference))


def distinct_relations(registry: Declarations) -> int:
    """The number of relations, each template counted once whatever its number of instances."""
    return len({template_of(registry, relation) for relation in registry.relations.values()})


class _CanonicalForms:
    """Canonical forms of expressions, equal up to order of terms and factors.

    Sums and products are flattened and sorted; differences and quotients become sums of negatives
    and products of inverses. Forms are interned as numbers, so sharing costs nothing.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.chains: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.inverses: dict[tuple[str, int], int] = {}

    def of_relation(self, relation: Relation) -> Any:
        if isinstance(relation, Inequality):
            return ("inequality", self.of(relation.part("expression")))
        if relation.expression is not None:
            return self.of(relation.expression)
        parts = tuple((name, self.of(relation.part(name))) for name in sorted(relation.parts))
        return (relation.kind, relation.options.get("distribution"), parts)

    def of(self, expression: Expression) -> int:
        numbers: dict[int, int] = {}
        for node in postorder(expression):
            if isinstance(node, Operation):
                numbers[id(node)] = self._operation(
                    node.operator, [numbers[id(o)] for o in node.operands]
                )
            elif isinstance(node, Symbol):
                numbers[id(node)] = self._number("symbol", node.name)
            else:
                assert isinstance(node, Number)
                numbers[id(node)] = self._number("number", node.value, node.unit.powers)
        return numbers[id(expression)]

    def _number(self, *form: Any) -> int:
        return self.numbers.setdefault(form, len(self.numbers))

    def _operation(self, operator: str, operands: list[int]) -> int:
        if operator in ("add", "sub"):
            second = self._members("add", operands[1])
            if operator == "sub":
                second = tuple(self._invert("neg", member) for member in second)
            return self._chain("add", (*self._members("add", operands[0]), *second))
        if operator in ("mul", "div"):
            second = self._members("mul", operands[1])
            if operator == "div":
                second = tuple(self._invert("inverse", member) for member in second)
            return self._chain("mul", (*self._members("mul", operands[0]), *second))
        if operator == "neg":
            opposite = [self._invert("neg", member) for member in self._members("add", operands[0])]
            return self._chain("add", opposite) if len(opposite) > 1 else opposite[0]
        if operator in _ASSOCIATIVE:
            return self._chain(operator, (m for o in operands for m in self._members(operator, o)))
        if operator in _MIRRORED:
            return self._number(_MIRRORED[operator], *reversed(operands))
        return self._number(operator, *(sorted(operands) if operator in _SYMMETRIC else operands))

    def _members(self, operator: str, form: int) -> tuple[int, ...]:
        chained, members = self.chains.get(form, ("", ()))
        return members if chained == operator else (form,)

    def _chain(self, operator: str, members: Iterable[int]) -> int:
        ordered = tuple(sorted(members))
        form = self._number(operator, *ordered)
        self.chains[form] = (operator, ordered)
        return form

    def _invert(self, operator: str, form: int) -> int:
        """The opposite or inverse of a form; that of an opposite is the form itself."""
        if (operator, form) not in self.inverses:
            result = self._number(operator, form)
            self.inverses[operator, form], self.inverses[operator, result] = result, form
        return self.inverses[operator, form]


def similar_variables(registry: Declarations) -> list[tuple[str, str]]:
    """Pairs of variables of one unit whose meanings are made of nearly the same words.

    Variables of the same name in several families are no pair: they are the same property of
    different things.
    """
    by_unit: dict[Unit, list[tuple[str, frozenset[str]]]] = {}
    for variable in registry.variables.values():
        if words := meaning_words(variable.meaning):
            by_unit.setdefault(variable.unit, []).append((variable.name, words))
    return [pair for group in by_unit.values() for pair in _similar_pairs(group)]


def _similar_pairs(group: list[tuple[str, frozenset[str]]]) -> Iterator[tuple[str, str]]:
    # Prefix filtering: two sets with most words in common share one of the rarest words of each.
    frequency = Counter(word for _, words in group for word in words)
    by_word: dict[str, list[int]] = {}
    for position, (name, words) in enumerate(group):
        rarest_first = sorted(words, key=lambda word: (frequency[word], word))
        prefix = len(words) - math.ceil(SIMILAR * len(words) - 1e-9)
        compared = {other for word in rarest_first[: prefix + 1] for other in by_word.get(word, ())}
        for other in sorted(compared):
            other_name, other_words = group[other]
            alike = len(words & other_words) >= SIMILAR * len(words | other_words)
            if alike and not _of_one_template((other_name, name)):
                yield other_name, name
        for word in rarest_first[: prefix + 1]:
            by_word.setdefault(word, []).append(position)


def meaning_words(meaning: str) -> frozenset[str]:
    """The words that carry a meaning, without their plural.

    >>> sorted(meaning_words("GPUs in the job"))
    ['gpu', 'job']
    """
    words = re.findall(r"[a-z0-9]+", meaning.lower())
    return frozenset(word.removesuffix("s") for word in words if word not in _STOP_WORDS)
