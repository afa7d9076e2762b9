"""Residency by the occupancy rules, hits by simulated caches, latencies by hand, reach by the measured one."""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import gamma

from assay import stack
from assay.catalog import entries
from assay.scenario.question import read_question

GH100 = entries.read("multiprocessors", "gh100").given
TRAINING = "llama3_8b_8_h100_training"


def value(target: str, **given: float) -> float:
    named = {f"multiprocessor.{name.replace('__', '.')}": number for name, number in given.items()}
    return stack.registry().resolve(target, {**GH100, **named}).require_value()


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks"),
    [
        (1024, 64, 0, 1),  # 1,024 threads of 64 registers take all 65,536
        (256, 32, 0, 8),  # 64 warps
        (128, 128, 0, 4),  # 128 * 128 = 16,384 registers
        (128, 168, 0, 3),  # 21,504 registers by block
        (384, 168, 227 * 1024, 1),  # a warp-specialized GEMM: all shared memory
        (32, 16, 0, 32),  # places for blocks
        (256, 32, 48 * 1024, 4),  # 49 KiB with what the system keeps
    ],
)
def test_resident_blocks_by_the_rules_of_the_occupancy_calculator(
    threads: int, registers: int, shared: int, blocks: int
) -> None:
    shape = {"block__threads": threads, "thread__registers": registers, "block__shared": shared}
    assert value("multiprocessor.blocks.resident", **shape) == blocks
    assert value("multiprocessor.occupancy", **shape) == pytest.approx(
        blocks * math.ceil(threads / 32) / 64
    )


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 6, 8, 12, 16, 17, 32, 33, 64, 96])
def test_bank_conflicts_are_the_greatest_common_divisor(stride: int) -> None:
    assert value("multiprocessor.banks.conflict", banks__stride=stride) == math.gcd(stride, 32)


def test_banks_that_random_lanes_touch_by_drawing() -> None:
    drawn = np.random.default_rng(0).integers(0, 32, (20000, 32))
    mean = np.mean([len(set(row)) for row in drawn])
    assert value("multiprocessor.banks.touched") == pytest.approx(mean, rel=3e-3)


def test_bytes_under_way_by_littles_law() -> None:
    """3.35 TB/s over 132 multiprocessors for 479 cycles of 1.83 GHz: 6.6 kB each, 13 warps of 16-byte loads."""
    given = {"gpu.memory.bandwidth": 3.35e12, "gpu.multiprocessors": 132.0, "gpu.clock": 1.83e9}
    registry = stack.registry()
    by_hand = 3.35e12 / 132 * 478.8 / 1.83e9
    bytes_ = registry.resolve("multiprocessor.memory.under_way", {**GH100, **given}).require_value()
    assert bytes_ == pytest.approx(by_hand, rel=1e-9)
    warps = registry.resolve("multiprocessor.warps.needed", {**GH100, **given}).require_value()
    assert warps == pytest.approx(by_hand / 512, rel=1e-9)


LINES, HOT, STREAM, SHARE = 256, 200, 600, 0.7


def _cache(**changes: float) -> dict[str, float]:
    return {
        "gpu.cache.capacity": LINES * 128.0, "multiprocessor.hot.bytes": HOT * 128.0,
        "multiprocessor.stream.bytes": STREAM * 128.0, "multiprocessor.hot.requests": SHARE, **changes,
    }  # fmt: skip


def test_hits_by_a_simulated_cache() -> None:
    """An LRU cache of 256 lines under 400,000 independent requests."""
    rng = np.random.default_rng(1)
    requests = np.where(
        rng.random(400_000) < SHARE, rng.integers(0, HOT, 400_000), HOT + rng.integers(0, STREAM, 400_000)
    )  # fmt: skip
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for request in requests.tolist():
        if request in cache:
            hits += 1
            cache.move_to_end(request)
        else:
            cache[request] = None
            if len(cache) > LINES:
                cache.popitem(last=False)
    simulated = hits / len(requests)
    resolved = stack.registry().resolve("multiprocessor.second.hits", _cache()).require_value()
    assert resolved == pytest.approx(simulated, rel=0.01)


def test_characteristic_time_by_bisection() -> None:
    def filled(t: float) -> float:
        return float(
            HOT * (1 - np.exp(-SHARE * t / HOT)) + STREAM * (1 - np.exp(-(1 - SHARE) * t / STREAM))
        )

    expected = brentq(lambda t: filled(t) - LINES, 1, 1e5)
    time = stack.registry().resolve("multiprocessor.second.characteristic", _cache())
    assert time.require_value() == pytest.approx(expected, rel=1e-9)


def test_everything_hits_where_all_fits() -> None:
    given = _cache(**{"gpu.cache.capacity": 1000 * 128.0})
    assert stack.registry().resolve("multiprocessor.second.hits", given).require_value() == 1.0


@pytest.mark.parametrize("ways", [4, 8, 16, 32])
def test_reach_of_a_set_by_the_median_of_a_gamma_distribution(ways: int) -> None:
    reach = stack.registry().resolve(
        "multiprocessor.second.reach", {"multiprocessor.second.ways": ways}
    )
    assert reach.require_value() == pytest.approx(gamma.median(ways) / ways, rel=3e-3)


def test_reach_of_two_partitions_is_what_kernels_on_an_h100_show() -> None:
    """Fitted on measured GEMMs: 0.502 of the capacity; two copies of every line leave 0.490."""
    fitted = read_question(TRAINING).resolve("kernels.gemm.reach_share", intervals=False)
    assert value("multiprocessor.second.reach") == pytest.approx(fitted.require_value(), rel=0.05)


def test_operands_through_the_banks_are_what_kernels_on_an_h100_show() -> None:
    """4,096 operations on 128 bytes in a cycle: 32 by byte; fitted on measured GEMMs: 28."""
    chosen = {"kernels.gemm.ingest_intensity": "multiprocessor.ingest_intensity"}
    intensity = read_question(TRAINING, None, chosen).resolve(
        "kernels.gemm.ingest_intensity", intervals=False
    )
    assert intensity.require_value() == pytest.approx(32)
    assert intensity.require_value() == pytest.approx(28.2, rel=0.15)


def test_a_mean_load_by_hand() -> None:
    """0.3 of loads find their line at 40.7 cycles, the rest at 263, of which 0.4 wait for memory at 478.8."""
    cycles = value(
        "multiprocessor.load.cycles", first__hits=0.3, second__hits=0.6, translation__misses=0.0
    )
    assert cycles == pytest.approx(0.3 * 40.7 + 0.7 * (0.6 * 263 + 0.4 * 478.8), rel=1e-9)


def test_memory_of_a_die() -> None:
    """132 multiprocessors of 256 KiB of registers and 228 KiB of shared memory, and 50 MiB."""
    given = {"gpu.multiprocessors": 132.0, "gpu.cache.capacity": 50 * 2.0**20}
    held = stack.registry().resolve("multiprocessor.on_chip.bytes", {**GH100, **given})
    assert held.require_value() / 2**20 == pytest.approx(132 * (256 + 228) / 1024 + 50)


def test_a_question_with_the_caches_of_a_die_moves_the_step() -> None:
    stated, computed = (
        read_question(TRAINING, None, None, includes).resolve("training.step_time", intervals=False)
        for includes in ((), ("multiprocessors/gh100",))
    )
    assert 0 < abs(computed.require_value() / stated.require_value() - 1) < 0.02
