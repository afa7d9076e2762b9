"""Priors of the training constants, and their sources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from assay.catalog import accelerators, constants


@dataclass(frozen=True)
class Prior:
    """A constant's prior value, the standard deviation of its logarithm, and the source."""

    name: str
    value: float
    spread: float
    reason: str
    system: str = ""
    """The accelerator; empty for all."""
    limit: float = math.inf


@dataclass(frozen=True)
class Fact:
    """A constant that step times do not determine, and the reason for its value."""

    value: float
    unit: str
    reason: str


A100, H100, H200, B200 = "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"

LOAD = "training.load_share"
BOARDS = (H200, "gb200", "gb300", "b300_sxm")
"""Boards with the die of another whose constants were fitted."""

PRIORS = (
    Prior("training.load_share", 0.98, 0.05, "tables were measured for milliseconds, cool", A100),
    Prior("training.load_share", 0.93, 0.07, "an H100 at 700 W sinks further under hours of load", H100),
    Prior("training.load_share", 0.93, 0.07, "taken to sink as an H100 does", B200),
    Prior("training.first_attention_share", 0.40, 0.10, "FlashAttention paper, A100", A100, 1.0),
    Prior("training.first_attention_share", 0.25, 0.12, "the same kernels without wgmma", H100, 1.0),
    Prior("training.second_attention_share", 0.75, 0.05, "FlashAttention-2 paper, A100", A100, 1.0),
    Prior("training.second_attention_share", 0.36, 0.10, "FlashAttention-3 paper, figure 5", H100, 1.0),
    Prior("training.backward_attention_share", 0.80, 0.15, "FlashAttention-2 paper, figures 5 and 6"),
    Prior("training.ring_cost", 0.20, 0.60, "blocks of ring attention are merged and wait for each other"),
    Prior("training.narrow_share", 1.0, 0.15, "one scale a tensor, where engines' tables have finer ones"),
    Prior("training.four_bit_share", 0.85, 0.15, "peaks of 4 bits are further from what power allows"),
    Prior("training.expert_multiple", 4.0, 0.40, "sort, pad, scale by probabilities, cast, each a pass"),
    Prior("training.eager_multiple", 1.3, 0.30, "casts, copies and masks besides what is counted"),
    Prior("training.tensor_overlap", 0.60, 0.30, "part of the traffic waits for its product", limit=1.0),
    Prior("training.data_overlap", 0.85, 0.15, "buckets hide but for the last", limit=0.98),
    Prior("training.exchange_overlap", 0.50, 0.40, "where engines overlap experts' traffic at all", limit=0.98),
    Prior("training.contention", 0.30, 0.50, "copies take multiprocessors and bandwidth"),
    Prior("training.gpu_spread", 0.012, 0.40, "clocks of one batch of GPUs differ by a percent or two"),
    Prior("training.step_start", 0.02, 0.70, "data, loss scaling, norms of gradients, logging"),
    Prior("training.broadcast_share", 0.75, 0.15, "one sender, large messages", limit=1.0),
    Prior("software.immaturity", 0.16, 0.50, "libraries gain over an accelerator's first years"),
    Prior("interconnect.nic.share", 0.75, 0.12, "NCCL tests on several nodes", limit=1.0),
    Prior("interconnect.nic.latency", 1e-5, 0.50, "a step between nodes through NCCL"),
)  # fmt: skip

POWER_EXPONENT = 0.5
"""Sustained rate by power limit: an H200 at 500 and 600 W has 0.835 and 0.932 of its rate at 700 W."""


def board_factor(system: str) -> float:
    """Share of peak that a board sustains over that of the one whose kernels it borrows.

    The same die sustains more under a higher power limit, and has a peak of its own.
    """
    measured = constants.source_system(system)
    if measured == system:
        if system in (A100, H100, B200):
            return 1.0
        # Its benchmarks and the H100's are of one die at one limit: the rate in training is the same.
        name = "kernels.gemm.sustained_share"
        return (
            constants.given(H100)[name] / constants.given(system)[name] if system == H200 else 1.0
        )
    own, other = (accelerators.find(name).given for name in (system, measured))
    if own["gpu.flops_per_cycle"] != other["gpu.flops_per_cycle"] or measured != B200:
        return 1.0
    power = own["gpu.power.limit"] / other["gpu.power.limit"]
    return float(power**POWER_EXPONENT * _peak(other) / _peak(own))


def _peak(given: Mapping[str, float]) -> float:
    return given["gpu.multiprocessors"] * given["gpu.flops_per_cycle"] * given["gpu.clock"]


FACTS = {
    "software.maturing_time": Fact(1.5 * 31557600.0, "s", "libraries follow hardware within a few years"),
    "interconnect.oversubscription": Fact(1.0, "1", "training clusters have full networks"),
    "parallelism.reserve": Fact(3e9, "byte/GPU", "driver, libraries and buffers of collectives"),
}  # fmt: skip
"""Constants that are assumed, not fitted."""
