"""The loop's search, Optuna's TPE and random search, all told the same rates of the same trials."""

from __future__ import annotations

import importlib.util
import math
import random
from typing import Any, Final

from assay.bench.replays.recordings import Point
from assay.bench.replays.regret import Trials
from assay.improve.policy.search import Search
from assay.intervals import Interval

TPE: Final = "Optuna TPE"
RANDOM: Final = "random search"
Z95: Final = 1.96


def loop_search(trials: Trials, most: int) -> list[Point]:
    """The search of `assay run`: ratios to the start with the interval of a visit's blocks."""
    search = Search(trials.grid.knobs, trials.start, seed=trials.seed)
    start = trials.rate(trials.point({}))
    half = math.exp(Z95 * block_spread(trials))
    held = [trials.point({})]
    while len(held) < most:
        changes = search.ask()
        if changes is None:
            break
        ratio = trials.rate(trials.point(changes)) / start
        search.tell(changes, Interval(ratio, ratio / half, ratio * half))
        held.append(trials.point(search.best()[0]))
    return held


def block_spread(trials: Trials) -> float:
    """Standard error of the logarithm of a visit's rate, over all visits of the repetition."""
    total, count, blocks = 0.0, 0, 1
    for (repetition, _), rates in trials.grid.visits.items():
        if repetition == trials.repetition:
            logs = [math.log(rate) for rate in rates]
            mean = math.fsum(logs) / len(logs)
            total += math.fsum((log - mean) ** 2 for log in logs)
            count += len(logs) - 1
            blocks = len(logs)
    return math.sqrt(total / max(count, 1) / blocks)


def random_search(trials: Trials, most: int) -> list[Point]:
    """Points in any order, none twice, the start first; the highest rate is held for the best."""
    start = trials.point({})
    others = [point for point in trials.grid.points if point != start]
    random.Random(trials.seed).shuffle(others)
    held = [start]
    for point in others[: most - 1]:
        held.append(max(held[-1], point, key=trials.rate))
    return held


def has_optuna() -> bool:
    """Whether the rival is installed."""
    return importlib.util.find_spec("optuna") is not None


def tpe(trials: Trials, most: int) -> list[Point]:
    """Tree-structured Parzen estimator (Bergstra et al. 2011) with Optuna's defaults.

    It maximizes the rate, starts with the same plain settings, and holds the highest rate it has
    measured for the best, as `study.best_params` does.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=trials.seed)
    )
    study.enqueue_trial(dict(trials.start))

    def objective(trial: Any) -> float:
        chosen = {
            name: trial.suggest_categorical(name, list(values))
            for name, values in trials.grid.knobs.items()
        }
        return trials.rate(trials.point(chosen))

    held = []
    for _ in range(most):
        study.optimize(objective, n_trials=1)
        held.append(trials.point(study.best_params))
    return held
