"""Measured collectives, read from the installed package that publishes them.

Sizes are in elements. NCCL was timed by nccl-tests inside a node; the custom all-reduce kernels of
engines inside and outside of CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.array_types import Flags, Floats
from assay.catalog import accelerators
from assay.errors import InputError
from assay.model.registry import Registry
from assay.model.tapes.compile import Compiled
from assay.stack import collectives, gpu, hbm, interconnect
from assay.stack.collectives import library as collectives_library
from assay.stack.kernels import device
from assay.validate.measured_package import (
    HELD_OUT,
    hash_fraction,
    package_folder,
    read_parquet,
    version_key,
)

SYSTEMS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
ENGINES = ("vllm", "sglang", "trtllm")

BYTES = {
    "int8": 1, "fp8": 1, "half": 2, "float16": 2, "bfloat16": 2, "bf16": 2, "fp16": 2, "float": 4,
    "float32": 4, "fp32": 4,
}  # fmt: skip
OPERATIONS = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather": "all_gather",
    "allgather": "all_gather", "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter", "all_to_all": "all_to_all", "alltoall": "all_to_all",
}  # fmt: skip
SHAPE = ("gpu.link.bandwidth", "collectives.size", "collectives.ranks", "collectives.direct")

_SWITCH = "collectives.switch_share"


@dataclass(frozen=True)
class Measured:
    """Timed collectives of one system; sizes in bytes, as NCCL's tests count them."""

    system: str
    operation: NDArray[np.str_]
    engine: NDArray[np.str_]
    size: Floats
    ranks: Floats
    seconds: Floats
    reducible: Flags
    """Whether NVSwitch can reduce the element type (NVLS): not 8-bit integers."""

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: Flags) -> Measured:
        """The rows that a mask picks."""
        return Measured(
            self.system, self.operation[mask], self.engine[mask], self.size[mask],
            self.ranks[mask], self.seconds[mask], self.reducible[mask],
        )  # fmt: skip

    @property
    def held_out(self) -> Flags:
        """Rows that no fit may use: all of one size and rank count, on every system."""
        names = [
            f"assay-collective-1:{s:.0f}:{r:.0f}"
            for s, r in zip(self.size, self.ranks, strict=True)
        ]
        return np.array([hash_fraction(name) < HELD_OUT for name in names])


def load(system: str) -> Measured:
    """The newest measurements of NCCL on a system."""
    folder = package_folder() / system / "comm" / "nccl"
    path = _newest(folder, "nccl_perf.parquet")
    raw = read_parquet(path)
    operations = [OPERATIONS[name] for name in raw["op_name"]]
    size = [n * BYTES[kind] for n, kind in zip(raw["message_size"], raw["nccl_dtype"], strict=True)]
    return _measured(system, operations, ["nccl"] * len(size), size, raw, raw["nccl_dtype"])


def load_direct(system: str, engine: str) -> Measured:
    """The newest measurements of an engine's custom all-reduce inside a CUDA graph."""
    folder = package_folder() / system / "comm" / engine
    raw = read_parquet(_newest(folder, "custom_allreduce_perf.parquet"))
    # Eager rows include tens of microseconds of host launch overhead.
    keep = [not source.endswith("_eager") for source in raw["kernel_source"]]
    raw = {
        name: [v for v, k in zip(column, keep, strict=True) if k] for name, column in raw.items()
    }
    size = [n * BYTES[k] for n, k in zip(raw["message_size"], raw["allreduce_dtype"], strict=True)]
    return _measured(
        system, ["all_reduce"] * len(size), [engine] * len(size), size, raw, raw["allreduce_dtype"]
    )


def _measured(
    system: str,
    operations: list[str],
    engines: list[str],
    size: list[int],
    raw: dict[str, Any],
    kinds: list[str],
) -> Measured:
    return Measured(
        system, np.array(operations), np.array(engines), np.array(size, dtype=np.float64),
        np.array(raw["num_gpus"], dtype=np.float64),
        np.array(raw["latency"], dtype=np.float64) * 1e-3,
        np.array([reducible_in_switch(kind) for kind in kinds]),
    )  # fmt: skip


def reducible_in_switch(kind: str) -> bool:
    """Whether NVSwitch reduces an element type: int8 always used rings."""
    return kind != "int8"


def _newest(folder: Path, name: str) -> Path:
    versions = sorted(folder.glob(f"*/{name}"), key=version_key)
    if not versions:
        raise InputError(f"no measurements {name} in {folder.parent.parent.name}/{folder.name}")
    return versions[-1]


@cache
def registry() -> Registry:
    """Links and collectives, without the rest of the stack."""
    return Registry.from_scopes(
        [hbm.scope, gpu.scope, interconnect.scope, device.scope, collectives.scope]
    )


_NOT_FITTED = ("latency", "bandwidth", "local", "spread", "exchange_spread", "rail")
CONSTANTS = tuple(
    sorted(
        name
        for name in registry().variables
        if name.startswith(("collectives.", "interconnect.link."))
        and registry().variables[name].boundary == "primitive"
        and name.split(".")[1] not in _NOT_FITTED
    )
)
"""Fitted constants that the time of a collective inside a node depends on."""


@cache
def compiled() -> Compiled:
    """Time of each operation by constants and shape."""
    return registry().compile(
        inputs=[*CONSTANTS, *SHAPE],
        outputs=[time.name for time in collectives_library.OPERATIONS.values()],
    )


@cache
def link_bandwidth(system: str) -> float:
    """Rate of a GPU's links in one direction, from the catalog."""
    bandwidth = registry().value("gpu.link.bandwidth", accelerators.find(system).given)
    if bandwidth is None:
        raise InputError(f"the rate of the links of {system} is not in the catalog")
    return bandwidth


def arguments(rows: Measured, values: Mapping[str, float]) -> list[Floats | float]:
    """Inputs of the compiled relations, one for each of its names."""
    switch = np.where(rows.reducible, values[_SWITCH], 0.0)
    direct = np.where(rows.engine == "nccl", 0.0, 1.0)
    fitted = [switch if name == _SWITCH else values[name] for name in CONSTANTS]
    return [*fitted, link_bandwidth(rows.system), rows.size, rows.ranks, direct]


def evaluate(rows: Measured, values: Mapping[str, float]) -> Floats:
    """Predicted time of every row."""
    times = compiled()(*arguments(rows, values))
    names = list(collectives_library.OPERATIONS)
    picked = np.array([names.index(name) for name in rows.operation])
    chosen: Floats = times[picked, np.arange(len(rows))]
    return chosen


def spread_of(operation: str, values: Mapping[str, float]) -> float:
    """Logarithmic spread of measured over predicted times of an operation."""
    name = "exchange_spread" if operation == "all_to_all" else "spread"
    return values[f"collectives.{name}"]
