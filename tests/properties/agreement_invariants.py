"""What answers of different commands have in common: one value, inside its interval, in any unit."""

from __future__ import annotations

import math

from property_harness import Answers, Draw, Invariant, RefusedError, Violation
from statements import scaled

from assay.model.inputs import read_inputs
from assay.scenario.questions.resolving import resolve
from assay.stack import registry

RATE, STEP = "serving.request_rate", "training.step_time"


def _text(name: str, value: float, *, shown: bool = False) -> str:
    """A value as one writes it, in the base unit or in the one that it is shown in."""
    variable = registry().variables[name]
    unit = variable.display.text if shown else str(variable.unit)
    number = variable.shown(value) if shown else value
    return f"{number!r}" if unit == "1" else f"{number!r} {unit}"


def _resolved(draw: Draw, answers: Answers, name: str) -> tuple[float, float, float]:
    """The value of `assay resolve` with the ends of its interval."""

    def ask() -> tuple[float, float, float]:
        answer = resolve(
            name, preset=draw.kind.preset, allow_conflicts=True,
            includes=[f"{group}/{entry}" for group, entry in draw.entries.items()],
            assign={key: _text(key, value) for key, value in draw.values.items()},
        )  # fmt: skip
        resolution = answer.resolution
        if resolution.value is None:
            raise RefusedError(f"no {name}")
        ends = (resolution.lower, resolution.upper)
        low, high = (resolution.value if end is None else end for end in ends)
        return resolution.value, low, high

    key = "resolve", name, tuple(draw.entries.items()), tuple(draw.values.items())
    value, low, high = answers.once(key, ask)
    return (
        answers.seen(draw, f"resolve {name}", value),
        answers.seen(draw, "low", low),
        answers.seen(draw, "high", high),
    )


def same_value(name: str) -> Invariant:
    """`assay resolve` gives what the tape of a sweep gives."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        by_tape, (value, _, _) = answers.value(draw, name), _resolved(draw, answers, name)
        if math.isclose(by_tape, value, rel_tol=1e-6):
            return None
        return Violation(f"{name}: {value:.9g} by itself, {by_tape:.9g} in a sweep", name, (draw,))

    kind = name.partition(".")[0]
    bug = scaled(f"resolve {name}", lambda _: 1.01)
    return Invariant(f"resolve of a {kind} draw is its sweep", kind, check, bug, (name,), 40)


def in_interval(name: str) -> Invariant:
    """The interval of a value holds it."""

    def check(draw: Draw, answers: Answers) -> Violation | None:
        value, low, high = _resolved(draw, answers, name)
        if low <= value * (1 + 1e-9) and value <= high * (1 + 1e-9):
            return None
        return Violation(f"{name}: {value:.6g}, but {low:.6g} to {high:.6g}", name, (draw,))

    kind = name.partition(".")[0]
    bug = scaled("high", lambda _: 0.01)
    return Invariant(
        f"the interval of a {kind} draw holds its value", kind, check, bug, (name,), 40
    )


def units(draw: Draw, answers: Answers) -> Violation | None:
    """A value is the same in the unit that it is shown in as in the base unit."""
    for name, value in draw.values.items():
        texts = [_text(name, value), _text(name, value, shown=True)]
        base, shown = (read_inputs(registry(), {name: text}).given[name] for text in texts)
        assert isinstance(base, float)
        assert isinstance(shown, float)
        shown = answers.seen(draw, "shown", shown)
        if not math.isclose(base, shown, rel_tol=1e-9):
            return Violation(
                f"{name}: {texts[0]} is {base!r}, {texts[1]} is {shown!r}", name, (draw,)
            )
    return None


INVARIANTS = (
    same_value(RATE),
    same_value(STEP),
    in_interval(RATE),
    in_interval(STEP),
    Invariant("units of serving values", "serving", units, scaled("shown", lambda _: 1e3), every=5),
    Invariant("units of training values", "training", units, scaled("shown", lambda _: 1e3), every=5),
)  # fmt: skip
