"""The causal profile: randomized blocks of delays, until each group is decided or time is up.

Groups of nodes come first. The slope of a group is the mean of those of its nodes, which lie between
0 and 1: a group near 1 (or 0) has nodes near 1 (or 0), and groups in between are split, in halves,
down to nodes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from assay.diagnose.delays import design
from assay.diagnose.delays.design import Group
from assay.diagnose.delays.estimates import Observation, block_slope, pseudomedian, verdict
from assay.diagnose.delays.records import DelayExperiment, DelayProfile
from assay.errors import InputError
from assay.runtime.delays import MAX_DELAY_NS
from assay.runtime.graphs import Graph

if TYPE_CHECKING:
    from assay.diagnose.delays.target import Target
    from assay.engine import Engine

CONFIDENCE: Final = 0.95
LOOKS: Final = (8, 16, 32, 64)
"""Blocks after which a decision is sought; the error of all looks together is 1 - CONFIDENCE."""
PILOT_RUNS: Final = 11
NOISE_RATIO: Final = 4
"""The largest dose is at least so many median absolute deviations of a run."""


def profile(
    target: Target | Graph | Engine,
    *,
    nodes: Sequence[str] | None = None,
    doses: Sequence[float] | None = None,
    budget: float = 60.0,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> DelayProfile:
    """Find which nodes of a step the step waits for, by delaying them.

    The target is an engine (options `batch`, `context` and `steps`), a captured graph (option
    `replays`), or a `Target` of one's own. `nodes` are patterns of node or operation names. `doses`
    are delays of a step in nanoseconds, by default 5 and 10 % of it. `budget` is in seconds; what is
    undecided by then is reported so.
    """
    with _opened(target, nodes, options) as opened:
        return _Profiler(opened, doses, budget, seed, progress or (lambda _: None)).profile(nodes)


@contextmanager
def _opened(
    target: Target | Graph | Engine, nodes: Sequence[str] | None, options: dict[str, Any]
) -> Iterator[Target]:
    """The target; of a graph or an engine only the chosen nodes get a delay node."""
    from assay.diagnose.delays.engine_target import EngineTarget
    from assay.diagnose.delays.graph_target import GraphTarget
    from assay.engine import Engine

    if isinstance(target, Graph):
        with GraphTarget(target, nodes=nodes, **options) as graph:
            yield graph
    elif isinstance(target, Engine):
        with EngineTarget(target, nodes=nodes, **options) as engine:
            yield engine
    else:
        if options:
            raise TypeError(f"a target of one's own takes no options, got {sorted(options)}")
        yield target


class _Trial:
    """The runs of one group so far, by block."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.treated: list[dict[int, Observation]] = []
        self.controls: list[list[float]] = []

    def experiment(self, doses_ns: Sequence[int], alpha: float) -> DelayExperiment:
        """What the runs say."""
        blocks = list(zip(self.treated, self.controls, strict=True))
        slopes = [block_slope(tuple(treated.values()), controls) for treated, controls in blocks]
        slope = pseudomedian(slopes, alpha)
        effects = [
            [treated[dose].step_ns - median(controls) for treated, controls in blocks]
            for dose in doses_ns
        ]
        medians = [pseudomedian(values, alpha) for values in effects]
        if slope is None or any(estimate is None for estimate in medians):
            raise AssertionError(f"{len(blocks)} blocks are too few for an interval")
        return DelayExperiment(
            name=self.group.name,
            operation=self.group.operation,
            nodes=self.group.nodes,
            slope=slope.value,
            lo=slope.lo,
            hi=slope.hi,
            verdict=verdict(slope, 1 if self.group.is_alike else len(self.group.nodes)),
            requested_ns=tuple(doses_ns),
            doses_ns=tuple(
                median(treated[dose].delay_ns for treated, _ in blocks) for dose in doses_ns
            ),
            effects_ns=tuple(estimate.value for estimate in medians if estimate is not None),
            runs=len(blocks) * len(doses_ns),
            controls=sum(len(controls) for _, controls in blocks),
            blocks=len(blocks),
        )


class _Profiler:
    """One profile under way."""

    def __init__(
        self,
        target: Target,
        doses: Sequence[float] | None,
        budget: float,
        seed: int,
        progress: Callable[[str], None],
    ) -> None:
        self._begin = time.monotonic()
        self._target = target
        self._doses = doses
        self._budget = budget
        self._source = random.Random(seed)
        self._seed = seed
        self._progress = progress
        self._alpha = (1 - CONFIDENCE) / len(LOOKS)
        self._degradations: list[str] = []

    def profile(self, patterns: Sequence[str] | None) -> DelayProfile:
        groups = design.groups(design.selected(self._target.nodes, patterns))
        step_ns, control_ns, noise_ns, run_seconds = self._pilot()
        largest = max(len(group.nodes) for group in groups)
        doses_ns = self._doses_ns(control_ns, noise_ns, largest)
        self._check_budget(groups, doses_ns, run_seconds)
        decided: list[DelayExperiment] = []
        while groups:
            experiments = self._stage(groups, doses_ns)
            splits, groups = self._next_groups(groups, experiments)
            decided += [experiment for experiment in experiments if experiment.name not in splits]
            if groups and self._seconds(groups, doses_ns, run_seconds) > self._left():
                names = ", ".join(splits)
                self._degradations.append(f"the budget ended before these were split: {names}")
                decided += [experiment for experiment in experiments if experiment.name in splits]
                break
        decided.sort(key=lambda experiment: -experiment.slope)
        if undecided := sum(experiment.verdict == "undecided" for experiment in decided):
            self._degradations.append(f"undecided: {undecided} of {len(decided)}")
        return DelayProfile(
            experiments=tuple(decided),
            step_ns=step_ns,
            control_ns=control_ns,
            confidence=CONFIDENCE,
            seed=self._seed,
            seconds=time.monotonic() - self._begin,
            degradations=tuple(self._degradations),
        )

    def _left(self) -> float:
        return self._budget - (time.monotonic() - self._begin)

    def _pilot(self) -> tuple[float, float, float, float]:
        """A step without delay nodes, one with idle ones, its noise, and the seconds of a run."""
        self._progress("pilot runs")
        for _ in range(2):
            self._target.run({})
        begin = time.monotonic()
        runs = [self._target.run({}).step_ns for _ in range(PILOT_RUNS)]
        seconds = (time.monotonic() - begin) / PILOT_RUNS
        plain = median(self._target.plain() for _ in range(PILOT_RUNS))
        control = median(runs)
        return plain, control, median(abs(run - control) for run in runs), seconds

    def _doses_ns(self, step_ns: float, noise_ns: float, largest: int) -> list[int]:
        """Doses of a step, ascending; each node of the largest group gets a delay that is kept well."""
        least = self._target.least_delay_ns * largest
        if self._doses is None:
            shares = [share * step_ns for share in design.DOSES]
            # Raised together, so that their ratio stays.
            noisy = min(NOISE_RATIO * noise_ns, design.LARGEST_DOSE * step_ns) / shares[-1]
            scale = max(1.0, least / shares[0], noisy)
            doses = [round(share * scale) for share in shares]
            if scale > 1:
                cause = (
                    "noise would hide smaller ones"
                    if scale == noisy
                    else ("shorter ones are not kept well")
                )
                self._degradations.append(
                    f"delays are {doses[0] / step_ns:.0%} to {doses[-1] / step_ns:.0%} of a step: "
                    f"{cause}"
                )
        else:
            doses = sorted({round(dose) for dose in self._doses})
        if not doses or not least <= doses[0] <= doses[-1] <= MAX_DELAY_NS:
            raise InputError(
                f"doses: expected from {least:,} to {MAX_DELAY_NS:,} ns, got "
                + (", ".join(f"{dose:,}" for dose in doses) or "none"),
                f"a group of {largest} nodes gets a dose in equal shares",
            )
        return doses

    def _seconds(self, groups: Sequence[Group], doses_ns: Sequence[int], run: float) -> float:
        """How long the first look at these groups takes."""
        runs = len(design.block(groups, doses_ns, random.Random(0)))
        return LOOKS[0] * runs * run

    def _check_budget(
        self, groups: Sequence[Group], doses_ns: Sequence[int], run_seconds: float
    ) -> None:
        needed = self._seconds(groups, doses_ns, run_seconds)
        if needed > self._left():
            raise InputError(
                f"budget: expected at least {needed + self._budget - self._left():.1f} s for "
                f"{len(groups)} groups of nodes, got {self._budget:g} s",
                "raise the budget, or choose fewer nodes",
            )

    def _stage(self, groups: Sequence[Group], doses_ns: Sequence[int]) -> list[DelayExperiment]:
        """Run blocks over groups until each is decided, looks are exhausted or time is up."""
        trials = {group.name: _Trial(group) for group in groups}
        open_groups = list(groups)
        experiments: dict[str, DelayExperiment] = {}
        blocks = 0
        for look in LOOKS:
            while blocks < look and (blocks < LOOKS[0] or self._left() > 0):
                self._run_block(open_groups, doses_ns, trials)
                blocks += 1
                self._progress(f"block {blocks}: {len(open_groups)} of {len(groups)} undecided")
            for group in open_groups:
                experiments[group.name] = trials[group.name].experiment(doses_ns, self._alpha)
            open_groups = [
                open_group
                for open_group in open_groups
                if experiments[open_group.name].verdict == "undecided"
            ]
            if not open_groups or self._left() <= 0:
                break
        return [experiments[group.name] for group in groups]

    def _run_block(
        self, groups: Sequence[Group], doses_ns: Sequence[int], trials: dict[str, _Trial]
    ) -> None:
        treated: dict[str, dict[int, Observation]] = {group.name: {} for group in groups}
        controls: list[float] = []
        for group, dose_ns in design.block(groups, doses_ns, self._source):
            if group is None:
                controls.append(self._target.run({}).step_ns)
            else:
                run = self._target.run(group.delays_ns(dose_ns))
                treated[group.name][dose_ns] = Observation(run.spent_ns, run.step_ns)
        for name, observations in treated.items():
            trials[name].treated.append(observations)
            trials[name].controls.append(controls)

    def _next_groups(
        self, groups: Sequence[Group], experiments: Sequence[DelayExperiment]
    ) -> tuple[tuple[str, ...], list[Group]]:
        """The groups to split, and their halves."""
        mixed = [
            group
            for group, experiment in zip(groups, experiments, strict=True)
            if len(group.nodes) > 1
            and (
                experiment.verdict == "partly hidden"
                or (experiment.verdict == "undecided" and not group.is_alike)
            )
        ]
        halves = [half for group in mixed for half in group.halves()]
        return tuple(group.name for group in mixed), halves
