"""What expressions of levers may ask: settings, machine, workload and diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from assay.improve.engines.protocol import EngineDescription
from assay.load.workloads.measurement import Setting
from assay.load.workloads.shape import shape
from assay.load.workloads.workload import Workload

if TYPE_CHECKING:
    from assay.diagnose.diagnosis import Diagnosis

WORKLOAD: Final[Mapping[str, str]] = {
    "concurrency": "most requests under way at once; null in an open loop without a limit",
    "rate": "requests a second of an open loop; null in a closed one",
    "open": "whether requests arrive by themselves (open loop)",
    "requests": "requests of the workload",
    "prompt_tokens": "mean tokens of a prompt: by the tokenizer or as the server counts, else its words and "
    "punctuation marks",
    "output_tokens": "mean output tokens of a request",
    "prefix_share": "share of the prompts that other requests have too",
    "greedy": "whether every request decodes greedily",
    "latency": "whether the objective is a latency: lower is better",
}
"""Facts of a workload, and what they mean."""

HARDWARE: Final[Mapping[str, str]] = {
    "usable_cores": "CPU cores that the process may use",
    "memory_gib": "memory of the host",
    "cache_bytes": "last-level cache of the device; null where unknown",
}
"""Facts of the machine; what it is called is none of them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Answers to what expressions ask."""

    capabilities: frozenset[str]
    settings: Mapping[str, Setting]
    workload: Mapping[str, Any]
    hardware: Mapping[str, Any]
    causes: Mapping[str, float] | None
    """Share of the step's time by cause; None without a diagnosis."""
    terms: Mapping[str, float] | None = field(default=None)
    """Share of the step's time by term of the waterfall; None without a diagnosis."""

    @classmethod
    def of(
        cls,
        description: EngineDescription,
        settings: Mapping[str, Setting],
        workload: Workload | None,
        diagnosis: Diagnosis | None,
    ) -> Facts:
        """Gather them."""
        hardware = {name: description.hardware.get(name) for name in HARDWARE}
        return cls(
            description.capabilities,
            settings,
            {} if workload is None else workload_facts(workload),
            hardware,
            *(_shares(diagnosis) if diagnosis is not None else (None, None)),
        )

    def look_up(self, space: str, name: str) -> Any:
        """The fact of a namespace; None where it is not known."""
        known: Mapping[str, Any] = {
            "knob": self.settings, "workload": self.workload, "hardware": self.hardware,
        }[space]  # fmt: skip
        return known.get(name)

    def ask(self, function: str, name: str) -> bool | float | None:
        """What a function of a name says."""
        if function == "capability":
            return name in self.capabilities
        if function == "has_knob":
            return name in self.settings
        shares = self.causes if function == "cause" else self.terms
        return None if shares is None else shares.get(name, 0.0)


def workload_facts(workload: Workload) -> dict[str, Any]:
    """The facts of a workload by name."""
    lengths = shape(workload)
    at_once = workload.concurrency
    if at_once is None and workload.arrival == "closed":
        at_once = lengths.requests
    return {
        "concurrency": at_once,
        "rate": workload.rate,
        "open": workload.arrival != "closed",
        "requests": lengths.requests,
        "prompt_tokens": lengths.input_mean,
        "output_tokens": lengths.output_mean,
        "prefix_share": lengths.prefix_share,
        "greedy": not any(request.sampling for request in workload.requests),
        "latency": workload.objective.better == "lower",
    }


def _shares(diagnosis: Diagnosis) -> tuple[dict[str, float], dict[str, float]]:
    """Causes and terms as shares of the step's time."""
    waterfall = diagnosis.residuals.waterfall
    whole = waterfall.observed_ns or 1.0
    return (
        {cause.name: cause.ns_per_token / whole for cause in diagnosis.causes},
        {term.name: term.ns / whole for term in waterfall.terms},
    )
