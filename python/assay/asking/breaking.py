"""Constraints that do not hold: the value, the limit that it is beyond, and whose limit that is."""

from __future__ import annotations

from collections.abc import Sequence

from assay.model.resolving.resolution import ConditionVerdict, Resolution


def broken_of(preset: str, assign: Sequence[str], resolution: Resolution) -> dict[str, str]:
    """What is said of each constraint of a figure that does not hold, by the constraint's name.

    `assign` are the values that the question gives.
    """
    return {verdict.name: _text(preset, assign, verdict) for verdict in resolution.violated}


def _text(preset: str, assign: Sequence[str], verdict: ConditionVerdict) -> str:
    names = [variable.name for variable, _ in verdict.values]
    text = f"{verdict.meaning}: {verdict.at}" if names else verdict.meaning
    given = {line.partition("=")[0] for line in assign}
    if any(name in given for name in names):
        return f"{text} (the limit is the question's)"
    return f"{text}{_of_preset(preset, names)}"


def _of_preset(preset: str, names: list[str]) -> str:
    """That values are the scenario's, which the question does not say."""
    from assay.scenario import built_in

    own = built_in.preset(preset).own
    values = [name for name in names if name in own]
    return f" (the limit is the preset's, {preset}, not the question's)" if values else ""
