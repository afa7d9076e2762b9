"""What is known of an engine and its workload when candidates are ranked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from assay.improve.engines.protocol import EngineDescription
from assay.improve.levers.lever import Candidate, Lever
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.workload import Workload

if TYPE_CHECKING:
    from assay.diagnose.diagnosis import Diagnosis
    from assay.observe.trace import Trace
    from assay.planner.specs import HardwareSpec, ModelSpec


BATCH_LIMITS: Final = ("max_batch", "max_num_seqs", "parallel")
"""Knobs that limit the requests of a batch, as engines call them."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A request and what the engine answered, as tokens of one vocabulary."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that predictions may use; what is None is not known, and they say so."""

    description: EngineDescription
    settings: Mapping[str, Setting]
    workload: Workload
    levers: Mapping[str, Lever]
    """Those that the candidates come from, by name."""
    baseline: Measurement | None = None
    diagnosis: Diagnosis | None = None
    trace: Trace | None = None
    """The captured trace with its structure recovered."""
    model: ModelSpec | None = None
    hardware: HardwareSpec | None = None
    samples: tuple[Sample, ...] = field(default=())
    """Answers of the workload itself, for what the text tells: how much of it repeats."""
    kept: tuple[Candidate, ...] = ()
    """Changes in force that the trace and its diagnosis do not show, as they were kept."""
    step_scale: float = 1.0
    """The measured step of now over that of the diagnosed settings."""
    cache: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    """Replays and predictions of steps that several candidates ask for."""

    def once(self, key: tuple[object, ...], compute: Callable[[], Any]) -> Any:
        """The value of a key, computed the first time that it is asked for."""
        if key not in self.cache:
            self.cache[key] = compute()
        return self.cache[key]

    @property
    def cores(self) -> int:
        """CPU cores that the engine may use; 1 where unknown."""
        usable = self.description.hardware.get("usable_cores")
        return usable if isinstance(usable, int) and usable > 0 else 1

    def figure(self, name: str) -> float | None:
        """A figure of the baseline, if it was measured and is above zero."""
        measured = None if self.baseline is None else self.baseline.figures.get(name)
        return measured if measured is not None and measured > 0 else None

    def at_once(self, limit: Setting) -> int:
        """Requests that run in one batch under a limit of the engine."""
        asked = self.workload.concurrency or len(self.workload.requests)
        return max(min(asked, limit), 1) if isinstance(limit, int) and limit > 0 else max(asked, 1)

    def mean_prompt(self) -> float:
        """Mean tokens of a prompt: as measured, else from the length of the text."""
        from assay.improve.levers.facts import workload_facts

        records = () if self.baseline is None else self.baseline.records
        lengths = [record.prompt_tokens for record in records if record.prompt_tokens > 0]
        if lengths:
            return sum(lengths) / len(lengths)
        return float(workload_facts(self.workload)["prompt_tokens"])

    def mean_output(self) -> float:
        """Mean output tokens of a request."""
        requests = self.workload.requests
        return sum(request.max_tokens for request in requests) / max(len(requests), 1)

    def mean_context(self) -> int:
        """Tokens in the KV cache of a request, halfway through its output."""
        return max(round(self.mean_prompt() + self.mean_output() / 2), 1)

    def batch(self) -> int:
        """Requests that run in one batch as the engine is configured."""
        limits = [self.settings.get(knob) for knob in BATCH_LIMITS]
        return self.at_once(next((limit for limit in limits if limit is not None), None))

    def decode_share(self) -> float | None:
        """The share of the time in decode steps; None where it was not measured.

        Each step makes a token for every request of the batch, and takes a TPOT.
        """
        tpot, throughput = self.figure("mean_tpot_ms"), self.figure("output_throughput")
        if tpot is None or throughput is None:
            return None
        return min(tpot / 1e3 * throughput / self.batch(), 1.0)
