"""The difference of one value between two sets of inputs, carried by the inputs that changed.

Contributions are Shapley values: the mean, over all orders in which the changes can be made, of
what each does when its turn comes. They sum to the difference exactly, whatever the order, and two
changes that act together share what they do together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.errors import EvaluationError, MissingInputsError
from assay.model.inputs import Inputs
from assay.model.language.variables import Variable
from assay.model.resolving.resolver import Resolver
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    from assay.model.registry import Registry

MOST_EXACT = 12
"""Groups up to which all combinations are evaluated; beyond, orders are sampled."""

ORDERS = 256
"""Orders sampled, half of them the reverse of the other half."""

Coalition = frozenset[int]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two scenarios: its values in base units and its variants."""

    values: Mapping[str, float]
    variants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """An input or variant that differs; None where a side does not state it."""

    name: str
    before: float | str | None
    after: float | str | None

    @property
    def is_structural(self) -> bool:
        """Whether the change decides what is computed, not only with what value."""
        return not (isinstance(self.before, float) and isinstance(self.after, float))


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a group of changes contributes; `error` is the standard error where it is sampled."""

    label: str
    changes: tuple[Change, ...]
    amount: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A target before and after, and the contributions that sum to the difference."""

    target: Variable
    before: float
    after: float
    contributions: tuple[Contribution, ...]
    unused: tuple[str, ...]
    orders: int | None
    """Sampled orders; None where all combinations were evaluated."""
    notes: tuple[str, ...] = ()

    def to_data(self, variables: Mapping[str, Variable]) -> dict[str, Any]:
        """The difference as plain data, in display units."""
        scale = self.target.shown(1.0) - self.target.shown(0.0)
        return {
            "target": self.target.name,
            "unit": self.target.display.text,
            "before": self.target.shown(self.before),
            "after": self.target.shown(self.after),
            "contributions": [
                {
                    "label": item.label,
                    "amount": item.amount * scale,
                    "standard_error": item.error * scale,
                    "changes": [_change_data(change, variables) for change in item.changes],
                }
                for item in self.contributions
            ],
            "unused": list(self.unused),
            "orders": self.orders,
            "notes": list(self.notes),
        }


def difference(
    registry: Registry,
    target: str,
    before: Side,
    after: Side,
    labels: Mapping[str, str] | None = None,
    *,
    switch: bool = True,
) -> Difference:
    """Attribute the difference of a target to the inputs and variants that changed.

    Changes with the same label are made together; without a label each is on its own.
    """
    ends = [_resolve(registry, target, side, switch) for side in (before, after)]
    used = ends[0][1] | ends[1][1]
    changes = _changes(before, after)
    relevant = [c for c in changes if c.name in used]
    causes = {**_causes(relevant, [resolver for *_, resolver in ends], target), **(labels or {})}
    groups: dict[str, list[Change]] = {}
    for change in relevant:
        groups.setdefault(causes.get(change.name, change.name), []).append(change)
    values, merged = _evaluate(registry, target, before, after, list(groups.items()), switch)
    amounts, errors, orders = _shapley(len(merged), values)
    contributions = [
        Contribution(label, tuple(members), amount, error)
        for (label, members), amount, error in zip(merged, amounts, errors, strict=True)
    ]
    contributions.sort(key=lambda item: -abs(item.amount))
    return Difference(
        registry.variable(target), ends[0][0], ends[1][0], tuple(contributions),
        tuple(c.name for c in changes if c.name not in used), orders,
        tuple(values.notes),
    )  # fmt: skip


def _causes(changes: Sequence[Change], ends: Sequence[Resolver], target: str) -> dict[str, str]:
    """The relation that a change belongs to, by name: a value that only the new relation reads is one cause with it."""
    cones = [end.cone(target) for end in ends]
    chosen = [c.name for c in changes if isinstance(c.before, str) or isinstance(c.after, str)]
    causes: dict[str, str] = {}
    for change in changes:
        sides = [end for end, cone in zip(ends, cones, strict=True) if change.name in cone]
        if change.name in chosen or len(sides) != 1:
            continue
        owners = [name for name in chosen if change.name in sides[0].cone(name)]
        if owners:
            first = causes.get(owners[0], owners[0])
            causes.update(dict.fromkeys([change.name, *owners], first))
    return causes


def _resolve(
    registry: Registry, target: str, side: Side, switch: bool
) -> tuple[float, set[str], Resolver]:
    """The target, the names in its cone, and what computed them."""
    resolver = Resolver(registry, Inputs(dict(side.values)), side.variants, switch=switch)
    value = resolver.value(target)
    if value is None:
        gaps = [gap.variable.name for gap in resolver.missing(target)]
        raise MissingInputsError(f"{target} needs {len(gaps)} more inputs", gaps)
    return value, resolver.cone(target), resolver


def _changes(before: Side, after: Side) -> list[Change]:
    changes = [
        Change(name, before.values.get(name), after.values.get(name))
        for name in dict.fromkeys([*before.values, *after.values])
        if not _is_same(before.values.get(name), after.values.get(name))
    ]
    for name in dict.fromkeys([*before.variants, *after.variants]):
        variant_before, variant_after = before.variants.get(name), after.variants.get(name)
        if variant_before != variant_after:
            changes.append(Change(name, variant_before, variant_after))
    return changes


def _is_same(first: float | None, second: float | None) -> bool:
    """Whether two values agree; a result file states them rounded to its display unit."""
    if first is None or second is None:
        return first is second
    return math.isclose(first, second, rel_tol=1e-12)


class _Coalitions:
    """Values of the target with some groups of changes made and the others not."""

    def __init__(
        self,
        registry: Registry,
        target: str,
        before: Side,
        after: Side,
        groups: Sequence[tuple[str, Sequence[Change]]],
        switch: bool,
    ) -> None:
        self.registry, self.target, self.switch = registry, target, switch
        self.before, self.after, self.groups = before, after, groups
        self.known: dict[Coalition, float] = {}
        self.functions: dict[Coalition, PointFunction] = {}
        self.notes: list[str] = []
        self.scalar = [c.name for _, members in groups for c in members if not c.is_structural]
        self.structural = frozenset(
            i for i, (_, members) in enumerate(groups) if any(c.is_structural for c in members)
        )

    def function(self, pattern: Coalition) -> PointFunction:
        """The target by the scalar changes, with the structure of a coalition."""
        if pattern not in self.functions:
            values, variants = dict(self.before.values), dict(self.before.variants)
            for i in pattern:
                for change in self.groups[i][1]:
                    if change.is_structural:
                        _apply(change, values, variants)
            self.functions[pattern] = PointFunction(
                self.registry, self.scalar, values, variants, switch=self.switch,
                outputs=[self.target],
            )  # fmt: skip
        return self.functions[pattern]

    def compute(self, coalitions: Iterable[Coalition]) -> None:
        """Evaluate coalitions that are not known yet, those of one structure at once."""
        by_pattern: dict[Coalition, list[Coalition]] = {}
        for coalition in coalitions:
            if coalition not in self.known:
                by_pattern.setdefault(coalition & self.structural, []).append(coalition)
        for pattern, members in by_pattern.items():
            function = self.function(pattern)
            if function.note and function.note not in self.notes:
                self.notes.append(function.note)
            columns = np.empty((len(self.scalar), len(members)))
            for column, coalition in enumerate(members):
                rows = (
                    (change.after if i in coalition else change.before)
                    for i, (_, changes) in enumerate(self.groups)
                    for change in changes
                    if not change.is_structural
                )
                columns[:, column] = [float(value) for value in rows if value is not None]
            for coalition, value in zip(members, function(columns)[0], strict=True):
                if not math.isfinite(value):
                    made = ", ".join(self.groups[i][0] for i in sorted(coalition)) or "nothing"
                    raise EvaluationError(
                        f"{self.target} has no finite value with only these changes made: {made}",
                        "compare with --by source, which makes the changes of an entry together",
                    )
                self.known[coalition] = float(value)


def _evaluate(
    registry: Registry,
    target: str,
    before: Side,
    after: Side,
    groups: list[tuple[str, list[Change]]],
    switch: bool,
) -> tuple[_Coalitions, list[tuple[str, list[Change]]]]:
    """Coalitions whose structures all have a value; groups that need each other are merged."""
    coalitions = _Coalitions(registry, target, before, after, groups, switch)
    structural = sorted(coalitions.structural)
    try:
        if len(structural) > 4:
            raise MissingInputsError("too many structures", [])
        for size in range(len(structural) + 1):
            for pattern in itertools.combinations(structural, size):
                coalitions.function(frozenset(pattern))
        return coalitions, groups
    except MissingInputsError:
        together = [groups[i] for i in structural]
        label = " and ".join(label for label, _ in together)
        rest = [group for i, group in enumerate(groups) if i not in coalitions.structural]
        merged = [*rest, (label, [change for _, members in together for change in members])]
        return _Coalitions(registry, target, before, after, merged, switch), merged


def _shapley(count: int, values: _Coalitions) -> tuple[list[float], list[float], int | None]:
    """Contributions, their standard errors, and the number of sampled orders."""
    everyone = frozenset(range(count))
    if count <= MOST_EXACT:
        subsets = [
            frozenset(subset)
            for size in range(count + 1)
            for subset in itertools.combinations(range(count), size)
        ]
        values.compute(subsets)
        amounts = []
        for i in range(count):
            terms = (
                (values.known[subset | {i}] - values.known[subset])
                * math.factorial(len(subset))
                * math.factorial(count - len(subset) - 1)
                / math.factorial(count)
                for subset in subsets
                if i not in subset
            )
            amounts.append(math.fsum(terms))
        return amounts, [0.0] * count, None
    generator = np.random.default_rng(0)
    orders = []
    for _ in range(ORDERS // 2):
        order = generator.permutation(count).tolist()
        orders += [order, order[::-1]]
    prefixes = {frozenset(order[:size]) for order in orders for size in range(count + 1)}
    values.compute(prefixes | {frozenset(), everyone})
    marginal = np.empty((len(orders), count))
    for row, order in enumerate(orders):
        for size, i in enumerate(order):
            made = frozenset(order[:size])
            marginal[row, i] = values.known[made | {i}] - values.known[made]
    pairs = marginal.reshape(-1, 2, count).mean(axis=1)
    errors = pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs))
    return marginal.mean(axis=0).tolist(), errors.tolist(), len(orders)


def _apply(change: Change, values: dict[str, float], variants: dict[str, str]) -> None:
    """Make one structural change: state a value or variant, or state it no longer."""
    if isinstance(change.before, str) or isinstance(change.after, str):
        variants.pop(change.name, None)
        if isinstance(change.after, str):
            variants[change.name] = change.after
    elif change.after is None:
        values.pop(change.name, None)
    else:
        values[change.name] = float(change.after)


def _change_data(change: Change, variables: Mapping[str, Variable]) -> dict[str, Any]:
    shown = variables[change.name].shown
    ends = [shown(v) if isinstance(v, float) else v for v in (change.before, change.after)]
    unit = variables[change.name].display.text
    return {"name": change.name, "before": ends[0], "after": ends[1], "unit": unit}
