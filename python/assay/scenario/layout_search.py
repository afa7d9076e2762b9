"""The fastest layout of a training job on any number of GPUs, and the fewest GPUs that are in time.

One tape evaluates the layouts of all clusters: throughput, duration with interruptions, and the
constraints of the graph. Nothing here knows how fast a layout is or whether it fits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Final

from assay.errors import InfeasibleError, MissingInputsError
from assay.lazy_import import np
from assay.model.resolving.resolve import make_resolver
from assay.model.resolving.resolver import Resolver
from assay.plurals import amount, count
from assay.scenario.named_scenario import Preset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.model.tapes.compile import Compiled

RATE: Final = "training.tokens_per_second"
DURATION: Final = "econ.run.duration"
GPUS: Final = "training.gpus"
BATCH: Final = "training.batch"
NODES: Final = "cluster.nodes"
FEED: Final = "thermal.dc.feed_power"
MOST_GPUS: Final = 2**17
BATCH_MARGIN: Final = 0.25
"""How far a batch may be from the usual one so that replicas share it evenly."""
LARGEST_BATCH: Final = 4.0
"""The largest batch over the usual one."""
WORTH: Final = 1.1
"""Throughput with a batch far from the usual one, over that of one near, for which it is taken."""
_LEAST_WORK: Final = 0.75
"""GPU time of the best size over that of one that divides evenly: at least this."""
_MANTISSA: Final = 16
"""Clusters of up to 16 nodes are tried one by one, larger ones in steps of a sixteenth to a half
of that: any other number of nodes has few divisors, so few layouts."""
_FEED_RATIO: Final = 2.0
"""Grid connection of a site over the design power of its nodes."""
_LAYOUT: Final = (
    "tensor", "pipeline", "interleave", "expert", "zero_stage", "sequence_parallel", "recompute",
    "micro_batch", "compact", "schedule",
)  # fmt: skip
_DUALPIPE: Final = 3.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """The fastest layout on a cluster that breaks no constraint."""

    gpus: int
    values: Mapping[str, float]
    """Layout, batch and site, by variable."""
    duration: float
    """Seconds with interruptions."""
    rate: float
    """Tokens per second."""


class LayoutSearch:
    """Layouts of one scenario on clusters of any size."""

    def __init__(self, scenario: Preset) -> None:
        """Take everything but layout, batch and size from a scenario."""
        self.scenario = scenario
        self.values = dict(scenario.exact_inputs.values)
        self.per_node = int(self._value("cluster.node.gpus"))
        self.design_power = self._value("cluster.node.design_power")
        self.ranks = int(self._value("interconnect.node_ranks"))
        self.heads, self.layers, self.experts = (
            int(self._value(f"architecture.{name}")) for name in ("heads", "layers", "experts")
        )
        self.is_narrow = self._value("training.compute_bits") < 16

    def _value(self, name: str) -> float:
        value = self._resolver.value(name)
        return self.scenario.resolve(name).require_value() if value is None else value

    @cached_property
    def _resolver(self) -> Resolver:
        """One for all values: constraints are judged by the tape, layout by layout."""
        scenario = self.scenario
        return make_resolver(scenario.registry, scenario.exact_inputs, scenario.variants)

    def fewest(self, seconds: float) -> Chosen:
        """The smallest cluster whose fastest layout is done in time, interruptions included."""
        reason = ""
        least = self._likely_least(self._least_gpus(seconds), seconds)
        for gpus in _sizes(self.per_node):
            if gpus + self.per_node <= least:
                continue
            try:
                chosen = self.fastest(gpus)
            except InfeasibleError as error:
                reason = error.message
                continue
            if chosen.duration <= seconds:
                return chosen
            reason = f"{gpus:,} GPUs: {chosen.duration / 86400:.0f} days with interruptions"
        found = (
            f"the largest: {reason}" if reason else f"at least {math.ceil(least):,} would be needed"
        )
        raise InfeasibleError(
            f"no cluster of up to {MOST_GPUS:,} GPUs does it in {amount(seconds / 86400, 'day')}; {found}",
            "raise --days",
        )

    def _least_gpus(self, seconds: float) -> float:
        """GPUs that would do it at the peak of their tensor cores, without a pause."""
        flops = self._value("architecture.training.flops_per_token")
        peak = self._value("training.tensor_peak") / self.values[GPUS]
        return flops * self.values["training.total_tokens"] / (peak * seconds)

    def _likely_least(self, least: float, seconds: float) -> float:
        """GPUs below which none is expected in time, from one size that divides most evenly.

        Others do not do so much more on each of their GPUs; sizes below are left out.
        """
        gpus = self.per_node
        while gpus < least:
            gpus *= 2
        while gpus <= MOST_GPUS:
            try:
                even = self.fastest(gpus)
            except InfeasibleError:
                gpus *= 2
                continue
            return max(least, _LEAST_WORK * even.duration * gpus / seconds)
        return least

    def fastest(self, gpus: int) -> Chosen:
        """The layout with the highest throughput on so many GPUs; raises where none fits."""
        near = self._best(gpus, _near)
        far = self._best(gpus, _far)
        if far is not None and (near is None or far.rate > WORTH * near.rate):
            return far
        if near is None:
            raise self._infeasible(gpus)
        return near

    def _best(self, gpus: int, batch_of: BatchRule) -> Chosen | None:
        points = list(self._layouts(gpus, batch_of))
        if not points:
            return None
        table, (rate, duration, *conditions) = self._evaluate(gpus, points)
        feasible = np.isfinite(rate) & np.isfinite(duration)
        for holds in conditions:
            feasible &= holds > 0
        if not feasible.any() or self._broken:
            return None
        best = int(np.argmax(np.where(feasible, rate, -np.inf)))
        values = dict(zip(self._chosen, (float(x) for x in table[:, best]), strict=True))
        site = self.site(gpus)
        return Chosen(gpus, {**values, **site}, float(duration[best]), float(rate[best]))

    def _evaluate(
        self, gpus: int, points: Sequence[tuple[float, ...]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The points as columns, and the tape's rows there: rate, duration, constraints."""
        table = np.array(points, dtype=np.float64).T
        columns = {
            **dict(zip(self._chosen, table, strict=True)), GPUS: float(gpus), **self.site(gpus),
        }  # fmt: skip
        return table, self._function(*(columns[name] for name in self._names))

    def site(self, gpus: int) -> dict[str, float]:
        """A site that is large enough for the job."""
        nodes = max(self.values[NODES], math.ceil(gpus / self.per_node))
        feed = max(self.values[FEED], _FEED_RATIO * nodes * self.design_power)
        return {NODES: float(nodes), FEED: feed}

    def _infeasible(self, gpus: int) -> InfeasibleError:
        points = [*self._layouts(gpus, _near), *self._layouts(gpus, _far)]
        if not points:
            return InfeasibleError(
                f"{gpus:,} GPUs: no layout divides heads, layers, replicas and batch evenly",
                "another number of GPUs has more divisors",
            )
        _, rows = self._evaluate(gpus, points)
        counts = Counter(
            {name: int(np.sum(row <= 0)) for name, row in zip(self._checks, rows[2:], strict=True)}
        )
        counts.update(dict.fromkeys(self._broken, len(points)))
        texts = [f"{name} excludes {number:,}" for name, number in counts.most_common(5) if number]
        return InfeasibleError(
            f"{count(gpus, 'GPU')}: none of {len(points):,} layouts fulfills every constraint: "
            + ", ".join(texts),
            "take more GPUs, or GPUs with more memory",
        )

    @property
    def _chosen(self) -> tuple[str, ...]:
        return (*(f"parallelism.{name}" for name in _LAYOUT), BATCH)

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self._chosen, GPUS, NODES, FEED)

    @cached_property
    def _found_checks(self) -> tuple[dict[str, object], list[str]]:
        from assay.model.optimizing.constraint_checks import find_constraint_checks
        from assay.model.tapes.cones import Cones

        registry, variants = self.scenario.registry, self.scenario.variants
        cones = Cones(registry, dict.fromkeys([*self.values, *self._names]), variants)
        found = find_constraint_checks(cones, [RATE, DURATION], self._names, self.values)
        broken = [verdict.name for verdict in found.fixed if verdict.status == "false"]
        return {check.name: check.condition for check in found.checks}, broken

    @property
    def _checks(self) -> list[str]:
        return list(self._found_checks[0])

    @property
    def _broken(self) -> list[str]:
        return self._found_checks[1]

    @cached_property
    def _function(self) -> Compiled:
        given = {name: value for name, value in self.values.items() if name not in self._names}
        try:
            return self.scenario.registry.compile(
                self._names, [RATE, DURATION], given, self.scenario.variants,
                conditions=self._found_checks[0],
            )  # fmt: skip
        except MissingInputsError as error:
            raise MissingInputsError(
                f"{self.scenario.accelerator}: a step of training needs {len(error.names)} more "
                f"inputs, such as {error.names[0]}",
                error.names,
                "its kernels are not modeled: assay catalog accelerators lists others",
            ) from None

    def _layouts(self, gpus: int, batch_of: BatchRule) -> Iterator[tuple[float, ...]]:
        """Layouts that divide GPUs, heads and experts evenly; constraints judge the rest."""
        experts = [e for e in _divisors(self.experts, 64) if e <= gpus] if self.experts else [1]
        kept = (0.0, 1.0) if self.is_narrow else (0.0,)
        for tensor in _divisors(self.heads, min(8, self.ranks, gpus)):
            if gpus % tensor:
                continue
            for pipeline, micro in product(_stages(gpus // tensor, self.layers), (1, 2, 4)):
                replicas = gpus // (tensor * pipeline)
                for schedule, chunks, passes in self._schedules(pipeline):
                    batch = batch_of(self.values[BATCH], replicas * micro * passes)
                    if batch is None:
                        continue
                    for expert, zero, again, compact in product(
                        experts, (1.0, 3.0), (0.0, 1.0, 2.0), kept
                    ):
                        if replicas % expert or (compact and again == 2.0):
                            continue
                        yield (
                            float(tensor), float(pipeline), float(chunks), float(expert), zero,
                            float(tensor > 1), again, float(micro), compact, schedule, batch,
                        )  # fmt: skip

    def _schedules(self, pipeline: int) -> Iterator[tuple[float, int, int]]:
        """Schedules of a pipeline: virtual stages of a rank, and what divides the micro-batches."""
        yield 0.0, 1, 1
        if pipeline == 1:
            return
        for chunks in (2, 3, 4, 5, 6, 8):
            slots = pipeline * chunks
            if self.layers % slots == 0 or (self.layers + 2) % slots == 0:
                yield 0.0, chunks, pipeline
        if self.experts and pipeline % 2 == 0:
            yield _DUALPIPE, 1, 2


BatchRule = Callable[[float, int], float | None]
"""A batch near the usual one that is a multiple of a unit, if there is one."""


def _near(usual: float, unit: int) -> float | None:
    """The multiple nearest to the usual batch, if it is not too far from it.

    >>> _near(512, 125), _near(512, 1000)
    (500.0, None)
    """
    batch = float(max(1, round(usual / unit)) * unit)
    return batch if abs(batch / usual - 1) <= BATCH_MARGIN else None


def _far(usual: float, unit: int) -> float | None:
    """The smallest multiple beyond those near, up to a limit.

    >>> _far(512, 125), _far(512, 1000), _far(512, 4000)
    (750.0, 1000.0, None)
    """
    batch = float(math.ceil((1 + BATCH_MARGIN) * usual / unit) * unit)
    return batch if batch <= LARGEST_BATCH * usual else None


def _sizes(per_node: int) -> Iterator[int]:
    """Numbers of GPUs to try: whole nodes."""
    nodes = 1
    while nodes * per_node <= MOST_GPUS:
        yield nodes * per_node
        nodes += 1 if nodes < _MANTISSA else 1 << (nodes.bit_length() - _MANTISSA.bit_length())


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(1, most + 1) if number % n == 0]


def _stages(gpus: int, layers: int) -> Sequence[int]:
    """Numbers of pipeline stages: divisors of the GPUs up to 16, and 32."""
    return [p for p in (*range(1, 17), 32) if gpus % p == 0 and p <= layers]
