"""The figures of one case with several seeds as one figure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

from assay.bench.harness.result import Figure, SeedRounds, Series, Verification


def merged(by_seed: Mapping[int, Figure]) -> Figure:
    """The rounds of all seeds one after the other; the check is the worst of them."""
    figures = list(by_seed.values())
    first = figures[0]
    seeds = tuple(SeedRounds(seed, len(figure.own.rounds)) for seed, figure in by_seed.items())
    if len(figures) == 1:
        return first if first.seeds else dataclasses.replace(first, seeds=seeds)
    names = [rival.name for rival in first.rivals]
    names = [name for name in names if all(name in {r.name for r in f.rivals} for f in figures)]
    absent = {
        rival.name: "not measured with every seed"
        for figure in figures
        for rival in figure.rivals
        if rival.name not in names
    }
    for figure in figures:
        absent |= figure.absent
    stalls = [figure.stalls for figure in figures if figure.stalls is not None]
    ceilings = [figure.ceiling for figure in figures if figure.ceiling is not None]
    return dataclasses.replace(
        first,
        own=_joined([figure.own for figure in figures]),
        ceiling=_joined(ceilings) if len(ceilings) == len(figures) else None,
        rivals=tuple(
            _joined([next(r for r in f.rivals if r.name == name) for f in figures])
            for name in names
        ),
        absent=absent,
        check=_worst([figure.check for figure in figures]),
        note="; ".join(
            dict.fromkeys(note for figure in figures for note in figure.note.split("; ") if note)
        ),
        seeds=seeds,
        stalls=reduce(add, stalls) if len(stalls) == len(figures) else None,
        stages=_stages(figures),
    )


def _stages(figures: Sequence[Figure]) -> dict[str, dict[str, list[float]]]:
    """Every run of every seed, by stage and subject."""
    joined: dict[str, dict[str, list[float]]] = {}
    for figure in figures:
        for stage, by_subject in figure.stages.items():
            for who, seconds in by_subject.items():
                joined.setdefault(stage, {}).setdefault(who, []).extend(seconds)
    return joined


def _joined(parts: Sequence[Series]) -> Series:
    rounds = tuple(value for part in parts for value in part.rounds)
    return Series(parts[0].name, rounds, parts[0].calls)


def _worst(checks: Sequence[Verification]) -> Verification:
    return max(checks, key=lambda check: math.inf if math.isnan(check.error) else check.error)
