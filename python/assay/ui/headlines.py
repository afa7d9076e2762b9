"""Headline figures of the built-in scenarios: value, interval, and how they move with an input."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from assay import stack
from assay.errors import AssayError
from assay.model.comparing.sensitivity import sensitivities
from assay.model.inputs import read_inputs
from assay.model.optimizing.sweep import sweep

POINTS: Final = 17
"""Points of a spark line."""
FACTOR: Final = 2.0
"""A spark line runs from the input divided by this to the input times it."""


@cache
def headline(name: str) -> dict[str, Any]:
    """The targets of a scenario; computed once, since built-in scenarios do not change."""
    preset = stack.preset(name)
    registry = preset.registry
    rows = []
    for label, target in preset.targets:
        found = registry.resolve(target, preset.inputs, preset.variants)
        variable = found.variable
        ends = (found.lower, found.upper)
        value = found.value
        rows.append(
            {
                "label": label,
                "target": target,
                "value": None if value is None else variable.shown(value),
                "unit": variable.display.text,
                "lo": None if ends[0] is None else variable.shown(ends[0]),
                "hi": None if ends[1] is None else variable.shown(ends[1]),
                "text": None if value is None else variable.figure(value, *ends).text,
                "missing": [gap.variable.name for gap in found.missing],
            }
        )
    known = [row["target"] for row in rows if row["value"] is not None]
    return {
        "preset": name,
        "description": preset.description,
        "targets": rows,
        "spark": _spark(name, known) if known else None,
    }


def _spark(name: str, targets: list[str]) -> dict[str, Any] | None:
    """The targets over the stated input that moves the first of them most.

    Inputs that are uncertain by themselves, such as the error of the model, are no choice of
    anybody; the line is over one that somebody states.
    """
    preset = stack.preset(name)
    registry = preset.registry
    inputs = read_inputs(registry, preset.given, preset.correlations)
    try:
        moved = sensitivities(registry, targets[0], inputs, preset.variants)
    except AssayError:
        return None
    for one in moved.inputs:
        if one.is_uncertain or one.value <= 0:
            continue
        axis = {one.variable.name: (one.value / FACTOR, one.value * FACTOR, POINTS, "log")}
        try:
            found = sweep(registry, targets, axis, preset.given, preset.variants, constraints=False)
        except AssayError:
            # A count may have no values between whole ones; the next input may.
            continue
        shown = one.variable.shown
        return {
            "input": one.variable.name,
            "meaning": one.variable.meaning,
            "unit": one.variable.display.text,
            "value": shown(one.value),
            "at": found.columns[one.variable.name].tolist(),
            "values": {target: found.columns[target].tolist() for target in targets},
        }
    return None
