"""Constraints that do not hold: the value, the limit that it is beyond, and whose limit that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.model.resolving.resolution import ConditionVerdict, Resolution

_SERVICE_LEVEL: Final = "serving.slo."


def concerning(assign: Sequence[str], resolution: Resolution) -> list[ConditionVerdict]:
    """The constraints that do not hold and that the figure has to do with.

    They limit what it is computed from, or what is computed from that in one step: a latency beside a
    throughput, and nothing of a load beside the layers of a model or the temperature of a die. A latency
    that is asked for is beside no service level but the question's, which `assign` has.
    """
    from assay import stack

    users = stack.registry().graph.users
    computed = [step.variable.name for step in resolution.trace if step.relation is not None]
    near = {step.variable.name for step in resolution.trace}
    near |= {relation.variable for name in computed for relation in users[name]}
    given = {line.partition("=")[0] for line in assign}
    verdicts = []
    for verdict in resolution.violated:
        names = {variable.name for variable, _ in verdict.values}
        unasked = {name for name in names - given if name.startswith(_SERVICE_LEVEL)}
        if names & near and not (unasked and resolution.target in names):
            verdicts.append(verdict)
    return verdicts


def broken_of(
    preset: str, assign: Sequence[str], verdicts: Sequence[ConditionVerdict]
) -> dict[str, str]:
    """What is said of each constraint of a figure that does not hold, by the constraint's name.

    `assign` are the values that the question gives.
    """
    return {verdict.name: _text(preset, assign, verdict) for verdict in verdicts}


def _text(preset: str, assign: Sequence[str], verdict: ConditionVerdict) -> str:
    names = [variable.name for variable, _ in verdict.values]
    text = f"{verdict.meaning}: {verdict.at}" if names else verdict.meaning
    given = {line.partition("=")[0] for line in assign}
    if any(name in given for name in names):
        return f"{text} (the limit is the question's)"
    return f"{text}{_of_preset(preset, names)}"


def _of_preset(preset: str, names: list[str]) -> str:
    """That values are the scenario's, which the question does not say."""
    if not preset:
        return ""
    from assay.scenario import built_in

    own = built_in.preset(preset).own
    values = [name for name in names if name in own]
    return f" (the limit is the preset's, {preset})" if values else ""
