"""Searches and experiments over recorded blocks: regret beside Optuna's TPE and random search, false promotions.

Nothing is timed here: every figure follows from the recordings in `bench/results`, so it is the
same on every machine.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.replays import recordings, searches
from assay.bench.replays.mixture import quadrature_error
from assay.bench.replays.promotions import Promotions, promotions
from assay.bench.replays.recordings import RecordedNoise
from assay.bench.replays.regret import (
    WITHIN,
    Curve,
    Searcher,
    curve,
    exhaustive,
    median_curve,
    plain,
)

SEEDS: Final = 20
QUICK_SEEDS: Final = 3
RUNS: Final = 500
QUICK_RUNS: Final = 20
SECONDS: Final = 600.0
"""Of recorded blocks in an experiment."""
PLANTED: Final = 0.03
SHARES: Final = (0.0625, 0.125, 0.25)
"""Trials after which the choice is judged, as shares of the configurations."""
HORIZON: Final = 0.5
"""Most trials, as a share of the configurations."""

_CLOCK: Final = SelfTimedClock()


class _Race:
    """The loop's search and its rival over one grid; each seed is run once."""

    def __init__(self, path: Path, quick: bool) -> None:
        self.path = path
        self.grid = grid = recordings.grid(path)
        self.seeds = QUICK_SEEDS if quick else SEEDS
        self.most = round((SHARES[-1] if quick else HORIZON) * len(grid.points))
        self._curves: dict[tuple[str, int], Curve] = {}

    def curve(self, name: str, search: Searcher, number: int) -> Curve:
        """The curve of a seed."""
        key = (name, number % self.seeds)
        if key not in self._curves:
            self._curves[key] = curve(search, self.grid, key[1], self.most)
        return self._curves[key]

    def note(self, name: str, search: Searcher) -> str:
        """The median curve in words."""
        medians = median_curve([self.curve(name, search, seed) for seed in range(self.seeds)])
        regrets = [medians[self.trials(share) - 1] for share in SHARES]
        first = next((at for at, regret in enumerate(medians, 1) if regret <= WITHIN), None)
        values = ", ".join(
            f"{regret:.1%} after {self.trials(share)}"
            for share, regret in zip(SHARES, regrets, strict=True)
        )
        reached = f"{WITHIN:.0%} first after {first}" if first else f"{WITHIN:.0%} never"
        return f"{name}: median regret {values} trials, {reached}"

    def exhaustive_note(self) -> str:
        """What one repetition tells of the others, in words."""
        regret = statistics.median(exhaustive(self.grid, seed) for seed in range(self.seeds))
        return (
            f"all {len(self.grid.points)} measured, the highest taken: median regret {regret:.1%}"
        )

    def trials(self, share: float) -> int:
        """A share of the configurations as trials."""
        return round(share * len(self.grid.points))


def cases(settings: Settings) -> list[Case]:
    """Regret over the recorded grids, then experiments over recorded noise."""
    gathered = _regrets(_Race(recordings.FOLDER / recordings.GRID, settings.quick), "")
    if not settings.quick:
        for name, file in recordings.FURTHER_GRIDS.items():
            gathered += _regrets(_Race(recordings.FOLDER / file, settings.quick), f"{name}: ")
    for path in (recordings.FOLDER / name for name in recordings.NOISE):
        if path.is_file():
            gathered += _experiments(recordings.noise(path), settings.quick)
    return gathered


def _regrets(race: _Race, label: str) -> list[Case]:
    size = {"configurations": len(race.grid.points), "repetitions": race.grid.repetitions}
    arrival = functools.partial(_raced, race, lambda raced: float(raced.arrived))
    regrets = [
        Case(
            f"{label}trials to within {WITHIN:.0%} of the best",
            "trials",
            arrival,
            {**size, "most": race.most},
            rounds=race.seeds,
        )
    ]
    for share in SHARES:
        trials = race.trials(share)
        regrets.append(
            Case(
                f"{label}true rate of the choice after {trials} trials, of the best",
                "%",
                functools.partial(_raced, race, functools.partial(_share_of_best, trials)),
                size,
                rounds=race.seeds,
            )
        )
    return regrets


def _share_of_best(trials: int, raced: Curve) -> float:
    return 1.0 - raced.regrets[trials - 1]


def _raced(race: _Race, measured: Callable[[Curve], float]) -> PreparedCase:
    def subject(name: str, search: Searcher) -> Subject:
        return Subject(name, lambda number: measured(race.curve(name, search, number)), _CLOCK)

    rival: Subject | Absent = Absent(searches.TPE, "not installed (pip install optuna)")
    notes = [race.note("assay", searches.loop_search)]
    if searches.has_optuna():
        rival = subject(searches.TPE, searches.tpe)
        notes.append(race.note(searches.TPE, searches.tpe))
    notes.append(race.note(searches.RANDOM, searches.random_search))
    notes.append(race.exhaustive_note())
    return PreparedCase(
        subject("assay", searches.loop_search),
        Check("a recount of the raw recording", lambda _: _recount_error(race), 1e-12),
        rivals=[rival, subject(searches.RANDOM, searches.random_search)],
        note="; ".join(notes),
    )


def _recount_error(race: _Race) -> float:
    """Largest difference of the start's true rate from one that is summed up from the file."""
    raw, grid = recordings.raw(race.path), race.grid
    start = plain(grid)
    rates = {
        visit["repetition"]: math.fsum(tokens / seconds for tokens, seconds in visit["blocks"])
        / len(visit["blocks"])
        for visit in raw["visits"]
        if visit["settings"] == start
    }
    point = tuple(start[name] for name in grid.knobs)
    errors = []
    for without in range(grid.repetitions):
        others = [rate for repetition, rate in rates.items() if repetition != without]
        expected = sum(others) / len(others)
        errors.append(abs(grid.truth(point, without) / expected - 1.0))
    return max(errors)


def _experiments(noise: RecordedNoise, quick: bool) -> list[Case]:
    runs = QUICK_RUNS if quick else RUNS
    seconds = min(60.0 if quick else SECONDS, len(noise.rates) * noise.seconds)
    where = f"{noise.name}, {seconds / 60:.0f} min"
    size = {"runs": runs, "seconds": seconds, "blocks": len(noise.rates)}

    @functools.cache
    def replayed(effect: float) -> Promotions:
        return promotions(noise, effect, runs, seconds)

    def prepared(effect: float) -> PreparedCase:
        done = replayed(effect)
        after = (
            f"median after {done.median_pairs:.0f} pairs of {noise.seconds:.2f} s blocks"
            if math.isfinite(done.median_pairs)
            else "fewer than half promoted"
        )
        return PreparedCase(
            Subject("assay", lambda _: replayed(effect).promoted, _CLOCK),
            Check("quadrature of the mixture", lambda _: quadrature_error(), 1e-6),
            note=f"{done.runs} runs; {after}; interval missed the truth at some look in "
            f"{done.missed:.1%} of runs; {noise.describe()}",
        )

    return [
        Case(
            f"equal settings promoted at any look ({where})",
            "% of runs",
            functools.partial(prepared, 0.0),
            {**size, "effect": 0.0},
            rounds=1,
        ),
        Case(
            f"planted {PLANTED:+.0%} found ({where})",
            "%",
            functools.partial(prepared, PLANTED),
            {**size, "effect": PLANTED},
            rounds=1,
        ),
    ]


SUITE = Suite("improve", cases, devices=("cpu",), seeding="rounds", is_timed=False)
