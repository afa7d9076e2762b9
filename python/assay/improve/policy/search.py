"""Which settings to try next: single levers first, then all knobs together, by a surrogate.

`ask` proposes changes to the settings at the start, `tell` takes their measured ratio or their
failure. Nothing here runs an engine: the loop and `assay bench improve` drive the same search.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from assay.array_types import Floats, Ints
from assay.errors import InputError, unknown_name
from assay.improve.experiments.settings import PRACTICAL_THRESHOLD
from assay.improve.policy.constraints import Constraints, Failure
from assay.improve.policy.surrogate import Axis, Posterior, Surrogate, Trials
from assay.intervals import Interval
from assay.lazy_import import np
from assay.load.workloads.measurement import Setting

if TYPE_CHECKING:
    pass

Changes = dict[str, Setting]
Key = tuple[Setting, ...]

MOST_POINTS: Final = 4096
"""Settings that the surrogate is asked about; of a larger space a sample, and neighbors."""
Z95: Final = 1.96
"""Half a 95 % interval of a normal distribution, in standard deviations."""
UNTOLD: Final = 0.05
"""Standard error of a log ratio that comes without an interval."""


class Search:
    """Asks for settings to try, and learns from what they give.

    >>> search = Search({"threads": (1, 2), "max_batch": (1, 4, 8)}, {"threads": 1, "max_batch": 1})
    >>> search.ask()
    {'threads': 2}
    >>> search.tell({"threads": 2}, Interval(1.4, 1.35, 1.45))
    >>> search.best()[0]
    {'threads': 2}
    """

    def __init__(
        self,
        domain: Mapping[str, Sequence[Setting]],
        start: Mapping[str, Setting],
        *,
        predictions: Mapping[tuple[str, Setting], Interval] | None = None,
        constraints: Constraints | None = None,
        seed: int = 0,
        least_gain: float = PRACTICAL_THRESHOLD,
        singles: bool = True,
    ) -> None:
        """Search values of knobs, in the order of trying; the start is among them.

        `predictions` are ratios expected of single changes from the start. The search ends when
        no settings are expected to gain more than `least_gain`, as a share: trials beyond that
        would choose among lucky measurements. Without `singles` the
        caller has tried single changes itself.
        """
        for knob in domain:
            if knob not in start:
                raise unknown_name("knob of the start", knob, start)
        self.start = {knob: start[knob] for knob in domain}
        self.constraints = constraints or Constraints()
        self.least_gain = least_gain
        self._axes = [Axis(knob, _values(values, start[knob])) for knob, values in domain.items()]
        self._predictions = dict(predictions or {})
        self._surrogate = Surrogate(self._axes, seed)
        self._random = np.random.default_rng(seed)
        self._told: dict[Key, list[tuple[float, float]]] = {}
        self._failed: set[Key] = set()
        self._fit: Posterior | None = None
        """Of what was told so far; made anew when something is."""
        self._pending = list(self._singles()) if singles else []

    def ask(self) -> Changes | None:
        """Changes to try next; None where nothing is left that should gain."""
        while self._pending:
            changes = self._pending.pop(0)
            if self._key(changes) not in self._told and self._allowed(changes):
                return changes
        return self._by_surrogate()

    def tell(self, changes: Mapping[str, Setting], outcome: Interval | str) -> None:
        """Take the ratio to the start that changes gave (above 1 better), or how they failed."""
        key = self._key(changes)
        if isinstance(outcome, str):
            self._failed.add(key)
            self.constraints.add(
                Failure(dict(changes), {**self.start, **changes}, outcome or "failed")
            )
            return
        if not outcome.value > 0:
            raise InputError(f"ratio: expected above 0, got {outcome.value}")
        error = UNTOLD
        if 0 < outcome.lo < outcome.hi:
            error = math.log(outcome.hi / outcome.lo) / (2 * Z95)
        self._told.setdefault(key, []).append((math.log(outcome.value), error))
        self._fit = None

    def best(self) -> tuple[Changes, Interval]:
        """The tried changes that the surrogate holds for the best, with their expected ratio."""
        tried = [self._key({}), *(key for key in self._told if key != self._key({}))]
        mean, deviation = self._posterior(tried)
        place = int(np.argmax(mean))
        return self._changes(tried[place]), _figure(float(mean[place]), float(deviation[place]))

    @property
    def trials(self) -> int:
        """Outcomes so far, failures included."""
        return sum(len(outcomes) for outcomes in self._told.values()) + len(self._failed)

    def _singles(self) -> Iterator[Changes]:
        """One change of each knob: the value with the best prediction, else the first to try."""
        for axis in self._axes:
            others = [value for value in axis.values if value != self.start[axis.knob]]
            if others:
                yield {axis.knob: max(others, key=lambda value: self._predicted(axis.knob, value))}

    def _predicted(self, knob: str, value: Setting) -> float:
        """The logarithm of the ratio that is predicted of a single change; 0 where none is."""
        prediction = self._predictions.get((knob, value))
        return 0.0 if prediction is None or prediction.value <= 0 else math.log(prediction.value)

    def _prior(self, keys: Sequence[Key]) -> Floats:
        """Predictions of single changes, as if they multiplied."""
        return np.array(
            [
                sum(
                    self._predicted(axis.knob, value)
                    for axis, value in zip(self._axes, key, strict=True)
                )
                for key in keys
            ]
        )

    def _by_surrogate(self) -> Changes | None:
        """The allowed untried settings of the largest expected improvement."""
        start = self._key({})
        points = [
            key
            for key in self._points()
            if key not in self._told and key != start and self._allowed(self._changes(key))
        ]
        if not points:
            return None
        tried = [start, *self._told]
        incumbent = float(np.max(self._posterior(tried)[0]))
        mean, deviation = self._posterior(points)
        gain = _expected_improvement(mean, deviation, incumbent)
        place = int(np.argmax(gain))
        if gain[place] <= math.log1p(self.least_gain):
            return None
        return self._changes(points[place])

    def _points(self) -> list[Key]:
        """All settings of a small space; of a large one a sample and the neighbors of the best."""
        size = math.prod(len(axis.values) for axis in self._axes)
        if size <= MOST_POINTS:
            return list(itertools.product(*(axis.values for axis in self._axes)))
        points = {
            tuple(axis.values[self._random.integers(len(axis.values))] for axis in self._axes)
            for _ in range(MOST_POINTS // 2)
        }
        best = sorted(self._told, key=lambda key: -self._told[key][-1][0])[:8]
        for key in [*best, self._key({})]:
            points |= set(self._neighbors(key))
        return sorted(points, key=repr)

    def _neighbors(self, key: Key) -> Iterator[Key]:
        """Settings that differ in one knob or two."""
        places = range(len(self._axes))
        for first, second in itertools.combinations_with_replacement(places, 2):
            for value in self._axes[first].values:
                for other in self._axes[second].values:
                    changed = list(key)
                    changed[first], changed[second] = value, other
                    yield tuple(changed)

    def _posterior(self, keys: Sequence[Key]) -> tuple[Floats, Floats]:
        if self._fit is None:
            told: list[tuple[Key, float, float]] = [(self._key({}), 0.0, 0.005)]
            told += [
                (key, *outcome) for key, outcomes in self._told.items() for outcome in outcomes
            ]
            tried = [key for key, _, _ in told]
            self._fit = self._surrogate.fit(
                Trials(
                    self._codes(tried),
                    np.array([log for _, log, _ in told]),
                    np.array([error**2 for _, _, error in told]),
                    self._prior(tried),
                )
            )
        return self._fit.at(self._codes(keys), self._prior(keys))

    def _codes(self, keys: Sequence[Key]) -> Ints:
        return self._surrogate.codes([dict(zip(self.start, key, strict=True)) for key in keys])

    def _allowed(self, changes: Mapping[str, Setting]) -> bool:
        if self._key(changes) in self._failed:
            return False
        return self.constraints.forbids({**self.start, **changes}) is None

    def _key(self, changes: Mapping[str, Setting]) -> Key:
        for knob, value in changes.items():
            axis = next((axis for axis in self._axes if axis.knob == knob), None)
            if axis is None:
                raise unknown_name("knob", knob, self.start)
            if value not in axis.values:
                raise InputError(
                    f"{knob}: expected one of {', '.join(str(value) for value in axis.values)}, "
                    f"got {value}"
                )
        return tuple({**self.start, **changes}[knob] for knob in self.start)

    def _changes(self, key: Key) -> Changes:
        return {
            knob: value
            for (knob, before), value in zip(self.start.items(), key, strict=True)
            if value != before
        }


def _values(values: Sequence[Setting], start: Setting) -> tuple[Setting, ...]:
    return tuple(dict.fromkeys((*values, start)))


def _figure(mean: float, deviation: float) -> Interval:
    half = Z95 * deviation
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _expected_improvement(mean: Floats, deviation: Floats, incumbent: float) -> Floats:
    """By how much settings beat the incumbent on average, where they do (Mockus, 1978)."""
    ahead = (mean - incumbent) / deviation
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-distance / math.sqrt(2)) for distance in ahead.tolist()])
    gain: Floats = deviation * (ahead * below + density)
    return gain
