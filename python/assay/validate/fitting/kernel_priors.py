"""Starting values and bounds of the kernel constants."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Prior:
    """A starting value in base units, and the factor that bounds the fit on either side."""

    value: float
    unit: str
    factor: float = 30.0
    most: float = math.inf


SYSTEMS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
"""Accelerators with complete tables."""

DISCRETE: dict[str, list[dict[str, float]]] = {
    "prefill": [
        {"kernels.prefill.tile_rows": rows, "kernels.prefill.grouped": grouped}
        for rows in (64.0, 128.0, 256.0)
        for grouped in (0.0, 1.0)
    ],
    "decode": [
        {
            "kernels.decode.tile_rows": rows,
            "kernels.decode.splits_single": single,
            "kernels.decode.most_group": group,
        }
        for rows in (16.0, 64.0)
        for single in (0.0, 1.0)
        for group in (32.0, 1024.0)
    ],
    "experts": [{"kernels.experts.tile_rows": rows} for rows in (16.0, 32.0, 64.0, 128.0)],
}
"""Discrete parameters of kernels: each combination is tried, the best is used."""

PRIORS: dict[str, dict[str, Prior]] = {
    "gemm": {
        "kernels.gemm.launch_time": Prior(2.3e-6, "s", 3),
        "kernels.gemm.tile_share": Prior(1.3, "1"),
        "kernels.gemm.sustained_share": Prior(0.85, "1"),
        "kernels.gemm.step_work": Prior(12e3, "FLOP"),
        "kernels.gemm.ingest_intensity": Prior(25, "FLOP/byte"),
        "kernels.gemm.read_share": Prior(0.9, "1", 2),
        "kernels.gemm.cache_intensity": Prior(55, "FLOP/byte"),
        "kernels.gemm.overlap_exponent": Prior(3.0, "1", 4),
        "kernels.gemm.block_time": Prior(4e-9, "s"),
        "kernels.gemm.split_time": Prior(2.5e-6, "s"),
        "kernels.gemm.write_exposure": Prior(0.6, "1", 100, most=1.0),
        "kernels.gemm.tail_cost": Prior(0.5, "1", 1e4, most=1.0),
        "kernels.gemm.throttle_depth": Prior(0.2, "1", 100),
        "kernels.gemm.reach_share": Prior(0.5, "1", 4),
        "kernels.gemm.ramp": Prior(3e5, "byte", 100),
    },
    "gemm8": {
        "kernels.gemm.eight_bit_share": Prior(0.9, "1", 5),
        "kernels.gemm.cast_time": Prior(3e-6, "s", 5),
        "kernels.gemm.cast_share": Prior(0.6, "1", 30),
        "kernels.gemm.cast_row_time": Prior(1e-9, "s", 100),
        "kernels.gemm.eight_bit_step": Prior(1.0, "1", 5),
    },
    "prefill": {
        "kernels.prefill.launch_time": Prior(10e-6, "s", 3),
        "kernels.prefill.token_time": Prior(0.4e-9, "s"),
        "kernels.prefill.tile_time": Prior(2.5e-6, "s"),
        "kernels.prefill.tile_share": Prior(1.0, "1"),
        "kernels.prefill.score_time": Prior(2e-11, "s"),
        "kernels.prefill.stream_share": Prior(0.9, "1"),
        "kernels.prefill.cache_share": Prior(0.8, "1"),
        "kernels.prefill.sustained_share": Prior(0.7, "1"),
        "kernels.prefill.imbalance": Prior(0.4, "1", 1e3),
    },
    "decode": {
        "kernels.decode.launch_time": Prior(8e-6, "s", 3),
        "kernels.decode.tile_time": Prior(2.5e-6, "s"),
        "kernels.decode.single_time": Prior(2e-6, "s"),
        "kernels.decode.key_time": Prior(1e-8, "s", 100),
        "kernels.decode.rise_share": Prior(1.0, "1", 2),
        "kernels.decode.ramp": Prior(1e7, "byte", 100),
        "kernels.decode.reach_share": Prior(0.6, "1", 10),
        "kernels.decode.split_time": Prior(0.5e-6, "s"),
        "kernels.decode.sequence_time": Prior(5e-9, "s"),
        "kernels.decode.query_share": Prior(1.0, "1"),
        "kernels.decode.regroup_time": Prior(3e-7, "s", 100),
    },
    "experts": {
        "kernels.experts.launch_time": Prior(8e-6, "s", 10),
        "kernels.experts.sustained_share": Prior(0.6, "1", 5, most=1.0),
        "kernels.experts.read_share": Prior(0.85, "1", 3, most=1.0),
        "kernels.experts.activation_share": Prior(0.5, "1", 30),
    },
    "experts8": {
        "kernels.experts.eight_bit_share": Prior(0.7, "1", 10, most=1.0),
        "kernels.experts.eight_bit_time": Prior(3e-6, "s", 10),
    },
    "passes": {
        "kernels.passes.launch_time": Prior(2e-6, "s", 3),
        "kernels.passes.share": Prior(0.88, "1", 2),
        "kernels.passes.cached_share": Prior(2.0, "1", 10),
        "kernels.passes.reach_share": Prior(0.7, "1", 5),
    },
}
"""Constants fitted on an operation's rows: shares of data-sheet rates, and overheads."""
