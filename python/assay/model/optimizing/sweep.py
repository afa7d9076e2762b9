"""Sweep: targets over the full product of some axes, as one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.array_types import Flags, Floats, Ints
from assay.errors import AssayError, InputError, MissingInputsError
from assay.model.inputs import Given, Inputs, read_inputs
from assay.model.language.units import Unit
from assay.model.language.variables import Variable
from assay.model.optimizing.choices import Discrete, choosable, read_axis
from assay.model.optimizing.constraint_checks import ConstraintChecks, find_constraint_checks
from assay.model.optimizing.grid import Grid, check_affordable
from assay.model.resolving.resolution import ConditionVerdict
from assay.model.resolving.resolve import resolve
from assay.model.selection import check_variants
from assay.model.tapes.cones import Cones, are_idle
from assay.model.tapes.points import PointFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.model.declarations import Declarations


LIMIT = 1_000_000
CHUNK = 1 << 16
"""Points that are evaluated at once."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A table of one row per combination, in display units; the last axis varies fastest.

    A target without a finite value is NaN. `holds` has a column per constraint that the given
    values and the axes determine, whatever the targets; `unknown` names the others.
    """

    axes: tuple[Variable, ...]
    targets: tuple[Variable, ...]
    columns: dict[str, Floats] = field(repr=False)
    holds: dict[str, Flags] = field(repr=False)
    conditions: dict[str, str] = field(default_factory=dict, repr=False)
    unknown: tuple[ConditionVerdict, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[self.targets[0].name])

    @property
    def units(self) -> dict[str, str]:
        """The display unit of each column."""
        return {variable.name: variable.display.text for variable in (*self.axes, *self.targets)}

    @property
    def verdicts(self) -> NDArray[np.str_]:
        """For each row whether every judged constraint holds; `unknown` where a value is."""
        sound = np.ones(len(self), dtype=bool)
        for column in self.holds.values():
            sound &= column
        verdicts = np.where(sound, "true", "false")
        return np.where(self._defined(), verdicts, "unknown")

    def _defined(self) -> Flags:
        table = np.array([self.columns[variable.name] for variable in self.targets])
        defined: Flags = np.all(np.isfinite(table), axis=0)
        return defined

    def violated(self, row: int) -> list[str]:
        """Names of the constraints that a row violates; none where a target has no value."""
        if any(not np.isfinite(self.columns[variable.name][row]) for variable in self.targets):
            return []
        return [name for name, column in self.holds.items() if not column[row]]

    @property
    def violations(self) -> dict[str, Ints]:
        """The rows that violate each constraint, for those that some row violates."""
        defined = self._defined()
        rows = {name: np.flatnonzero(~column & defined) for name, column in self.holds.items()}
        return {name: points for name, points in rows.items() if len(points)}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as mappings, with `constraints` and `violated` besides the columns."""
        for row, verdict in enumerate(self.verdicts):
            cells: dict[str, Any] = {
                name: float(column[row]) if np.isfinite(column[row]) else None
                for name, column in self.columns.items()
            }
            yield {**cells, "constraints": str(verdict), "violated": self.violated(row)}

    def to_data(self) -> dict[str, Any]:
        """The table as plain data."""
        return {
            "axes": [variable.name for variable in self.axes],
            "targets": [variable.name for variable in self.targets],
            "units": self.units,
            "rows": list(self.rows()),
            "violations": {
                name: {"condition": self.conditions.get(name, ""), "rows": rows.tolist()}
                for name, rows in self.violations.items()
            },
            "unknown": [verdict.to_data() for verdict in self.unknown],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class PreparedSweep:
    """What a sweep evaluates: targets and constraints as one function, and the points."""

    registry: Declarations
    axes: tuple[Discrete, ...]
    targets: tuple[Variable, ...]
    function: PointFunction
    grid: Grid
    checks: ConstraintChecks
    inputs: Inputs
    variants: Mapping[str, str]
    switch: bool

    @property
    def conditions(self) -> dict[str, str]:
        """The constraints that are judged, as text."""
        fixed = {verdict.name: verdict.text for verdict in self.checks.fixed}
        return {**fixed, **{check.name: check.text for check in self.checks.checks}}

    def notes(self) -> tuple[str, ...]:
        """What a reader must know beside the values."""
        notes = [self.function.note] if self.function.note else []
        if self.inputs.distributions:
            notes.append(self.inputs.median_note)
        names = [axis.variable.name for axis in self.axes]
        known = {name: v for name, v in self.inputs.values.items() if name not in names}
        first = {axis.variable.name: float(axis.values[0]) for axis in self.axes}
        target = self.targets[0].name
        conflicts = _conflicts(self.registry, target, known, first, self.variants, self.switch)
        return (*notes, *conflicts)


def prepare_sweep(
    registry: Declarations,
    targets: str | Sequence[str],
    over: Mapping[str, Any],
    given: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
    constraints: bool = True,
    allow_single: bool = False,
) -> PreparedSweep:
    """Read the axes, find the constraints that can be judged, and compile."""
    check_variants(registry, variants)
    names = [targets] if isinstance(targets, str) else list(dict.fromkeys(targets))
    axes = [read_axis(choosable(registry, name), spec) for name, spec in over.items()]
    if not names or not (axes or allow_single):
        raise InputError("nothing to sweep", "name at least one target and one axis")
    shown = tuple(registry.variable(name) for name in names)
    inputs = read_inputs(registry, given)
    known = {name: value for name, value in inputs.values.items() if name not in over}
    cones = Cones(registry, [*known, *over], variants, switch=switch)
    gaps = cones.missing_inputs(names)
    first = {axis.variable.name: float(axis.values[0]) for axis in axes}
    if gaps and not are_idle(registry, names, {**known, **first}, variants, switch=switch):
        raise MissingInputsError(
            f"{', '.join(names)} cannot be swept without {len(gaps)} more inputs: {', '.join(gaps)}",
            gaps,
            "give each a value, or sweep over it",
        )
    checks = (
        find_constraint_checks(cones, names, list(over), known)
        if constraints
        else ConstraintChecks()
    )
    function = PointFunction(
        registry, list(over), {**known, **dict.fromkeys(gaps, np.nan)}, variants, switch=switch,
        outputs=names,
        conditions={check.name: check.condition for check in checks.checks},
    )  # fmt: skip
    grid = Grid([axis.values for axis in axes])
    check_affordable(function, grid)
    return PreparedSweep(
        registry, tuple(axes), shown, function, grid, checks, inputs, variants, switch
    )


def sweep(
    registry: Declarations,
    targets: str | Sequence[str],
    over: Mapping[str, Any],
    given: Mapping[str, Given],
    variants: Mapping[str, str],
    *,
    switch: bool = True,
    constraints: bool = True,
    limit: int = LIMIT,
    allow_single: bool = False,
) -> Sweep:
    """Compute the targets at every combination of the values in `over`.

    An axis is a list of values, or (start, stop, count) with a spacing of `linear` or `log`.
    Without axes there is one point, where `allow_single` permits it.
    """
    prepared = prepare_sweep(
        registry, targets, over, given, variants,
        switch=switch, constraints=constraints, allow_single=allow_single,
    )  # fmt: skip
    grid, checks, shown = prepared.grid, prepared.checks, prepared.targets
    if grid.size > limit:
        raise InputError(
            f"the axes make {grid.size} points, more than the limit of {limit}",
            "sweep over fewer values: --over takes lists and start:stop:count; or have any number "
            "of points reduced: --summary",
        )
    table = _evaluate(prepared.function, grid)
    values = np.where(np.isfinite(table[: len(shown)]), table[: len(shown)], np.nan)
    columns = _axis_columns(prepared.axes, grid)
    columns.update(
        (variable.name, shown_values(values[row], variable.display))
        for row, variable in enumerate(shown)
    )
    return Sweep(
        axes=tuple(axis.variable for axis in prepared.axes),
        targets=shown,
        columns=columns,
        holds={
            **{v.name: np.full(grid.size, v.status == "true") for v in checks.fixed},
            **{c.name: table[len(shown) + row] > 0 for row, c in enumerate(checks.checks)},
        },
        conditions=prepared.conditions,
        unknown=tuple(checks.unknown),
        notes=prepared.notes(),
    )


def _conflicts(
    registry: Declarations,
    target: str,
    known: Mapping[str, float],
    first: Mapping[str, float],
    variants: Mapping[str, str],
    switch: bool,
) -> list[str]:
    """Given values that contradict their equations at the first point."""
    if all(registry.variables[name].is_root for name in known):
        return []
    try:
        resolution = resolve(registry, target, {**known, **first}, variants, switch=switch)
    except AssayError:
        # Without a value at the first point there is nothing to compare; the rows will say so.
        return []
    conflicts = [conflict for conflict in resolution.conflicts if conflict.variable.name in known]
    return [f"at the first point, {conflict.text}" for conflict in conflicts]


def _evaluate(function: PointFunction, grid: Grid) -> Floats:
    table = np.empty((function.rows, grid.size))
    for first in range(0, grid.size, CHUNK):
        last = min(first + CHUNK, grid.size)
        with np.errstate(all="ignore"):
            table[:, first:last] = function(grid.columns(np.arange(first, last)))
    return table


def _axis_columns(axes: Sequence[Discrete], grid: Grid) -> dict[str, Floats]:
    """The axes' columns, each distinct value converted exactly once."""
    exact = [np.array([axis.variable.shown(float(v)) for v in axis.values]) for axis in axes]
    rows = Grid(exact).columns(np.arange(grid.size))
    return {axis.variable.name: row for axis, row in zip(axes, rows, strict=True)}


def shown_values(values: Floats, unit: Unit) -> Floats:
    """Values in base units as values in a display unit."""
    shifted = values - float(unit.offset)
    return shifted * unit.scale.denominator / unit.scale.numerator
