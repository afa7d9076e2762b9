"""Sweeps whose axes are catalog entries as well as variables, and the Pareto fronts of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, Final

import typer

from assay.cli import options
from assay.cli.output import (
    BAD,
    FAINT,
    Canvas,
    Line,
    Report,
    count,
    working,
    wrapped,
)
from assay.cli.question import Question, contradiction, read_question
from assay.cli.ranges import read_axes, split_catalog
from assay.cli.sweep_table import sweep_lines
from assay.errors import AssayError, CheckFailedError, InputError, MissingInputsError
from assay.model.language.variables import Variable
from assay.model.optimizing.sweep import Sweep, sweep

MAX_COMBINATIONS: Final = 1000
"""Most combinations of catalog entries; each is a scenario of its own."""


@dataclass(frozen=True)
class Scenario:
    """The command line's scenario with one combination of catalog entries."""

    entries: tuple[str, ...]
    question: Question


@dataclass(frozen=True)
class SweptScenario:
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
    scenarios: tuple[SweptScenario, ...] = field(repr=False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows; a combination without a value has one, which names the missing inputs."""
        for found in self.scenarios:
            named = dict(zip(self.groups, found.entries, strict=True))
            if found.table is None:
                empty = dict.fromkeys(v.name for v in (*self.axes, *self.targets))
                missing = list(found.missing)
                yield {
                    **named,
                    **empty,
                    "constraints": "unknown",
                    "violated": [],
                    "missing": missing,
                }
                continue
            for row in found.table.rows():
                yield {**named, **row, "missing": []}

    @property
    def notes(self) -> list[str]:
        """Notes of all combinations; those that differ between them carry their entries."""
        by_note: dict[str, list[str]] = {}
        for found in self.scenarios:
            for note in found.notes:
                by_note.setdefault(note, []).append(", ".join(found.entries))
        return [
            note if len(of) == len(self.scenarios) else f"{'; '.join(of)}: {note}"
            for note, of in by_note.items()
        ]

    @property
    def violated(self) -> list[str]:
        """Names of the constraints that are violated somewhere."""
        return list(dict.fromkeys(n for row in self.rows() for n in row["violated"]))

    @property
    def conditions(self) -> dict[str, str]:
        """The constraints of all combinations, as text."""
        tables = [found.table for found in self.scenarios if found.table is not None]
        return {name: text for one in tables for name, text in one.conditions.items()}

    def to_data(self) -> dict[str, Any]:
        """The tables as one, as plain data."""
        return {
            "axes": [*self.groups, *(variable.name for variable in self.axes)],
            "targets": [variable.name for variable in self.targets],
            "units": {v.name: v.display.text for v in (*self.axes, *self.targets)},
            "rows": list(self.rows()),
            "notes": self.notes,
        }


def scenarios(
    catalog: Mapping[str, Sequence[str]],
    preset: Sequence[str] | None,
    assign: Sequence[str] | None,
    variant: Sequence[str] | None,
    includes: Sequence[str] | None,
    model_config: str | None,
) -> list[Scenario]:
    """The scenario with every combination of catalog entries."""
    combinations = list(product(*catalog.values()))
    if len(combinations) > MAX_COMBINATIONS:
        raise InputError(
            f"{len(combinations):,} combinations of catalog entries: expected at most "
            f"{MAX_COMBINATIONS:,}"
        )
    found = []
    for entries in combinations:
        paths = [f"{group}/{name}" for group, name in zip(catalog, entries, strict=True)]
        every = [*(includes or ()), *paths]
        question = read_question(preset, assign, variant, every, model_config)
        found.append(Scenario(entries, question))
    return found


def catalog_sweep(
    targets: Sequence[str],
    groups: Sequence[str],
    axes: Mapping[str, Any],
    found: Sequence[Scenario],
    *,
    switch: bool,
) -> CatalogSweep:
    """Sweep the targets in every scenario; one that lacks inputs says which."""
    registry = found[0].question.registry
    tables = []
    for scenario in found:
        question = scenario.question
        try:
            swept = sweep(
                registry, targets, axes, question.given, question.variants, switch=switch,
                allow_single=True,
            )  # fmt: skip
        except MissingInputsError as error:
            tables.append(SweptScenario(scenario.entries, None, tuple(error.names), question.notes))
            continue
        notes = (*question.notes, *swept.notes)
        tables.append(SweptScenario(scenario.entries, swept, notes=notes))
    shown = tuple(registry.variable(name) for name in dict.fromkeys(targets))
    variables = tuple(registry.variable(name) for name in axes)
    return CatalogSweep(tuple(groups), variables, shown, tuple(tables))


def catalog_sweep_report(
    found: CatalogSweep, conflict: AssayError | None, *, fail_on_violated: bool, as_json: bool
) -> Report:
    """The report of `assay sweep` where an axis is a group of the catalog."""
    problem = conflict
    if problem is None and fail_on_violated and found.violated:
        problem = CheckFailedError(f"violated at some points: {', '.join(found.violated)}")
    lacking = {n for scenario in found.scenarios for n in scenario.missing}
    if problem is None and all(scenario.table is None for scenario in found.scenarios):
        problem = MissingInputsError(
            f"no combination has a value: {count(len(lacking), 'input')} missing", sorted(lacking)
        )
    return Report(
        found.to_data(), lambda canvas: _lines(found, list(found.rows()), canvas), as_json,
        problem, found.notes,
    )  # fmt: skip


def _lines(
    found: CatalogSweep, rows: Sequence[Mapping[str, Any]], canvas: Canvas
) -> Iterator[Line]:
    return sweep_lines(
        rows, found.axes, found.targets, found.conditions, canvas, groups=found.groups
    )


def pareto_command(
    first: Annotated[str, typer.Argument(metavar="VARIABLE", help="The first target.")],
    second: Annotated[str, typer.Argument(metavar="VARIABLE", help="The second target.")],
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="NAME=VALUES",
            help="A choice: a,b,c UNIT or start:stop:count[:log] UNIT of a variable, or entries of "
            "the catalog, such as accelerators=h100_sxm,h200_sxm. May be repeated.",
        ),
    ] = None,
    maximize: Annotated[
        list[str] | None,
        typer.Option(
            "--maximize", metavar="VARIABLE", help="A target of which more is better; else less is."
        ),
    ] = None,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    model_config: options.ModelConfig = None,
    no_switch: options.NoSwitch = False,
    allow_conflicts: options.AllowConflicts = False,
    as_json: options.Json = False,
) -> Report:
    """Find the Pareto front of two targets over choices.

    A point is on the front if it satisfies every constraint that can be checked, and no other such
    point is at least as good in both targets and better in one.
    """
    from assay.scenario.includes import known_groups

    if first == second:
        raise InputError(f"the two targets are the same: {first}")
    for name in maximize or ():
        if name not in (first, second):
            raise InputError(f"--maximize: expected one of the two targets, got {name}")
    catalog, rest = split_catalog(over, known_groups())
    if not catalog and not rest:
        read_axes(rest)
    axes = read_axes(rest) if rest else {}
    found = scenarios(catalog, preset, assign, variant, includes, model_config)
    with working("enumerating"):
        swept = catalog_sweep([first, second], list(catalog), axes, found, switch=not no_switch)
    rows = list(swept.rows())
    signs = [-1.0 if name in (maximize or ()) else 1.0 for name in (first, second)]
    front = pareto_front(rows, (first, second), signs)
    feasible = sum(_is_feasible(row, (first, second)) for row in rows)
    data = {
        **swept.to_data(), "rows": front, "points": len(rows), "feasible": feasible,
        "maximized": list(maximize or ()),
    }  # fmt: skip
    problem: AssayError | None = contradiction(
        found[0].question, axes, switch=not no_switch, allow_conflicts=allow_conflicts
    )
    if problem is None and not front:
        problem = InputError(f"none of {count(len(rows), 'point')} is feasible")

    def text(canvas: Canvas) -> Iterator[Line]:
        if front:
            yield from _lines(swept, front, canvas)
        shares = (
            f"{len(front):,} of {count(len(rows), 'point')} on the front, {feasible:,} feasible"
        )
        yield ((shares, FAINT),)
        for name in [] if front else swept.violated:
            yield from wrapped(f"violated: {name}", canvas, style=BAD)

    return Report(data, text, as_json, problem, swept.notes)


def pareto_front(
    rows: Sequence[Mapping[str, Any]], targets: tuple[str, str], signs: Sequence[float]
) -> list[Mapping[str, Any]]:
    """The feasible rows that no other feasible row dominates, by the first target."""

    def cost(row: Mapping[str, Any]) -> tuple[float, float]:
        return signs[0] * row[targets[0]], signs[1] * row[targets[1]]

    feasible = sorted((row for row in rows if _is_feasible(row, targets)), key=cost)
    front: list[Mapping[str, Any]] = []
    for row in feasible:
        # Sorted by the first target: only the best second target so far can dominate.
        if not front or cost(row)[1] < cost(front[-1])[1] or cost(row) == cost(front[-1]):
            front.append(row)
    return front


def _is_feasible(row: Mapping[str, Any], targets: tuple[str, str]) -> bool:
    return row["constraints"] != "false" and all(row[name] is not None for name in targets)
