"""The options that name what a run tunes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.engine.loading.user_knobs import knob_texts, read_knobs
from assay.load.workloads.workload import ServiceLevel, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectOptions:
    """The options that name engine and workload."""

    engine: Any
    """assay, vllm, the URL of a server, or an engine of this process."""
    model: str | None = None
    """A file, a folder or a name."""
    workload: str | Path | Workload | None = None
    slo: str | ServiceLevel | None = None
    """Service levels that a change must keep: ttft=1s,tpot=50ms."""
    metric: str | None = None
    """The figure to improve; the workload's own if not given."""
    maximize: str | None = None
    """In place of a metric, rate: the highest rate that keeps the service levels."""
    concurrency: int | None = None
    rate: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    start: str | None = None
    """Settings to start from: plain or defaults."""
    restart: str | None = None
    """How to start the server of a URL; {settings} stands for its flags."""
    adapter: str | Path | None = None
    """Which flags the server has."""
    device: str | None = None
    knobs: Mapping[str, Any] | Sequence[str] | None = None
    """Settings of the start, by name or as NAME=VALUE."""
    seed: int = 0
    budget_s: float

    def settings(self) -> dict[str, Any]:
        """The knobs by name."""
        return dict(self.knobs) if isinstance(self.knobs, Mapping) else read_knobs(self.knobs or ())

    def to_record(self) -> dict[str, Any]:
        """As the journal has it; empty for an engine that only its program can open again."""
        if not isinstance(self.engine, str):
            return {}
        record = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if isinstance(self.knobs, Mapping):
            record["knobs"] = knob_texts(self.knobs)
        if isinstance(self.workload, Workload):
            record["workload"] = self.workload.name
        if isinstance(self.slo, ServiceLevel):
            # A resumed run has its workload, service levels included, from the run folder.
            record["slo"] = None
        return {
            name: str(value) if isinstance(value, Path) else value for name, value in record.items()
        }
