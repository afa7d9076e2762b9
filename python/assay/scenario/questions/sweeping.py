"""Variables at every combination of values and catalog entries, and Pareto fronts of two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from assay.answers import Answer, Progress, silent
from assay.errors import AssayError, CheckFailedError, InputError, MissingInputsError
from assay.keywords import takes
from assay.model.language.variables import Variable
from assay.model.optimizing.choices import choosable, read_axis
from assay.model.optimizing.sweep import Sweep, sweep as sweep_registry
from assay.model.optimizing.sweep_summary import SweepSummary
from assay.model.resolving.resolve import find_conflicts
from assay.plurals import count
from assay.scenario.includes import known_groups
from assay.scenario.question import (
    GIVEN,
    Given,
    Question,
    conflict_error,
    contradiction,
    each_of,
    read_question,
)
from assay.scenario.questions.compared_accelerators import compared_prices
from assay.scenario.questions.entry_combinations import EntryCombination, entry_combinations
from assay.scenario.questions.missing import MissingAnswer, missing_answer
from assay.scenario.questions.point_parts import sweep_summary
from assay.scenario.questions.ranges import Over, read_axes, split_catalog
from assay.scenario.questions.swept_text import swept_headline, with_units
from assay.spoken_options import option

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SweepAnswer(Answer):
    """The table of a sweep over variables."""

    table: Sweep

    def headline(self) -> str:
        """How many points there are, and from where to where each target goes."""
        axes = [variable.name for variable in self.table.axes]
        return swept_headline(axes, self.table.targets, list(self.table.rows()))

    def view(self) -> list[Any]:
        """The rows first, under names with units."""
        data = self.to_json()
        return [with_units(data.pop("rows"), data["units"]), data]

    def to_json(self) -> dict[str, Any]:
        """The table as JSON data."""
        return {**self.table.to_data(), "notes": list(self.notes)}


@dataclass(frozen=True)
class SummaryAnswer(Answer):
    """What a sweep over any number of points comes to."""

    summary: SweepSummary

    def headline(self) -> str:
        """How many points there are, and how many satisfy every constraint."""
        of = self.summary
        axes = ", ".join(variable.name for variable in of.axes)
        return f"{count(of.points, 'point')} of {axes}; {of.satisfying:,} satisfy all constraints"

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON data."""
        return {**self.summary.to_data(), "notes": list(self.notes)}


@dataclass(frozen=True)
class SweptEntries:
    """The table of one combination of entries, or the inputs that it lacks."""

    entries: tuple[str, ...]
    table: Sweep | None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogSweep:
    """Tables of every combination of entries, with one column for each group of the catalog."""

    groups: tuple[str, ...]
    axes: tuple[Variable, ...]
    targets: tuple[Variable, ...]
    combinations: tuple[SweptEntries, ...] = field(repr=False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows; a combination without a value has one, which names the missing inputs."""
        for swept in self.combinations:
            named = dict(zip(self.groups, swept.entries, strict=True))
            if swept.table is None:
                empty = dict.fromkeys(v.name for v in (*self.axes, *self.targets))
                missing = list(swept.missing)
                yield {
                    **named,
                    **empty,
                    "constraints": "unknown",
                    "violated": [],
                    "missing": missing,
                }
                continue
            for row in swept.table.rows():
                yield {**named, **row, "missing": []}

    @property
    def columns(self) -> list[str]:
        """Names of the axes: groups of the catalog, then variables."""
        return [*self.groups, *(variable.name for variable in self.axes)]

    @property
    def notes(self) -> list[str]:
        """Notes of all combinations; those that differ between them carry their entries."""
        by_note: dict[str, list[str]] = {}
        for swept in self.combinations:
            for note in swept.notes:
                by_note.setdefault(note, []).append(", ".join(swept.entries))
        return [
            note if len(of) == len(self.combinations) else f"{'; '.join(of)}: {note}"
            for note, of in by_note.items()
        ]

    @property
    def violated(self) -> list[str]:
        """Names of the constraints that are violated somewhere."""
        return list(dict.fromkeys(n for row in self.rows() for n in row["violated"]))

    @property
    def conditions(self) -> dict[str, str]:
        """The constraints of all combinations, as text."""
        tables = [swept.table for swept in self.combinations if swept.table is not None]
        return {name: text for table in tables for name, text in table.conditions.items()}

    def to_data(self) -> dict[str, Any]:
        """The tables as one, as plain data."""
        return {
            "axes": self.columns,
            "targets": [variable.name for variable in self.targets],
            "units": {v.name: v.display.text for v in (*self.axes, *self.targets)},
            "rows": list(self.rows()),
            "notes": self.notes,
        }


@dataclass(frozen=True)
class SweepEntriesAnswer(Answer):
    """The tables of a sweep over catalog entries, and over variables with them."""

    swept: CatalogSweep

    def headline(self) -> str:
        """How many points there are, and from where to where each target goes."""
        return swept_headline(self.swept.columns, self.swept.targets, list(self.swept.rows()))

    def view(self) -> list[Any]:
        """The rows first, under names with units."""
        data = self.to_json()
        return [with_units(data.pop("rows"), data["units"]), data]

    def to_json(self) -> dict[str, Any]:
        """The tables as one, as JSON data."""
        return self.swept.to_data()


@dataclass(frozen=True)
class ParetoAnswer(Answer):
    """The points that no other feasible point beats in both targets."""

    swept: CatalogSweep
    front: Sequence[Row]
    points: int
    feasible: int
    maximized: Sequence[str]

    def headline(self) -> str:
        """How many points are on the front, and from where to where each target goes on it."""
        front = swept_headline(self.swept.columns, self.swept.targets, self.front)
        return f"front of {self.feasible:,} feasible of {count(self.points, 'point')}: {front}"

    def view(self) -> list[Any]:
        """The front first, under names with units."""
        data = self.to_json()
        return [with_units(data.pop("rows"), data["units"]), data]

    def to_json(self) -> dict[str, Any]:
        """The front and its columns as JSON data."""
        return {
            **self.swept.to_data(),
            "rows": list(self.front),
            "points": self.points,
            "feasible": self.feasible,
            "maximized": list(self.maximized),
        }


@takes(GIVEN)
def sweep(
    targets: str | Sequence[str],
    over: Over,
    *,
    switch: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    **given: Unpack[Given],
) -> SweepAnswer | SweepEntriesAnswer | MissingAnswer:
    """Compute variables at every combination of values.

    `over` has values by name, or texts `name=values`: `a,b,c UNIT` or `start:stop:count[:log] UNIT`
    of a variable, or entries of the catalog, such as `accelerators=h100_sxm,h200_sxm`. The last
    varies fastest.

    >>> table = sweep(["econ.cost.per_token"], {"gpu.power": "400,500 W/GPU"},
    ...     preset="dense_training_cost_fixture").table
    >>> [row["gpu.power"] for row in table.rows()]
    [400.0, 500.0]
    """
    targets = each_of(targets)
    catalog, rest = split_catalog(over, known_groups())
    if catalog:
        combinations = entry_combinations(catalog, **given)
        axes = read_axes(rest) if rest else {}
        swept = _sweep_entries(targets, list(catalog), axes, combinations, switch=switch)
        conflict = contradiction(
            combinations[0].question, axes, switch=switch, allow_conflicts=allow_conflicts
        )
        problem = conflict or _problem_with_entries(swept, fail_on_violated=fail_on_violated)
        priced = [each.question for each in combinations] if "accelerators" in catalog else []
        notes = [*compared_prices(priced, targets), *swept.notes]
        return SweepEntriesAnswer(swept, problem=problem, notes=notes)
    question = read_question(**given)
    axes = read_axes(rest)
    try:
        table = sweep_registry(
            question.registry, targets, axes, question.given, question.variants, switch=switch
        )
    except MissingInputsError as error:
        return missing_answer(question.registry, error)
    conflict = contradiction(question, axes, switch=switch, allow_conflicts=allow_conflicts)
    if conflict is None and not allow_conflicts:
        conflict = _contradiction_on(question, axes, switch=switch)
    return SweepAnswer(
        table,
        problem=conflict or _violated_somewhere(list(table.violations), fail_on_violated),
        notes=[
            *question.notes_on_given(targets, list(axes), switch=switch, replaced=False),
            *table.notes,
            *question.notes,
        ],
    )


@takes(GIVEN)
def summarize_sweep(
    targets: str | Sequence[str],
    over: Over,
    *,
    switch: bool = True,
    fail_on_violated: bool = False,
    allow_conflicts: bool = False,
    workers: int | None = None,
    progress: Progress = silent,
    **given: Unpack[Given],
) -> SummaryAnswer | MissingAnswer:
    """Reduce the variables over every combination of values, of which there may be any number.

    `workers` processes share the points, or the nodes of the cluster that the job runs on.
    """
    targets = each_of(targets)
    catalog, rest = split_catalog(over, known_groups())
    if catalog:
        raise InputError(
            f"{option('--summary')}: expected axes of variables, got the catalog's "
            f"{next(iter(catalog))}",
            f"summarize one entry at a time: {option('--with')} {next(iter(catalog))}/NAME",
        )
    question = read_question(**given)
    axes = read_axes(rest)
    try:
        summary = sweep_summary(
            targets,
            rest,
            question,
            given,
            switch=switch,
            workers=1 if workers is None else workers,
            progress=progress,
        )
    except MissingInputsError as error:
        return missing_answer(question.registry, error)
    conflict = contradiction(question, axes, switch=switch, allow_conflicts=allow_conflicts)
    if conflict is None and not allow_conflicts:
        conflict = _contradiction_on(question, axes, switch=switch)
    return SummaryAnswer(
        summary,
        problem=conflict or _violated_somewhere(list(summary.violations), fail_on_violated),
        notes=[
            *question.notes_on_given(targets, list(axes), switch=switch, replaced=False),
            *summary.notes,
            *question.notes,
        ],
    )


def _contradiction_on(
    question: Question, axes: Mapping[str, Any], *, switch: bool
) -> InputError | None:
    """The error where a value of an axis contradicts a given one, which `resolve` would refuse too."""
    inputs = question.inputs
    for name, text in axes.items():
        values = read_axis(choosable(question.registry, name), text).values
        for value in dict.fromkeys((float(values[0]), float(values[-1]))):
            point = replace(
                inputs, values={**inputs.values, name: value}, stated=inputs.stated | axes.keys()
            )
            conflicts = find_conflicts(question.registry, point, question.variants, switch=switch)
            others = [conflict for conflict in conflicts if conflict.variable.name not in axes]
            if others:
                return conflict_error(others, question.stated)
    return None


@takes(GIVEN)
def pareto(
    first: str,
    second: str,
    over: Over,
    *,
    maximize: Sequence[str] = (),
    switch: bool = True,
    allow_conflicts: bool = False,
    **given: Unpack[Given],
) -> ParetoAnswer:
    """Find the Pareto front of two targets over choices; `maximize` names those to maximize."""
    if first == second:
        raise InputError(f"the two targets are the same: {first}")
    for name in maximize:
        if name not in (first, second):
            raise InputError(f"{option('--maximize')}: expected one of the two targets, got {name}")
    catalog, rest = split_catalog(over, known_groups())
    axes = read_axes(rest) if rest or not catalog else {}
    combinations = entry_combinations(catalog, **given)
    swept = _sweep_entries([first, second], list(catalog), axes, combinations, switch=switch)
    rows = list(swept.rows())
    signs = [-1.0 if name in maximize else 1.0 for name in (first, second)]
    front = pareto_front(rows, (first, second), signs)
    problem: AssayError | None = contradiction(
        combinations[0].question, axes, switch=switch, allow_conflicts=allow_conflicts
    )
    if problem is None and not front:
        problem = InputError(f"none of {count(len(rows), 'point')} is feasible")
    return ParetoAnswer(
        swept,
        front,
        len(rows),
        sum(_is_feasible(row, (first, second)) for row in rows),
        maximize,
        problem=problem,
        notes=swept.notes,
    )


def pareto_front(
    rows: Sequence[Row], targets: tuple[str, str], signs: Sequence[float]
) -> list[Row]:
    """The feasible rows that no other feasible row dominates, by the first target."""

    def cost(row: Row) -> tuple[float, float]:
        return signs[0] * row[targets[0]], signs[1] * row[targets[1]]

    feasible = sorted((row for row in rows if _is_feasible(row, targets)), key=cost)
    front: list[Row] = []
    for row in feasible:
        # Sorted by the first target: only the best second target so far can dominate.
        if not front or cost(row)[1] < cost(front[-1])[1] or cost(row) == cost(front[-1]):
            front.append(row)
    return front


def _is_feasible(row: Row, targets: tuple[str, str]) -> bool:
    return row["constraints"] != "false" and all(row[name] is not None for name in targets)


def _sweep_entries(
    targets: Sequence[str],
    groups: Sequence[str],
    axes: Mapping[str, Any],
    combinations: Sequence[EntryCombination],
    *,
    switch: bool,
) -> CatalogSweep:
    """Sweep the targets with every combination; one that lacks inputs says which."""
    registry = combinations[0].question.registry
    swept = []
    for combination in combinations:
        entries, question = combination.entries, combination.question
        try:
            table = sweep_registry(
                registry,
                targets,
                axes,
                question.given,
                question.variants,
                switch=switch,
                allow_single=True,
            )
        except MissingInputsError as error:
            swept.append(SweptEntries(entries, None, tuple(error.names), question.notes))
            continue
        on_given = question.notes_on_given(targets, list(axes), switch=switch, replaced=False)
        notes = (*on_given, *question.notes, *table.notes)
        swept.append(SweptEntries(entries, table, notes=notes))
    shown = tuple(registry.variable(name) for name in dict.fromkeys(targets))
    variables = tuple(registry.variable(name) for name in axes)
    return CatalogSweep(tuple(groups), variables, shown, tuple(swept))


def _problem_with_entries(swept: CatalogSweep, *, fail_on_violated: bool) -> AssayError | None:
    violated = _violated_somewhere(swept.violated, fail_on_violated)
    if violated is None and all(each.table is None for each in swept.combinations):
        lacking = sorted({name for each in swept.combinations for name in each.missing})
        inputs = count(len(lacking), "input")
        return MissingInputsError(f"no combination has a value: {inputs} missing", lacking)
    return violated


def _violated_somewhere(names: Sequence[str], fail: bool) -> CheckFailedError | None:
    if not fail or not names:
        return None
    return CheckFailedError(f"violated at some points: {', '.join(names)}")
