"""Properties of answers: scenarios are drawn at random, and every invariant must hold for each.

A `Draw` is what a person can ask for: catalog entries and values, all as a command line has them. An
`Invariant` is a statement about the answers to draws of one kind; `Answers` asks the product. A
draw that violates an invariant is shrunk, entry by entry and value by value, for as long as it
violates it, and becomes command lines to paste.

To add an invariant:

1. Write a function of a draw and `Answers` in a `*_invariants.py` of this folder (`statements.py` has
   those that many make). It returns None, or a
   `Violation` that says what was expected and got, with the draws and the variable to ask for.
   `answers.value(draw, NAME)` is a variable of the graph; `draw.changed({NAME: value})` another draw.
2. Put an `Invariant` with it into that file's list; `invariants.py` joins the lists. `needs` are all
   variables that it asks for: those of one kind are evaluated together, on one tape. `every` spares a
   slow one: it is checked for every so many draws only.
3. Give it a `bug`: what a wrong product would answer, as a function of the draw, the name and the right
   number. `test_properties.py` plants it and expects the invariant to fail.

To add a kind of draws: a `Kind` in `draws.py`, whose entries of the catalog come in turn (`strata.py`).
`make properties` runs 20,000 draws, the tests 300; `tally.py` says what a run has to reach.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from strata import Chance

from assay.errors import AssayError, InputError
from assay.model.language.distributions import Distribution
from assay.model.tapes.cones import Cones
from assay.scenario import built_in
from assay.scenario.includes import include
from assay.scenario.named_scenario import Preset
from assay.scenario.refusals import refuse_impossible
from assay.stack import registry

SLACK = 1e-9
"""Relative rounding that no invariant minds."""


class RefusedError(Exception):
    """The product has no answer to a draw, and says why."""


@dataclass(frozen=True)
class Draw:
    """A question as a command line asks it.

    `entries` are catalog entries by group; `values` are variables of the graph in base units, or
    options of the kind's command.
    """

    kind: Kind
    entries: Mapping[str, str]
    values: Mapping[str, float]

    def changed(self, values: Mapping[str, float]) -> Draw:
        """The same draw with other values."""
        return replace(self, values={**self.values, **values})

    def given(self, name: str) -> float:
        """A value of the draw, or of the kind's preset."""
        own = self.values.get(name)
        return graph_given(self)[name] if own is None else own

    def has(self, name: str) -> bool:
        """Whether the draw or what it includes gives a value."""
        return name in self.values or name in graph_given(self)

    def command(self, what: str) -> str:
        """The command line that asks for a figure."""
        return self.kind.command(self, what)


@dataclass(frozen=True)
class Kind:
    """Draws of one sort: how they are drawn, and what each is asked with."""

    name: str
    draw: Callable[[Chance], Draw]
    command: Callable[[Draw, str], str]
    preset: str = ""
    main: str = ""
    """The variable without which a draw has no answer."""
    simplest: Mapping[str, str] = field(default_factory=dict)
    """The entry of each group that a minimal example has."""


@dataclass(frozen=True)
class Violation:
    """What was expected and got, and the draws and the figure that show it."""

    text: str
    what: str
    draws: tuple[Draw, ...]

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"  {draw.command(self.what)}" for draw in self.draws)])


Bug = Callable[[Draw, str, float], float]
"""What a wrong product answers: from a draw, a name and the right number."""


@dataclass(frozen=True)
class Invariant:
    """A statement that holds for every draw of a kind."""

    name: str
    kind: str
    check: Callable[[Draw, Answers], Violation | None]
    bug: Bug
    needs: tuple[str, ...] = ()
    every: int = 1


_KEPT: dict[tuple[Any, ...], Any] = {}


class Answers:
    """The product's answers; a planted bug changes them."""

    def __init__(self, invariants: tuple[Invariant, ...], bug: Bug | None = None) -> None:
        self._bug = bug
        needs: dict[str, dict[str, None]] = {}
        for invariant in invariants:
            needs.setdefault(invariant.kind, {}).update(dict.fromkeys(invariant.needs))
        self._outputs = {kind: tuple(names) for kind, names in needs.items()}

    def value(self, draw: Draw, name: str) -> float:
        """A variable of the graph in base units; NaN where the catalog lacks an input of it."""
        outputs = self._outputs[draw.kind.name]
        key = draw.kind.name, outputs, tuple(draw.entries.items()), tuple(draw.values.items())
        values = self.once(key, lambda: _graph_values(draw, outputs))
        return self.seen(draw, name, values[name])

    def seen(self, draw: Draw, name: str, number: float) -> float:
        """A number of the product, by its name, as it is or with the planted bug."""
        return number if self._bug is None else self._bug(draw, name, number)

    def once(self, key: tuple[Any, ...], ask: Callable[[], Any]) -> Any:
        """An answer, kept while draws around this one are looked at, without the planted bug."""
        if key not in _KEPT:
            if len(_KEPT) > 512:
                _KEPT.clear()
            try:
                _KEPT[key] = ask()
            except AssayError as error:
                _KEPT[key] = RefusedError(error.message)
            except RefusedError as error:
                _KEPT[key] = error
        if isinstance(_KEPT[key], RefusedError):
            raise _KEPT[key]
        return _KEPT[key]

    def lacks(self, draw: Draw, *names: str) -> bool:
        """Whether the catalog has no value for one of these figures."""
        return any(math.isnan(self.value(draw, name)) for name in names)


@lru_cache(512)
def _scenario(preset: str, includes: tuple[str, ...]) -> Preset:
    known = registry()
    return built_in.preset(preset).with_includes([include(path, known) for path in includes])


def _includes(draw: Draw) -> tuple[str, ...]:
    return tuple(f"{group}/{name}" for group, name in draw.entries.items())


def _included(draw: Draw) -> Preset:
    try:
        return _scenario(draw.kind.preset, _includes(draw))
    except AssayError as error:
        raise RefusedError(error.message) from error


@lru_cache(512)
def _medians(preset: str, includes: tuple[str, ...]) -> dict[str, float]:
    return {
        name: value.median() if isinstance(value, Distribution) else float(value)
        for name, value in _scenario(preset, includes).given.items()
    }


def graph_given(draw: Draw) -> dict[str, float]:
    """All given values of a draw, uncertain ones at their medians."""
    _included(draw)
    return {**_medians(draw.kind.preset, _includes(draw)), **draw.values}


def _graph_values(draw: Draw, outputs: tuple[str, ...]) -> dict[str, float]:
    scenario, given = _included(draw), graph_given(draw)
    try:
        refuse_impossible(given, scenario.variants)
    except InputError as error:
        raise RefusedError(error.message) from error
    names = tuple(sorted(given))
    known, function = _tape(names, outputs, tuple(sorted(scenario.variants.items())))
    values = dict.fromkeys(outputs, math.nan)
    if function is not None:
        found = function(*(given[name] for name in names))
        values |= {name: float(found[row]) for row, name in enumerate(known)}
    if math.isnan(values.get(draw.kind.main, 0.0)):
        raise RefusedError(f"no {draw.kind.main}")
    return values


@lru_cache(128)  # about 0.5 MB each
def _tape(
    names: tuple[str, ...], outputs: tuple[str, ...], variants: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, ...], Any]:
    """The outputs that these inputs determine, as one function."""
    cones = Cones(registry(), names, dict(variants), switch=True)
    known = tuple(name for name in outputs if not cones.missing_inputs([name]))
    if not known:
        return (), None
    return known, registry().compile(
        inputs=list(names), outputs=list(known), variants=dict(variants)
    )


def resolve_command(draw: Draw, what: str) -> str:
    """`assay resolve` of a variable in a scenario."""
    words = ["assay", "resolve", what, "--preset", draw.kind.preset]
    for group, name in draw.entries.items():
        words += ["--with", f"{group}/{name}"]
    for name, value in draw.values.items():
        variable = registry().variables[name]
        text = f"{variable.shown(value):.12g} {variable.display.text}".removesuffix(" 1")
        words += ["--set", f"{name}={text}"]
    return " ".join(shlex.quote(word) for word in words)


def violation_of(invariant: Invariant, draw: Draw, answers: Answers) -> Violation | None:
    """What violates an invariant, None where it holds or the catalog lacks what it is about."""
    if answers.lacks(draw, *invariant.needs):
        return None
    return invariant.check(draw, answers)


def shrunk(invariant: Invariant, violation: Violation, draw: Draw, answers: Answers) -> Violation:
    """The violation by the simplest draw that still has it, of those tried in a minute."""
    end, place, since = time.monotonic() + 60, 0, 0
    while since < len(candidates := _simpler(draw)) and time.monotonic() < end:
        simpler = candidates[place % len(candidates)]
        place, since = place + 1, since + 1
        try:
            smaller = violation_of(invariant, simpler, answers)
        except RefusedError:
            continue
        if smaller is not None:
            # What is before this place has been tried; all is tried again with the simpler draw.
            draw, violation, place, since = simpler, smaller, place - 1, 0
    return violation


def _simpler(draw: Draw) -> list[Draw]:
    """Draws with one entry, one value less, or a rounder or smaller number."""
    fewer = [
        replace(draw, entries={key: name for key, name in draw.entries.items() if key != group})
        for group in draw.entries
        if not draw.kind.simplest.get(group)
    ]
    usual = [
        replace(draw, entries={**draw.entries, group: name})
        for group, name in draw.kind.simplest.items()
        if draw.entries.get(group, name) != name
    ]
    without = [
        replace(draw, values={key: value for key, value in draw.values.items() if key != name})
        for name in draw.values
        if draw.kind.preset
    ]
    rounder = [
        draw.changed({name: number})
        for name, value in draw.values.items()
        for number in _rounder(value)
    ]
    return [*fewer, *usual, *without, *rounder]


def _rounder(value: float) -> list[float]:
    """Simpler numbers than this, all smaller: one digit, and half of that."""
    if not math.isfinite(value) or value <= 0:
        return []
    unit = 10.0 ** math.floor(math.log10(value))
    digit = math.floor(value / unit * (1 + SLACK)) * unit
    half = max(math.floor(value / unit / 2), 1) * unit
    return [
        number for number in (half, digit, value / 2) if number < value and number == round(number)
    ]
