"""What a causal profile found: one experiment for each node or group of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from assay.answers import data_of

VERDICTS: Final = {
    "critical": "the step waits for it: a delay before it delays the step as much",
    "hidden": "the step does not wait for it: a delay before it disappears",
    "partly hidden": "the step waits for a part of the delay, or for some of the nodes",
    "undecided": "the runs do not tell",
}
"""The verdicts, and what they mean."""


@dataclass(frozen=True, slots=True)
class DelayExperiment:
    """Delays before one node, or before every node of a group, and what they did to the step.

    `slope` is nanoseconds of step time for each nanosecond of delay, with an interval that holds
    for all looks at the data together.
    """

    name: str
    """The node, or the group: an operation, or part of its nodes."""
    operation: str
    nodes: tuple[str, ...]
    """The nodes that were delayed, each by an equal share."""
    slope: float
    lo: float
    hi: float
    verdict: str
    """One of `VERDICTS`."""
    requested_ns: tuple[int, ...]
    """Delay of a step that was asked for, the smallest first."""
    doses_ns: tuple[float, ...]
    """Delay of a step as it was measured."""
    effects_ns: tuple[float, ...]
    """What each dose added to the step."""
    runs: int
    """Runs with a delay."""
    controls: int
    """Runs without one, in the same blocks."""
    blocks: int

    @property
    def absorbed_ns(self) -> float:
        """The part of the largest dose that the step did not show: at least the slack of a node."""
        return max(self.doses_ns[-1] - self.effects_ns[-1], 0.0)

    def to_data(self) -> dict[str, Any]:
        """The experiment as plain data."""
        return data_of(
            self,
            "name operation nodes verdict slope lo hi requested_ns doses_ns effects_ns "
            "absorbed_ns runs controls blocks",
        )


@dataclass(frozen=True, slots=True)
class DelayProfile:
    """The experiments of one target, the largest slope first."""

    experiments: tuple[DelayExperiment, ...]
    step_ns: float
    """A step without delay nodes."""
    control_ns: float
    """A step with delay nodes that delay by nothing."""
    confidence: float
    """Of the intervals."""
    seed: int
    seconds: float
    degradations: tuple[str, ...] = ()

    @property
    def overhead(self) -> float:
        """What the delay nodes themselves add to the step, as a share of it."""
        return self.control_ns / self.step_ns - 1 if self.step_ns else 0.0

    @property
    def critical(self) -> tuple[DelayExperiment, ...]:
        """Those that the step waits for."""
        return tuple(
            experiment for experiment in self.experiments if experiment.verdict == "critical"
        )

    def to_data(self) -> dict[str, Any]:
        """The profile as plain data."""
        return data_of(
            self, "step_ns control_ns overhead confidence seed seconds experiments degradations"
        )

    def of(self, node: str) -> DelayExperiment:
        """The finest experiment on a node."""
        experiments = [experiment for experiment in self.experiments if node in experiment.nodes]
        if not experiments:
            raise KeyError(node)
        return min(experiments, key=lambda experiment: len(experiment.nodes))

    def __iter__(self) -> Iterator[DelayExperiment]:
        return iter(self.experiments)

    def __len__(self) -> int:
        return len(self.experiments)
