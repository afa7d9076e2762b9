"""Do levers help or hinder each other: the joint ratio against the product of the single ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from assay.improve.experiments.result import ExperimentResult
from assay.improve.experiments.stack import joint
from assay.improve.experiments.verdict import between, percent
from assay.improve.levers.lever import Candidate
from assay.load.figure import Figure

Kind = Literal["synergy", "interference", "none shown"]


class Interaction(NamedTuple):
    """The joint ratio over the product of single ratios; 1 where levers do not touch each other."""

    levers: tuple[str, ...]
    ratio: Figure
    kind: Kind
    statement: str


def interaction(
    singles: Sequence[ExperimentResult], together: ExperimentResult
) -> Interaction | None:
    """The interaction of levers that were measured alone and together; None without a ratio.

    All ratios are to the same control. The interval holds where all the single ones hold, so its
    confidence is at least 1 - (number of experiments) alpha.
    """
    ratios = [one.ratio for one in singles]
    if together.ratio is None or not ratios or any(one is None for one in ratios):
        return None
    known = [one for one in ratios if one is not None]
    value = together.ratio.value / math.prod(one.value for one in known)
    lo = together.ratio.lo / math.prod(one.hi for one in known)
    hi = together.ratio.hi / math.prod(one.lo for one in known)
    kind: Kind = "synergy" if lo > 1.0 else "interference" if hi < 1.0 else "none shown"
    found = Figure(value, lo, hi)
    names = tuple(one.candidate.name for one in singles)
    statement = (
        f"{' and '.join(names)}: together {percent(together.ratio.value)}, "
        f"{percent(value)} beyond their product ({between(found)}): {kind}"
    )
    return Interaction(names, found, kind, statement)


def joint_candidates(results: Sequence[ExperimentResult], most: int = 8) -> list[Candidate]:
    """Pairs of tried candidates worth trying together, the highest product of ratios first.

    Left out: candidates that failed or broke a gate, pairs of one knob, and pairs that both lost.
    """
    usable = [one for one in results if not one.failure and one.verdict != "invalid" and one.ratio]
    pairs = []
    for left, right in itertools.combinations(usable, 2):
        if left.candidate.changes.keys() & right.candidate.changes.keys():
            continue
        if (
            left.verdict == right.verdict == "regressed"
            or left.ratio is None
            or right.ratio is None
        ):
            continue
        product = left.ratio.value * right.ratio.value
        pairs.append((product, joint([left.candidate, right.candidate])))
    pairs.sort(key=lambda pair: -pair[0])
    return [candidate for _, candidate in pairs[:most]]
