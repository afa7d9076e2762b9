"""What the caller of a diagnosis says of the run."""

from __future__ import annotations

from dataclasses import dataclass

from assay.planner.specs import HardwareSpec, ModelSpec


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller says; None is read from the trace."""

    model: ModelSpec | None = None
    hardware: HardwareSpec | None = None
    engine: str | None = None
    batch: int | None = None
    context: int | None = None
    tensor: int | None = None
    weight_dtype: str | None = None
    kv_dtype: str = "bf16"
