"""Which levers can be tried on an engine as it stands, with which values, and why not the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import InputError
from assay.improve.engines.protocol import EngineDescription, EngineKnob
from assay.improve.levers import predicates
from assay.improve.levers.facts import Facts
from assay.improve.levers.lever import Candidate, KnobRange, Lever
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Workload

if TYPE_CHECKING:
    from assay.diagnose.diagnosis import Diagnosis


class Skipped(NamedTuple):
    """A lever that is not tried, and why."""

    lever: str
    reason: str


def candidates(
    levers: Sequence[Lever],
    description: EngineDescription,
    knobs: Mapping[str, EngineKnob],
    settings: Mapping[str, Setting],
    workload: Workload | None = None,
    diagnosis: Diagnosis | None = None,
) -> tuple[list[Candidate], list[Skipped]]:
    """A candidate for each value that each applicable lever may try, and the levers left out."""
    facts = Facts.of(description, settings, workload, diagnosis)
    proposals: list[Candidate] = []
    skipped: list[Skipped] = []
    proposed: set[tuple[tuple[str, Setting], ...]] = set()
    for lever in levers:
        reason, notes = _applies(lever, knobs, settings, facts)
        if reason:
            skipped.append(Skipped(lever.name, reason))
            continue
        rows = [row for row in _rows(lever, knobs, facts) if _differs(row, settings)]
        fresh = [row for row in rows if tuple(sorted(row.items())) not in proposed]
        if not fresh:
            already = "every value is tried by another lever" if rows else "nothing to change"
            current = ", ".join(f"{knob.knob}={settings[knob.knob]}" for knob in lever.knobs)
            skipped.append(Skipped(lever.name, f"{already}: {current}"))
        for row in fresh:
            proposed.add(tuple(sorted(row.items())))
            proposals.append(_candidate(lever, row, knobs, settings, notes))
    return proposals, skipped


def domain(
    proposed: Sequence[Candidate], settings: Mapping[str, Setting]
) -> dict[str, tuple[Setting, ...]]:
    """The space of a joint search: every knob of the candidates with its values and the current one."""
    values_of: dict[str, dict[Setting, None]] = {}
    for candidate in proposed:
        for knob, value in candidate.changes.items():
            values_of.setdefault(knob, {})[value] = None
    return {
        knob: tuple(dict.fromkeys((*values, settings[knob]))) for knob, values in values_of.items()
    }


def _applies(
    lever: Lever, knobs: Mapping[str, EngineKnob], settings: Mapping[str, Setting], facts: Facts
) -> tuple[str, tuple[str, ...]]:
    """Why a lever cannot be tried; and of one that can, what was not known."""
    for knob in lever.knobs:
        if knob.knob not in knobs:
            return f"the engine has no knob {knob.knob}", ()
        if knob.knob not in settings:
            return f"{knob.knob} cannot be read back, so a change could not be undone", ()
    notes = []
    for text in lever.applies:
        expression = predicates.parse(text, f"lever {lever.name}: applies")
        value = expression.value(facts)
        if value is None:
            unset = [
                name for name in expression.knobs() if name in settings and settings[name] is None
            ]
            if unset:
                return f"the engine chooses {unset[0]} itself", ()
            notes.append(f"not known whether {text}")
        elif not isinstance(value, bool):
            raise InputError(f"lever {lever.name}: applies: {text}: expected a truth, got {value}")
        elif not value:
            return f"does not hold: {text}{_present(expression, settings)}", ()
    return "", tuple(notes)


def _present(expression: predicates.Expression, settings: Mapping[str, Setting]) -> str:
    """The settings that an expression reads, in words."""
    names = [name for name in dict.fromkeys(expression.knobs()) if name in settings]
    if not names:
        return ""
    return f" ({', '.join(f'{name} is {_word(settings[name])}' for name in names)})"


def _word(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(
    lever: Lever, knobs: Mapping[str, EngineKnob], facts: Facts
) -> Iterator[dict[str, Setting]]:
    """The values that go together, one row a candidate."""
    count = max(len(knob.values) for knob in lever.knobs)
    seen = []
    for place in range(count):
        row: dict[str, Setting] | None = {}
        for knob in lever.knobs:
            value = knob.values[place % len(knob.values)]
            made = _computed(lever, knob, value, knobs[knob.knob], facts)
            if row is not None and made is not _DROPPED:
                row[knob.knob] = made  # type: ignore[assignment]
            else:
                row = None
        if row is not None and row not in seen:
            seen.append(row)
            yield row


_DROPPED = object()
"""A value that is not tried: null of an expression, or outside the knob's range."""


def _computed(
    lever: Lever, knob_range: KnobRange, value: Setting, knob: EngineKnob, facts: Facts
) -> Setting | object:
    """The value of a knob, as its schema takes it."""
    if isinstance(value, str) and value.startswith("="):
        where = f"lever {lever.name}: knobs: {knob_range.knob}"
        value = predicates.parse(value[1:], where).value(facts)
        if value is None:
            return _DROPPED
        if isinstance(value, float) and (isinstance(knob.default, int) or value.is_integer()):
            value = math.floor(value)
    if knob.choices is not None and value not in knob.choices:
        return _DROPPED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        below = knob.least is not None and value < knob.least
        above = knob.most is not None and value > knob.most
        if below or above:
            return _DROPPED
    return value


def _differs(row: Mapping[str, Setting], settings: Mapping[str, Setting]) -> bool:
    return any(settings[knob] != value for knob, value in row.items())


def _candidate(
    lever: Lever,
    row: Mapping[str, Setting],
    knobs: Mapping[str, EngineKnob],
    settings: Mapping[str, Setting],
    notes: tuple[str, ...],
) -> Candidate:
    changes = {knob: value for knob, value in row.items() if settings[knob] != value}
    return Candidate(
        name=f"{lever.name}: {', '.join(f'{knob}={_word(value)}' for knob, value in row.items())}",
        levers=(lever.name,),
        changes=changes,
        correctness=lever.correctness,
        safety=lever.safety,
        # The engine knows better than the file which of its knobs are live.
        hot=all(knobs[knob].hot for knob in changes),
        memory=lever.memory,
        notes=notes,
    )
