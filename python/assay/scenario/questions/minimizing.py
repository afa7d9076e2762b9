"""The least or largest value of a variable over choices, entries of the catalog among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

from assay.answers import Answer, Progress, silent
from assay.cluster import current
from assay.errors import (
    AssayError,
    CheckFailedError,
    InfeasibleError,
    InputError,
    MissingInputsError,
)
from assay.keywords import takes
from assay.model.optimizing.choices import VARIANT_PREFIX
from assay.scenario.includes import known_groups
from assay.scenario.question import GIVEN, Given, Question, contradiction, read_question
from assay.scenario.questions.compared_accelerators import borrowed_constants, compared_prices
from assay.scenario.questions.entry_combinations import EntryCombination, entry_combinations
from assay.scenario.questions.missing import MissingAnswer, missing_answer
from assay.scenario.questions.point_parts import search_enumerator
from assay.scenario.questions.ranges import Over, read_choices, split_catalog

if TYPE_CHECKING:
    from assay.model.optimizing.optimum import Optimum


@dataclass(frozen=True)
class MinimizeAnswer(Answer):
    """The best feasible point, the next best ones, and what bounds it."""

    optimum: Optimum

    def headline(self) -> str:
        """The best value, and the choices that give it."""
        return optimum_headline(self.optimum)

    def to_json(self) -> dict[str, Any]:
        """The optimum as JSON data."""
        return {**self.optimum.to_data(), "notes": list(self.notes)}


@dataclass(frozen=True)
class EntryOptimum:
    """The optimum with one combination of entries, or why there is none."""

    entries: tuple[str, ...]
    question: Question
    optimum: Optimum | None
    reason: str = ""

    @property
    def caveat(self) -> str:
        """What the optimum borrows where nobody measured the accelerator's kernels."""
        return borrowed_constants(self.question)


@dataclass(frozen=True)
class MinimizeEntriesAnswer(Answer):
    """The best combination of catalog entries, its optimum, and the optimum of every other."""

    groups: tuple[str, ...]
    entries: tuple[str, ...]
    optimum: Optimum
    every: tuple[EntryOptimum, ...]
    caveat: str = ""
    """What the best combination borrows where nobody measured its kernels."""

    def headline(self) -> str:
        """The best value, and the entries and choices that give it."""
        return optimum_headline(self.optimum, self.entries)

    def to_json(self) -> dict[str, Any]:
        """The optimum as JSON data, with its entries and the optimum of every combination."""
        return {
            **self.optimum.to_data(),
            "entries": dict(zip(self.groups, self.entries, strict=True)),
            "caveat": self.caveat,
            "by_entry": [
                {
                    "entries": dict(zip(self.groups, other.entries, strict=True)),
                    "value": other.optimum and other.optimum.target.shown(other.optimum.value),
                    "reason": other.reason,
                }
                for other in self.every
            ],
        }


def optimum_headline(optimum: Optimum, entries: Sequence[str] = ()) -> str:
    """The best value of the target with the entries and choices behind it."""
    choices = (
        f"{name} = {value if isinstance(value, str) else optimum.variables[name].figure(value).text}"
        for name, value in optimum.choices.items()
    )
    best = f"{optimum.target.name} = {optimum.target.figure(optimum.value).text}"
    return f"{best}, with {', '.join((*entries, *choices))}"


@takes(GIVEN)
def minimize(
    target: str,
    over: Over,
    *,
    maximize: bool = False,
    constraints: bool = True,
    alternatives: int = 5,
    switch: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    workers: int | None = None,
    progress: Progress = silent,
    **given: Unpack[Given],
) -> MinimizeAnswer | MinimizeEntriesAnswer | MissingAnswer:
    """Minimize a variable over free variables, relations and catalog entries.

    `over` has values by name, or texts `name=values`: `a,b,c UNIT` or `start:stop:count[:log] UNIT` is enumerated,
    `lower..upper UNIT` is optimized continuously, `variant:NAME=A,B` chooses between relations
    and `accelerators=A,B` between entries of the catalog. A feasible point satisfies every
    constraint that can be checked. With `workers`, and in a job on a cluster, that many processes
    or its nodes share the points, of which there may be any number.
    """
    if alternatives < 0:
        raise InputError(f"alternatives: expected 0 or more, got {alternatives}")
    catalog, rest = split_catalog(over, known_groups())

    def search(question: Question, of: Given, choices: dict[str, Any]) -> Optimum:
        enumerator = None
        if workers is not None or current.is_job():
            enumerator = search_enumerator(
                target, rest, question, of, maximize=maximize, constraints=constraints,
                switch=switch, workers=workers, progress=progress,
            )  # fmt: skip
        return question.registry.minimize(
            target,
            choices,
            question.given,
            question.variants,
            maximize=maximize,
            constraints=constraints,
            switch=switch,
            alternatives=alternatives,
            allow_single=bool(catalog),
            progress=lambda done, _: progress(f"minimizing: {done:,} points"),
            enumerator=enumerator,
        )

    def problem_of(
        question: Question, choices: Iterable[str], optimum: Optimum
    ) -> AssayError | None:
        conflict = contradiction(question, choices, switch=switch, allow_conflicts=allow_conflicts)
        violated = [verdict.name for verdict in optimum.resolution.violated]
        if conflict is None and violated and fail_on_violated:
            return CheckFailedError(f"violated: {', '.join(violated)}")
        return conflict

    def on_given(question: Question, choices: Mapping[str, Any]) -> list[str]:
        varied = {name for name in choices if not name.startswith(VARIANT_PREFIX)}
        tried = {n.removeprefix(VARIANT_PREFIX): v for n, v in choices.items() if n not in varied}
        # A value that one of the relations tried would use is used.
        by_variants = [
            replace(
                question, variants={**question.variants, **dict(zip(tried, names, strict=True))}
            ).notes_on_given([target], varied, switch=switch, replaced=False)
            for names in product(*tried.values())
        ]
        return [note for note in by_variants[0] if all(note in notes for notes in by_variants)]

    if catalog:
        combinations = entry_combinations(catalog, **given)
        registry = combinations[0].question.registry
        choices = read_choices(registry, rest) if rest else {}
        every = [
            _optimum_of(each, lambda each: search(each.question, each.given, choices))
            for each in combinations
        ]
        best, optimum = _best(every)
        return MinimizeEntriesAnswer(
            tuple(catalog),
            best.entries,
            optimum,
            tuple(every),
            best.caveat,
            problem=problem_of(best.question, choices, optimum),
            notes=[
                *compared_prices([each.question for each in every if each.optimum], [target]),
                *on_given(best.question, choices),
                *optimum.notes,
                *best.question.notes,
            ],
        )
    question = read_question(**given)
    choices = read_choices(question.registry, rest)
    try:
        optimum = search(question, given, choices)
    except MissingInputsError as error:
        return missing_answer(question.registry, error)
    return MinimizeAnswer(
        optimum,
        problem=problem_of(question, choices, optimum),
        notes=[*on_given(question, choices), *optimum.notes, *question.notes],
    )


def _optimum_of(
    combination: EntryCombination, search: Callable[[EntryCombination], Optimum]
) -> EntryOptimum:
    entries, question = combination.entries, combination.question
    try:
        return EntryOptimum(entries, question, search(combination))
    except (InfeasibleError, MissingInputsError) as error:
        return EntryOptimum(entries, question, None, error.message)


def _best(every: Sequence[EntryOptimum]) -> tuple[EntryOptimum, Optimum]:
    """The best combination; raises where none has a feasible point."""
    feasible = [(each, each.optimum) for each in every if each.optimum is not None]
    if not feasible:
        reasons = "; ".join(f"{', '.join(each.entries)}: {each.reason}" for each in every)
        raise InfeasibleError(f"no entry has a feasible point: {reasons}")
    sign = -1.0 if feasible[0][1].maximized else 1.0
    return min(feasible, key=lambda pair: sign * pair[1].value)
