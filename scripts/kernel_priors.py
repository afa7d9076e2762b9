"""Where fits of kernel constants start, how far they may go, and what data sheets say."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A value from a data sheet, in base units."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Prior:
    """A start, in base units, and the factor by which the fit may leave it either way."""

    value: float
    unit: str
    factor: float = 30.0
    most: float = math.inf


_A100 = "NVIDIA A100 80GB data sheet 2021; CUDA device query"
_H100 = "NVIDIA H100 data sheet 2023, SXM; CUDA device query"
_H200 = "NVIDIA H200 data sheet 2024; CUDA device query"
_B200 = "NVIDIA DGX B200 data sheet 2024, per GPU; CUDA device query"


def _device(
    multiprocessors: int, cache_mebibytes: int, peak: float, bandwidth: float, source: str
) -> dict[str, Fact]:
    return {
        "multiprocessors": Fact(multiprocessors, "1", source),
        "cache_capacity": Fact(cache_mebibytes * 2**20, "byte", source),
        "peak_flops": Fact(peak, "FLOP/s", source),
        "peak_bandwidth": Fact(bandwidth, "byte/s", source),
    }


DEVICES = {
    "a100_sxm": _device(108, 40, 312e12, 2.039e12, _A100),
    "h100_sxm": _device(132, 50, 989.4e12, 3.35e12, _H100),
    "h200_sxm": _device(132, 60, 989.4e12, 4.8e12, _H200),
    "b200_sxm": _device(148, 126, 2250e12, 8.0e12, _B200),
}

FACTS: dict[str, list[dict[str, float]]] = {
    "gemm": [{}],
    "prefill": [
        {"tile_rows": rows, "grouped": grouped}
        for rows in (64.0, 128.0, 256.0)
        for grouped in (0.0, 1.0)
    ],
    "decode": [
        {"tile_rows": rows, "splits_single": single}
        for rows in (16.0, 64.0)
        for single in (0.0, 1.0)
    ],
}
"""Facts of a kernel that are not continuous: each combination is fitted, the best kept."""


def priors(operation: str, system: str) -> dict[str, Prior]:
    """Starts for one operation: shares of data-sheet rates, and times as seen in small kernels."""
    device = DEVICES[system]
    rate = device["peak_flops"].value / device["multiprocessors"].value
    bandwidth = device["peak_bandwidth"].value
    ampere = system.startswith("a100")
    table = {"gemm": _gemm, "prefill": _prefill, "decode": _decode}[operation]
    return table(rate, bandwidth, device["cache_capacity"].value, ampere)


def _gemm(rate: float, bandwidth: float, capacity: float, ampere: bool) -> dict[str, Prior]:
    return {
        "launch_time": Prior(2.3e-6, "s", 3),
        "tile_rate": Prior(1.3 * rate, "FLOP/s"),
        "sustained_rate": Prior(0.85 * rate, "FLOP/s"),
        "step_time": Prior(4e-9 if ampere else 1.3e-9, "s"),
        "ingest_bandwidth": Prior(1.2e11 if ampere else 2.5e11, "byte/s"),
        "read_bandwidth": Prior(0.9 * bandwidth, "byte/s", 2),
        "cache_bandwidth": Prior(5e12 if ampere else 2e13, "byte/s"),
        "overlap_exponent": Prior(3.0, "1", 4),
        "block_time": Prior(4e-9, "s"),
        "split_time": Prior(2.5e-6, "s"),
        "write_bandwidth": Prior(0.85 * bandwidth, "byte/s", 3),
        "write_exposure": Prior(0.6, "1", 100, most=1.0),
        "tail_cost": Prior(0.9 if ampere else 0.3, "1", 1e4, most=1.0),
        "throttle_depth": Prior(0.2, "1", 100),
        "ramp": Prior(3e5, "byte", 100),
    }


def _prefill(rate: float, bandwidth: float, capacity: float, ampere: bool) -> dict[str, Prior]:
    return {
        "launch_time": Prior(10e-6, "s", 3),
        "token_time": Prior(0.4e-9, "s"),
        "tile_time": Prior(2.5e-6, "s"),
        "tile_rate": Prior(rate, "FLOP/s"),
        "score_time": Prior(2e-11, "s"),
        "stream_bandwidth": Prior(0.9 * bandwidth, "byte/s"),
        "cache_bandwidth": Prior(0.8 * bandwidth, "byte/s"),
        "sustained_rate": Prior(0.7 * rate, "FLOP/s"),
        "imbalance": Prior(0.4, "1", 1e3),
    }


def _decode(rate: float, bandwidth: float, capacity: float, ampere: bool) -> dict[str, Prior]:
    return {
        "launch_time": Prior(8e-6, "s", 3),
        "tile_time": Prior(2.5e-6, "s"),
        "key_time": Prior(1e-8, "s", 100),
        "read_bandwidth": Prior(bandwidth, "byte/s", 2),
        "ramp": Prior(1e7, "byte", 100),
        "cache_reach": Prior(0.6 * capacity, "byte", 10),
        "split_time": Prior(0.5e-6, "s"),
        "sequence_time": Prior(5e-9, "s"),
        "query_bandwidth": Prior(bandwidth, "byte/s"),
        "regroup_time": Prior(1e-6 if ampere else 1e-7, "s", 100),
    }
