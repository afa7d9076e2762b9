"""Kernels: operations and bytes against closed forms, times against limits and measurements."""

from __future__ import annotations

import numpy as np
import pytest

from assay.catalog import accelerators, constants
from assay.model.registry import Registry
from assay.stack import registry

PRODUCT = {
    "rows": 4096, "columns": 4096, "depth": 4096, "bits": 16, "weight_element": 2,
    "activation_element": 2, "output_element": 2, "weight_footprint": 1e12,
    "activation_footprint": 1e12, "toggling": 1, "casting": 1,
}  # fmt: skip
PREFILL = {
    "batch": 1, "length": 4096, "keys": 4096, "window": 0, "heads": 32, "kv_heads": 8,
    "width": 128, "value_width": 128, "element": 2, "kv_element": 2, "caching": 1, "bits": 16,
}  # fmt: skip
DECODE = {
    "batch": 1, "context": 8192, "window": 0, "heads": 32, "kv_heads": 8, "width": 128,
    "value_width": 128, "element": 2, "kv_element": 2, "footprint": 1e12,
}  # fmt: skip
EXPERTS = {
    "tokens": 64, "experts": 128, "chosen": 8, "columns": 1536, "depth": 2048, "bits": 16,
    "weight_element": 2, "activation_element": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def stack() -> Registry:
    """The whole stack."""
    return registry()


def given(scope: str, shape: dict[str, float], system: str = "h100_sxm") -> dict[str, float]:
    """Everything that a kernel's time needs, at the clock of the measurements."""
    return {
        **constants.given(system),
        **accelerators.find(system).given,
        "kernels.device.clock_ratio": 1.0,
        **{f"kernels.{scope}.{name}": value for name, value in shape.items()},
    }


def value(
    stack: Registry, scope: str, name: str, shape: dict[str, float], system: str = "h100_sxm"
) -> float:
    result = stack.resolve(f"kernels.{scope}.{name}", given(scope, shape, system))
    assert result.value is not None, result.missing
    return result.value


def test_gemm_flops_are_twice_m_n_k(stack: Registry) -> None:
    assert value(stack, "gemm", "flops", PRODUCT) == 2 * 4096**3
    assert value(stack, "gemm", "size", PRODUCT) == 3 * 4096**2 * 2


@pytest.mark.parametrize(("length", "heads", "width"), [(512, 16, 128), (16384, 32, 64)])
def test_operations_of_causal_attention(
    stack: Registry, length: int, heads: int, width: int
) -> None:
    # FlashAttention-2, sec. 4.1: 4 * length^2 * width * heads, halved by the causal mask; the
    # halving leaves out the diagonal, of which half is kept.
    shape = {**PREFILL, "length": length, "keys": length, "heads": heads, "kv_heads": heads}
    shape |= {"width": width, "value_width": width}
    published = 4 * length**2 * width * heads / 2
    found = value(stack, "prefill", "flops", shape)
    assert found / published == pytest.approx(1 + 1 / length, rel=1e-12)


def test_a_longer_context_is_not_read_faster_by_another_split(stack: Registry) -> None:
    # From 129 keys on there are two splits, of which one has a whole block of 128.
    contexts = (64, 127, 128, 129, 136, 200, 256, 257, 300, 512, 2000)
    times = [value(stack, "decode", "time", {**DECODE, "context": n}) for n in contexts]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("length", "keys", "window"), [(7, 7, 0), (7, 7, 3), (4, 11, 0), (4, 11, 5), (4, 11, 9)]
)
def test_attended_pairs_of_chunks_and_windows_match_enumeration(
    stack: Registry, length: int, keys: int, window: int
) -> None:
    before = keys - length
    seen = [min(before + i, window or keys) for i in range(1, length + 1)]
    shape = {**PREFILL, "length": length, "keys": keys, "window": window}
    assert value(stack, "prefill", "pairs", shape) == sum(seen)


def test_chunked_prefill_flops_sum_to_full_prefill(stack: Registry) -> None:
    whole = value(stack, "prefill", "flops", PREFILL)
    chunks = [
        value(stack, "prefill", "flops", {**PREFILL, "length": 1024, "keys": keys})
        for keys in (1024, 2048, 3072, 4096)
    ]
    assert sum(chunks) == pytest.approx(whole, rel=1e-12)


def test_bytes_of_cached_keys_and_values(stack: Registry) -> None:
    # Eight heads of 128 in 16 bits: 4096 bytes a token and layer.
    longer = value(stack, "decode", "size", {**DECODE, "context": 8193})
    assert longer - value(stack, "decode", "size", DECODE) == 4096
    # A latent of 512 with 64 rotary elements: 1152 bytes; its values are part of its keys.
    latent = {**DECODE, "kv_heads": 1, "width": 576, "value_width": 512}
    latent["kv_element"] = 2 * 576 / (576 + 512)
    more = value(stack, "decode", "size", {**latent, "context": 8193})
    assert more - value(stack, "decode", "size", latent) == pytest.approx(1152)


def test_active_experts_match_monte_carlo(stack: Registry) -> None:
    random = np.random.default_rng(0)
    draws = [len(np.unique([random.permutation(128)[:8] for _ in range(20)])) for _ in range(2000)]
    found = value(stack, "experts", "touched", {**EXPERTS, "tokens": 20})
    assert found == pytest.approx(np.mean(draws), rel=0.01)


@pytest.mark.parametrize(
    ("scope", "shape"),
    [("gemm", PRODUCT), ("prefill", PREFILL), ("decode", DECODE), ("experts", EXPERTS)],
)
@pytest.mark.parametrize("system", ["a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"])
def test_no_kernel_beats_the_roofline(
    stack: Registry, scope: str, shape: dict[str, float], system: str
) -> None:
    time, flops, size = (
        value(stack, scope, name, shape, system) for name in ("time", "flops", "size")
    )
    facts = accelerators.find(system)
    peak = stack.resolve("kernels.device.peak_flops", facts.given).value
    bandwidth = stack.resolve("kernels.device.memory_bandwidth", facts.given).value
    assert peak is not None
    assert bandwidth is not None
    assert time > max(flops / peak, size / bandwidth)


@pytest.mark.parametrize("system", ["a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "l40s"])
def test_no_share_of_the_memory_bandwidth_is_above_one(stack: Registry, system: str) -> None:
    long = {**DECODE, "batch": 512}
    for kernel in ("gemm", "decode", "experts"):
        assert 0 < value(stack, kernel, "read_share", {}, system) <= 1
    bandwidth = stack.resolve("kernels.device.memory_bandwidth", given("decode", long, system))
    cached = 512 * 8 * 256 * 8192 * 2
    read_time = value(stack, "decode", "read_time", long, system)
    assert read_time >= cached / bandwidth.require_value() * (1 - 1e-9)


# Timed on an H200 through PyTorch in a CUDA graph, 16 bits, one row, weights cold.
@pytest.mark.parametrize(
    ("columns", "depth", "microseconds"),
    [
        (6144, 4096, 15.1),
        (4096, 4096, 12.6),
        (28672, 4096, 62.9),
        (4096, 14336, 31.4),
        (128256, 4096, 252.0),
    ],
)
def test_gemv_times_match_h200_measurements(
    stack: Registry, columns: int, depth: int, microseconds: float
) -> None:
    shape = {**PRODUCT, "rows": 1, "columns": columns, "depth": depth}
    found = value(stack, "gemm", "time", shape, "h200_sxm") * 1e6
    assert found == pytest.approx(microseconds, rel=0.15)


@pytest.mark.parametrize(("side", "rate"), [(4096, 635e12), (8192, 755e12)])
def test_large_gemm_times_match_h200_measurements(stack: Registry, side: int, rate: float) -> None:
    shape = {**PRODUCT, "rows": side, "columns": side, "depth": side}
    found = value(stack, "gemm", "time", shape, "h200_sxm")
    # The fitted tables are short bursts; these ran long enough to throttle the clock.
    assert 2 * side**3 / found == pytest.approx(rate, rel=0.2)


def test_streaming_kernel_reaches_measured_bandwidth(stack: Registry) -> None:
    # Copies of 16 GiB on an H200, read and written: 4.26 TB/s.
    size = 2.0**34
    found = value(stack, "passes", "time", {"moved": size}, "h200_sxm")
    assert size / found == pytest.approx(4.26e12, rel=0.05)


def test_kernel_times_scale_with_bandwidth_and_clock(stack: Registry) -> None:
    slow = given("decode", {**DECODE, "batch": 64})
    base = stack.resolve("kernels.decode.time", slow).value
    slow["hbm.pin_rate"] = slow["hbm.pin_rate"] / 2
    halved = stack.resolve("kernels.decode.time", slow).value
    assert base is not None
    assert halved is not None
    assert 1.8 < halved / base < 2.05

    clocked = given("gemm", {**PRODUCT, "rows": 16384})
    fast = stack.resolve("kernels.gemm.time", clocked).value
    clocked["kernels.device.clock_ratio"] = 0.8
    throttled = stack.resolve("kernels.gemm.time", clocked).value
    assert fast is not None
    assert throttled is not None
    assert throttled / fast == pytest.approx(1.25, rel=0.03)


def test_low_precision_gemm_is_faster_where_quantization_is_cheap(stack: Registry) -> None:
    large = {**PRODUCT, "rows": 8192, "columns": 8192, "depth": 8192}
    narrow = {**large, "bits": 8, "weight_element": 1, "activation_element": 1}
    wide_time, narrow_time = (value(stack, "gemm", "time", s) for s in (large, narrow))
    assert 1.3 < wide_time / narrow_time < 2.1
    small = {**PRODUCT, "rows": 1, "columns": 512, "depth": 512}
    tiny = {**small, "bits": 8, "weight_element": 1, "activation_element": 1}
    assert value(stack, "gemm", "time", tiny) > value(stack, "gemm", "time", small)
