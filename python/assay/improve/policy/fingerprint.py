"""The fingerprint of a run: model, hardware, engine release and the shape of the workload."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from assay.improve.engines.protocol import EngineDescription
from assay.improve.levers.facts import workload_facts
from assay.load.workloads.workload import Workload

DIGITS: Final = 2
"""Significant digits of lengths and rates: workloads that differ by less have one shape."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What must be the same for one run to say something of another."""

    model: str
    hardware: str
    """The hash of machine and device."""
    engine: str
    """With its release."""
    workload: Mapping[str, Any]
    """Arrivals, concurrency, lengths and shared prefixes, rounded."""

    @property
    def hash(self) -> str:
        """Equal for equal fingerprints."""
        parts = [self.model, self.hardware, self.engine, dict(self.workload)]
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_data(self) -> dict[str, Any]:
        """As the journal's record `fingerprint` holds it."""
        return {"hash": self.hash, **asdict(self)}


def fingerprint(description: EngineDescription, workload: Workload) -> Fingerprint:
    """The fingerprint of an engine under a workload."""
    hardware = description.hardware.get("fingerprint")
    if hardware is None:
        text = json.dumps(dict(description.hardware), sort_keys=True, default=str)
        hardware = hashlib.sha256(text.encode()).hexdigest()[:16]
    facts = workload_facts(workload)
    shape = {
        name: _rounded(facts[name])
        for name in (
            "concurrency",
            "rate",
            "prompt_tokens",
            "output_tokens",
            "prefix_share",
            "greedy",
        )
    }
    shape["arrival"] = workload.arrival
    return Fingerprint(
        description.model,
        f"{hardware} {description.device}",
        f"{description.engine} {description.release}",
        shape,
    )


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
