"""What a decode step of an engine waits for: `assay causal-profile`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.answers import Answer, Progress, data_of, silent
from assay.diagnose.delays.profiling import profile
from assay.diagnose.delays.records import DelayProfile

if TYPE_CHECKING:
    from assay.engine import Engine


@dataclass(frozen=True)
class EngineProfile(Answer):
    """The delays of an engine's decode step, and what ran in it."""

    model: str
    device: str
    batch: int
    context: int
    delays: DelayProfile

    def to_json(self) -> dict[str, Any]:
        """What ran, and every experiment."""
        return {**data_of(self, "model device batch context"), **self.delays.to_data()}


def profile_engine(
    engine: Engine,
    *,
    batch: int = 1,
    context: int = 128,
    steps: int = 8,
    nodes: Sequence[str] | None = None,
    doses_us: Sequence[float] | None = None,
    budget_s: float = 60.0,
    seed: int = 0,
    progress: Progress = silent,
) -> EngineProfile:
    """Find what a decode step waits for, by delaying its operations and the host's sections.

    `nodes` are patterns of nodes or operations; `doses_us` delays of a step, 5 and 10 % of it if
    not given; `steps` are timed in a run.
    """
    delays = profile(
        engine,
        nodes=nodes,
        doses=None if doses_us is None else [1e3 * dose for dose in doses_us],
        budget=budget_s,
        seed=seed,
        progress=progress,
        batch=batch,
        context=context,
        steps=steps,
    )
    return EngineProfile(engine.files.name, engine.device.name, batch, context, delays)
