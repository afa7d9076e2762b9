"""What `assay diagnose --url` says of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.answers import Answer

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ServerDiagnosis(Answer):
    """The diagnosis of a running server; what only a trace has is absent.

    Fields are called as those of a trace's diagnosis are. Times are nanoseconds of a decode step.
    """

    url: str
    server: str | None
    """The program that serves; None without metrics."""
    model: str
    gpu: str | None
    engine: str | None
    tensor: int
    batch: int
    """A probe and the requests of others beside it."""
    context: int
    phase: str = "decode"
    step_ns: float
    predicted_ns: float | None
    lo: float | None
    hi: float | None
    floor_ns: float | None
    waterfall: Rows
    causes: Rows
    violations: Rows
    ttft: Rows
    """By length of the prompt."""
    concurrency: Rows
    """By probes at once."""
    probes: Mapping[str, int]
    settings: Mapping[str, Any]
    watched: Mapping[str, Any]
    """What the metrics say of the time before the first probe."""
    probed: Mapping[str, Any]
    predictions: Rows
    degradations: Sequence[str]

    @property
    def assumptions(self) -> list[str]:
        """What the predictions assume: many lines that a reader may ask for."""
        return list(
            dict.fromkeys(note for graph in self.predictions for note in graph["degradations"])
        )
