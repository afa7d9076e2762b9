"""The engine's own defaults as a candidate: what is recommended is never worse than they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.improve.engines.protocol import EngineKnob
from assay.improve.levers.lever import CORRECTNESS, SAFETY, Candidate, Lever
from assay.load.workloads.measurement import Setting

NAME = "own defaults"


def own_defaults(
    levers: Sequence[Lever], knobs: Mapping[str, EngineKnob], settings: Mapping[str, Setting]
) -> Candidate | None:
    """All knobs of levers at the engine's defaults; None where they are there already.

    Knobs that no lever has are the user's, and those of lossy levers choose formats: both stay. A
    default that only the engine knows cannot be asked for.
    """
    changes: dict[str, Setting] = {}
    owners: dict[str, Lever] = {}
    for lever in levers:
        for knob in lever.knobs:
            known = knobs.get(knob.knob)
            if known is None or known.default is None or knob.knob not in settings:
                continue
            if settings[knob.knob] != known.default:
                owners.setdefault(knob.knob, lever)
                changes[knob.knob] = known.default
    lossless = CORRECTNESS[:2]
    changes = {
        name: value for name, value in changes.items() if owners[name].correctness in lossless
    }
    if not changes:
        return None
    using = [owners[name] for name in changes]
    return Candidate(
        name=f"{NAME}: {', '.join(f'{name}={value}' for name, value in changes.items())}",
        levers=tuple(dict.fromkeys(lever.name for lever in using)),
        changes=changes,
        correctness=max((lever.correctness for lever in using), key=CORRECTNESS.index),
        safety=max((lever.safety for lever in using), key=SAFETY.index),
        hot=all(knobs[name].hot for name in changes),
        memory=any(lever.memory for lever in using),
        predicted_by="the engine's own defaults come first: nothing worse is recommended",
    )
