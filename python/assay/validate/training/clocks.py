"""The clock of a job whose accelerators run under a stated power limit."""

from __future__ import annotations

from collections.abc import Mapping

from assay.catalog import accelerators
from assay.validate.kernels.operations import solved

LIMIT, RATED = "gpu.power.limit", "gpu.power.rated"
WORK = (
    "training.kernels_flops",
    "training.kernels_size",
    "training.benchmark_busy_time",
    "training.clock_bound_time",
    "training.tensor_peak",
)
"""What the power of a step follows: outputs of the graph at the clock of the rated limit."""

_COOLANT = 312.0
"""Kelvin of the air at a GPU in a full machine, as fitted in docs/design/gpu-power.md."""


def has_own_limit(values: Mapping[str, float]) -> bool:
    """Whether a job states a power limit that is not the rated one."""
    return LIMIT in values and RATED in values and values[LIMIT] != values[RATED]


def clock_ratio(system: str, values: Mapping[str, float], work: Mapping[str, float]) -> float:
    """Clock under the stated limit over that under the rated one, for a step's work."""
    busy = work["training.benchmark_busy_time"]
    bandwidth = values["gpu.memory.bandwidth"]
    peak = work["training.tensor_peak"] / values["training.gpus"]
    given = {
        **accelerators.find(system).given,
        LIMIT: values[LIMIT],
        "gpu.memory.bandwidth": bandwidth,
        "gpu.coolant_temperature": _COOLANT,
        "gpu.work.tensor_use": min(1.0, work["training.kernels_flops"] / (busy * peak)),
        "gpu.work.memory_use": min(1.0, work["training.kernels_size"] / (busy * bandwidth)),
        "gpu.work.clock_share": min(1.0, work["training.clock_bound_time"] / busy),
    }
    return solved("gpu.throttle", given) / solved("gpu.throttle_reference", given)
