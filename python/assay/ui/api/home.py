"""`/ask` and `/headlines`: a question in words, and figures of the built-in scenarios."""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from assay import paths
from assay.asking import answering
from assay.asking.text import LONGEST
from assay.errors import AssayError, unknown_name
from assay.model import store
from assay.model.comparing.sensitivity import sensitivities
from assay.model.inputs import read_inputs
from assay.model.optimizing.sweep import sweep
from assay.scenario import built_in
from assay.scenario.named_scenario import Preset
from assay.ui.api.reports import REFUSALS, alone, answer, send

POINTS: Final = 17
"""Points of a spark line."""
FACTOR: Final = 2.0
"""A spark line runs from the input divided by this to the input times it."""


@cache
def headline(name: str) -> dict[str, Any]:
    """The targets of a scenario; kept on disk by equations and values, for they take seconds."""
    preset = built_in.preset(name)
    stated = {variable: value.text for variable, value in preset.assignments.items()}
    key = store.fingerprint(
        preset.registry.key, name, preset.targets, stated, preset.variants, POINTS, FACTOR
    )
    path = paths.cache("headlines") / f"{key}.json"
    if (cached := store.read_cache(path)) is not None:
        kept: dict[str, Any] = json.loads(cached)
        return kept
    figures = _computed(preset)
    store.write_cache(path, json.dumps(figures).encode())
    return figures


def _computed(preset: Preset) -> dict[str, Any]:
    registry = preset.registry
    rows = []
    for label, target in preset.targets:
        resolution = registry.resolve(target, preset.inputs, preset.variants)
        variable = resolution.variable
        ends = (resolution.lower, resolution.upper)
        value = resolution.value
        rows.append(
            {
                "label": label,
                "target": target,
                "value": None if value is None else variable.shown(value),
                "unit": variable.display.text,
                "lo": None if ends[0] is None else variable.shown(ends[0]),
                "hi": None if ends[1] is None else variable.shown(ends[1]),
                "text": None if value is None else variable.figure(value, *ends).text,
                "missing": [gap.variable.name for gap in resolution.missing],
            }
        )
    known = [str(row["target"]) for row in rows if row["value"] is not None]
    return {
        "preset": preset.name,
        "description": preset.description,
        "targets": rows,
        "spark": _spark(preset, known) if known else None,
    }


def _spark(preset: Preset, targets: list[str]) -> dict[str, Any] | None:
    """The targets over the stated input that moves the first of them most.

    What the catalog and the calibration give, such as the error of the model, is nobody's choice:
    the line is over an input that the scenario states itself.
    """
    registry = preset.registry
    inputs = read_inputs(registry, preset.given, preset.correlations)
    try:
        moved = sensitivities(registry, targets[0], inputs, preset.variants)
    except AssayError:
        return None
    for moving in moved.inputs:
        if moving.variable.name not in preset.own or moving.value <= 0:
            continue
        axis = {moving.variable.name: (moving.value / FACTOR, moving.value * FACTOR, POINTS, "log")}
        try:
            swept = sweep(registry, targets, axis, preset.given, preset.variants, constraints=False)
        except AssayError:
            # A count may have no values between whole ones; the next input may.
            continue
        shown = moving.variable.shown
        return {
            "input": moving.variable.name,
            "meaning": moving.variable.meaning,
            "unit": moving.variable.display.text,
            "value": shown(moving.value),
            "at": swept.columns[moving.variable.name].tolist(),
            "values": {target: swept.columns[target].tolist() for target in targets},
        }
    return None


router = APIRouter(tags=["home"], responses=REFUSALS)


@router.get("/ask")
def ask(
    question: Annotated[str, Query(min_length=1, max_length=LONGEST, description="In words.")],
) -> Response:
    """What a question is about, and its answer: `assay ask QUESTION --json`."""
    return answer(lambda: answering.ask(question))


@router.get("/headlines/{preset}")
def headlines(preset: Annotated[str, Path(description="A built-in scenario.")]) -> Response:
    """The targets of a scenario with intervals, and how they move with a stated input."""
    known = built_in.presets()
    if preset not in known:
        raise unknown_name("scenario", preset, known)
    with alone():
        targets = headline(preset)
    return send(targets)
