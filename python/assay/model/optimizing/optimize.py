"""Minimize: the choices that minimize a target under the graph's constraints."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from assay.errors import InfeasibleError, InputError, MissingInputsError
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.expression import Expression, Number, Symbol
from assay.model.optimizing.choices import VARIANT_PREFIX, Choices, choosable, read_choices
from assay.model.optimizing.constraint_checks import (
    ConstraintCheck,
    ConstraintChecks,
    find_constraint_checks,
)
from assay.model.optimizing.grid import EnumerationResult, Progress
from assay.model.optimizing.group import Candidate, Group, GroupResult
from assay.model.optimizing.optimum import Alternative, Chosen, Optimum
from assay.model.resolving.resolution import ConditionVerdict, Resolution
from assay.model.resolving.resolve import resolve
from assay.model.selection import check_variants
from assay.model.tapes.cones import Cones, are_idle

if TYPE_CHECKING:
    from assay.model.declarations import Declarations

__all__ = ["Optimum", "minimize"]

LIMIT = 10_000_000

Enumerator = Callable[[tuple[int, int], Group, int, Progress], EnumerationResult]
"""Enumerates a group of choices, given its place: the number of its case, and its own in it."""


def _enumerate(
    place: tuple[int, int], group: Group, keep: int, told: Progress
) -> EnumerationResult:
    """In this process, one chunk after the other."""
    return group.enumerate(keep, told)


def minimize(
    registry: Declarations,
    target: str,
    over: Mapping[str, Any],
    given: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    maximize: bool = False,
    limit: int = LIMIT,
    switch: bool = True,
    constraints: bool = True,
    alternatives: int = 5,
    allow_single: bool = False,
    progress: Callable[[int, int], None] | None = None,
    enumerator: Enumerator | None = None,
) -> Optimum:
    """Find the choices in `over` that minimize `target`, or maximize it.

    A list of values is enumerated exactly, a tuple (lower, upper) is a range to refine in, and
    `variant:NAME` chooses between relations of NAME. Choices must fulfill every constraint that
    can be checked, bounds of computed variables included, unless `constraints` is false.
    `progress` is called with the points done and the number of points. Nothing to choose is an
    error unless `allow_single` takes the given values as the only point. An `enumerator` cuts large
    groups into parts, for which there is no limit.
    """
    problem = _Problem.read(
        registry, target, over, given, switch=switch, constraints=constraints, maximize=maximize,
        allow_single=allow_single,
    )  # fmt: skip
    cases = problem.cases(variants)
    total = sum(case.points for case in cases)
    if total > limit and enumerator is None:
        raise InputError(
            f"the choices make {total} points, more than the limit of {limit}",
            "offer fewer values: --over takes lists and start:stop:count; or share the points out: "
            "--workers 2, --on http://HEAD:8265",
        )
    counter = _Counter(progress, total)
    results = []
    for number, case in enumerate(cases):
        groups = []
        for place in range(len(case.groups)):
            group = case.group(place, limit)
            enumerated = (enumerator or _enumerate)(
                (number, place), group, alternatives + 1, counter
            )
            groups.append((group, group.search(alternatives + 1, enumerated)))
        results.append(groups)
    return problem.conclude(cases, results, alternatives)


def groups_of(
    registry: Declarations,
    target: str,
    over: Mapping[str, Any],
    given: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    maximize: bool,
    constraints: bool,
    switch: bool,
) -> Callable[[int, int], Group]:
    """The groups of a search by their place, as `minimize` makes them: for another process."""
    problem = _Problem.read(
        registry, target, over, given, switch=switch, constraints=constraints, maximize=maximize,
        allow_single=True,
    )  # fmt: skip
    cases = problem.cases(variants)
    return lambda number, place: cases[number].group(place, LIMIT)


def _combinations(variants: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for chosen in product(*variants.values()):
        yield dict(zip(variants, chosen, strict=True))


class _Counter:
    """Adds up the points of successive enumerations for one progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress = progress
        self.total = total
        self.before = 0

    def __call__(self, done: int, size: int) -> None:
        if self.progress is not None:
            self.progress(self.before + done, self.total)
        if done == size:
            self.before += size


@dataclass(frozen=True, slots=True)
class _Case:
    """One choice of variants: its groups of interacting choices, the target's first."""

    problem: _Problem
    variants: dict[str, str]
    known: dict[str, float]
    groups: list[tuple[Choices, Expression, list[ConstraintCheck]]]
    unknown: list[ConditionVerdict]

    @property
    def points(self) -> int:
        """Lower bound on the points that must be evaluated."""
        return sum(
            math.prod(len(c.values) for c in choices.discrete) for choices, *_ in self.groups
        )

    def group(self, place: int, limit: int) -> Group:
        """A group of choices, to be searched on its own."""
        choices, objective, checks = self.groups[place]
        return Group(
            self.problem.registry, choices, objective, checks, self.known, self.variants,
            switch=self.problem.switch, limit=limit,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Problem:
    """The problem, independent of the chosen variants."""

    registry: Declarations
    target: str
    choices: Choices
    inputs: Inputs
    switch: bool
    constraints: bool
    maximize: bool

    @classmethod
    def read(
        cls,
        registry: Declarations,
        target: str,
        over: Mapping[str, Any],
        given: Mapping[str, Given],
        *,
        switch: bool,
        constraints: bool,
        maximize: bool,
        allow_single: bool,
    ) -> _Problem:
        """Read the choices and the given values."""
        choices = read_choices(registry, over, allow_none=allow_single)
        if target in choices.names:
            raise InputError(f"{target} is the target and cannot be chosen as well")
        choosable(registry, target)
        inputs = read_inputs(registry, given)
        return cls(registry, target, choices, inputs, switch, constraints, maximize)

    def cases(self, variants: Mapping[str, str]) -> list[_Case]:
        """A case for each combination of the variants to choose from."""
        check_variants(self.registry, variants)
        return [
            self.case({**variants, **chosen}) for chosen in _combinations(self.choices.variants)
        ]

    def case(self, variants: dict[str, str]) -> _Case:
        """Find the checks under the given variants, and the groups of choices they connect."""
        names = self.choices.names
        known = dict.fromkeys([*self.inputs.values, *names])
        cones = Cones(self.registry, known, variants, switch=self.switch)
        gaps = cones.missing_inputs([self.target])
        first = {**self.inputs.values, **self.choices.first()}
        if gaps and not are_idle(self.registry, [self.target], first, variants, switch=self.switch):
            raise MissingInputsError(
                f"{self.target} needs {len(gaps)} more inputs: {', '.join(gaps)}",
                gaps,
                "give each a value, or list it among the choices",
            )
        constraint_checks = (
            find_constraint_checks(cones, [self.target], names, self.inputs.values)
            if self.constraints
            else ConstraintChecks()
        )
        target_choices = set(names).intersection(cones.upstream([self.target]))
        value = Symbol(self.target)
        objective: Expression = -value if self.maximize else value
        groups = []
        every_check = [*constraint_checks.checks, *_failed(constraint_checks.fixed)]
        for position, members in enumerate(_groups(names, target_choices, every_check)):
            is_main = position == 0
            checks = [c for c in every_check if c.choices & members or (is_main and not c.choices)]
            groups.append(
                (self.choices.only(members), objective if is_main else Number(0.0), checks)
            )
        known_values = {**self.inputs.values, **dict.fromkeys(gaps, math.nan)}
        return _Case(self, variants, known_values, groups, constraint_checks.unknown)

    def conclude(
        self,
        cases: Sequence[_Case],
        results: Sequence[Sequence[tuple[Group, GroupResult]]],
        alternatives: int,
    ) -> Optimum:
        """The optimum over all cases; raises InfeasibleError where none has a feasible point."""
        ranked: list[tuple[float, int, Candidate]] = []
        for number, groups in enumerate(results):
            if all(result.candidates for _, result in groups):
                others = [result.candidates[0] for _, result in groups[1:]]
                for candidate in groups[0][1].candidates:
                    merged = dict(candidate.choices)
                    for other in others:
                        merged.update(other.choices)
                    ranked.append((candidate.value, number, Candidate(candidate.value, merged)))
        excluded: Counter[str] = Counter()
        for groups in results:
            for _, result in groups:
                excluded.update(result.excluded)
        if not ranked:
            raise self._infeasible(results, excluded)
        ranked.sort(key=lambda entry: entry[:2])
        _, number, best = ranked[0]
        case, groups = cases[number], results[number]
        resolution = self._resolve(case, best)
        return Optimum(
            target=self.registry.variables[self.target],
            value=resolution.require_value(),
            choices=self._chosen(case, best),
            resolution=resolution,
            method=_method(groups),
            points=sum(math.prod(result.points for _, result in pairs) for pairs in results),
            evaluated=sum(result.points for pairs in results for _, result in pairs),
            feasible=sum(math.prod(result.feasible for _, result in pairs) for pairs in results),
            undefined=sum(result.undefined for pairs in results for _, result in pairs),
            excluded=dict(excluded),
            binding=tuple(groups[0][1].binding),
            unknown=tuple(case.unknown),
            alternatives=tuple(
                Alternative(-value if self.maximize else value, self._chosen(cases[n], candidate))
                for value, n, candidate in ranked[1 : 1 + alternatives]
            ),
            variables=self.registry.variables,
            maximized=self.maximize,
            notes=tuple(self._notes(case, groups, resolution)),
        )

    def _resolve(self, case: _Case, best: Candidate) -> Resolution:
        known = {**self.inputs.values, **best.choices}
        return resolve(self.registry, self.target, known, case.variants, switch=self.switch)

    def _chosen(self, case: _Case, candidate: Candidate) -> Chosen:
        chosen: Chosen = {name: candidate.choices[name] for name in self.choices.names}
        for name in self.choices.variants:
            chosen[VARIANT_PREFIX + name] = case.variants[name]
        return chosen

    def _notes(
        self, case: _Case, groups: Sequence[tuple[Group, GroupResult]], resolution: Resolution
    ) -> Iterator[str]:
        if self.inputs.distributions:
            yield self.inputs.median_note
        yield from dict.fromkeys(
            group.conditions.note for group, _ in groups if group.conditions.note
        )
        if not case.groups[0][0].names and not self.choices.variants:
            yield f"{self.target} depends on none of the choices"
        idle = [n for choices, _, checks in case.groups[1:] if not checks for n in choices.names]
        if idle:
            yield f"without influence, left at the first value: {', '.join(idle)}"
        for verdict in resolution.validity:
            if verdict.status == "false":
                yield f"{verdict.name} is used outside its validity: {verdict.text}"
        for conflict in resolution.conflicts:
            yield conflict.text

    def _infeasible(
        self, results: Sequence[Sequence[tuple[Group, GroupResult]]], excluded: Counter[str]
    ) -> InfeasibleError:
        failed = [r for groups in results for _, r in groups if not r.candidates]
        points = sum(result.points for result in failed)
        if not excluded:
            return InfeasibleError(
                f"{self.target} has no finite value at any of {points} points",
                "check the given values for zeros and the choices for ranges without a case",
            )
        counts = ", ".join(f"{name} excludes {count}" for name, count in excluded.most_common(5))
        closest = [r.least_violating for r in failed if r.least_violating is not None]
        hint = None
        if closest:
            least = min(closest, key=lambda candidate: (len(candidate.active), candidate.value))
            at = ", ".join(
                f"{name} = {self.registry.variables[name].format(value)}"
                for name, value in least.choices.items()
            )
            hint = f"closest: {at or 'the given values'} violates only {', '.join(least.active)}"
        return InfeasibleError(f"none of {points} points fulfills every constraint: {counts}", hint)


def _failed(verdicts: Sequence[ConditionVerdict]) -> list[ConstraintCheck]:
    """Checks that exclude every point: constraints that fail whatever is chosen."""
    return [
        ConstraintCheck(verdict.name, verdict.text, verdict.meaning, Number(0.0), frozenset())
        for verdict in verdicts
        if verdict.status == "false"
    ]


def _groups(
    names: Sequence[str], target_choices: set[str], checks: Sequence[ConstraintCheck]
) -> list[set[str]]:
    """Sets of choices connected by the target or by checks; the target's set first."""
    groups = [set(target_choices)]
    for members in [*(check.choices for check in checks), *(frozenset([name]) for name in names)]:
        touching = [group for group in groups if group & members]
        rest = [group for group in groups if not group & members]
        if not members:
            continue
        merged = set(members).union(*touching)
        main = [merged] if groups[0] in touching else [groups[0]]
        rest = [group for group in rest if group is not groups[0]]
        groups = main + rest + ([] if merged in main else [merged])
    return groups


def _method(groups: Sequence[tuple[Group, GroupResult]]) -> str:
    refined = any(group.refiner is not None for group, _ in groups)
    enumerated = any(group.choices.discrete for group, _ in groups)
    if refined:
        return "enumeration, then local refinement" if enumerated else "local refinement"
    return "enumeration"
