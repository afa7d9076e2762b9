"""Guarantees of every GPU operation: bitwise reproducibility, NumPy's NaN, no device-wide wait."""

import functools
import hashlib
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import assay
from assay import ops, xp
from assay.engine import Engine
from assay.errors import OutOfMemoryError
from assay.runtime import Array, Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

RANDOM = np.random.default_rng(20)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def upload(device: Device, *shape: int, dtype: object = xp.float32) -> Array:
    values = RANDOM.normal(size=shape).astype(np.float32)
    return xp.asarray(values, dtype=dtype, device=device, copy=True)


def packed(device: Device, outputs: int, inputs: int, kind: str = "bf16") -> ops.Weights:
    values = RANDOM.normal(size=(outputs, inputs)).astype(np.float32)
    return ops.pack(values, kind, (outputs, inputs), device)


def digest(array: Array) -> str:
    return hashlib.sha256(array.to_numpy().tobytes()).hexdigest()


def operations(device: Device) -> dict[str, Callable[[], Array]]:
    """Operations on constant inputs, large enough for many CTAs."""
    a, b = upload(device, 1024, 1024), upload(device, 1024, 1024)
    many, weights = upload(device, 96, 2048, dtype=xp.bfloat16), packed(device, 3000, 2048)
    few = many[:3]
    gain = upload(device, 2048, dtype=xp.bfloat16)
    long = upload(device, 300_001)
    quantized = {kind: packed(device, 768, 2048, kind) for kind in ("int8", "int4", "fp8")}
    prompt = [upload(device, 300, heads, 128, dtype=xp.bfloat16) for heads in (8, 2, 2)]
    cache = [upload(device, 64, 16, 2, 128, dtype=xp.bfloat16) for _ in range(2)]
    tables = xp.reshape(xp.arange(64, dtype=xp.int32, device=device), (4, 16))
    starts = xp.arange(5, dtype=xp.int32, device=device)
    lengths = xp.asarray(np.array([256, 1, 130, 77], np.int32), device=device)
    queries = upload(device, 4, 8 * 128, dtype=xp.bfloat16)

    def attend(max_query_len: int) -> Array:
        return ops.paged_attention(
            queries, *cache, tables, starts, lengths,
            heads=8, kv_heads=2, head_dim=128, block_tokens=16, max_query_len=max_query_len,
        )  # fmt: skip

    def each(value: float, dtype: object) -> Array:
        return xp.full((1024,), value, dtype=dtype, device=device)

    def draw() -> Array:
        kinds = ((0.9, xp.float32), (50, xp.int32), (0.9, xp.float32), (0.01, xp.float32))
        return ops.sample(a, *(each(*one) for one in kinds), each(3, xp.int64), each(5, xp.int32))

    products = {
        f"linear, {kind}, {rows.shape[0]} rows": functools.partial(ops.linear, rows, weights)
        for kind, weights in quantized.items()
        for rows in (few, many)
    }
    return {
        **products,
        "attention": lambda: ops.attention(*prompt),
        "attention of single tokens": lambda: attend(1),
        "attention of single tokens among prompts": lambda: attend(2),
        "sample": draw,
        "var": lambda: xp.var(a, axis=1),
        "argmax": lambda: xp.argmax(a, axis=1),
        "add": lambda: a + b,
        "matmul": lambda: a @ b,
        "sum": lambda: xp.sum(long),
        "mean": lambda: xp.mean(a, axis=0),
        "cumulative_sum": lambda: xp.cumulative_sum(long),
        "sort": lambda: xp.sort(long),
        "softmax": lambda: ops.softmax(a),
        "rms_norm": lambda: ops.rms_norm(many, gain, 1e-5),
        "linear, few rows": lambda: ops.linear(few, weights),
        "linear, many rows": lambda: ops.linear(many, weights),
    }


def test_results_are_bitwise_reproducible(device: Device) -> None:
    for name, operation in operations(device).items():
        found = {digest(operation()) for _ in range(100)}
        assert len(found) == 1, name


def test_deterministic_engine_is_bitwise_reproducible() -> None:
    prompt = [int(token) for token in RANDOM.integers(1, 200, 40)]
    with Engine.load("synthetic", device="cuda:0", deterministic=True) as engine:
        found = {hashlib.sha256(engine.logits(prompt).tobytes()).hexdigest() for _ in range(100)}
    assert len(found) == 1


ODD = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3.4e38, 1e-45, -2.5], dtype=np.float32
)
PAIRS = np.repeat(ODD, len(ODD)), np.tile(ODD, len(ODD))
UNARY = ("abs", "exp", "log", "sqrt", "sin", "tanh", "floor", "sign", "square", "isnan", "isinf")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal", "less")
REDUCTIONS = ("sum", "prod", "max", "min", "mean", "argmax", "argmin")


def same(got: Array, expected: object, name: str) -> None:
    """Equal to within rounding of inexact functions; NaN and Inf exactly."""
    found = got.to_numpy()
    reference = np.asarray(expected)
    assert found.shape == reference.shape, name
    if reference.dtype.kind != "f":
        np.testing.assert_array_equal(found, reference, name)
        return
    np.testing.assert_array_equal(np.isnan(found), np.isnan(reference), name)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(reference), name)
    np.testing.assert_array_equal(
        np.signbit(found[~np.isnan(found)]), np.signbit(reference[~np.isnan(reference)]), name
    )
    np.testing.assert_allclose(found, reference, rtol=2e-6, atol=1e-44, err_msg=name)


def test_nan_and_infinity_match_numpy(device: Device) -> None:
    warnings.simplefilter("ignore", RuntimeWarning)
    one = xp.asarray(ODD, device=device)
    left, right = (xp.asarray(part, device=device) for part in PAIRS)
    for name in UNARY:
        same(getattr(xp, name)(one), getattr(np, name)(ODD), name)
    for name in BINARY:
        same(getattr(xp, name)(left, right), getattr(np, name)(*PAIRS), name)
    for name in REDUCTIONS:
        for values in (ODD, ODD[1:], ODD[3:], ODD[1:2]):
            got = getattr(xp, name)(xp.asarray(values, device=device))
            same(got, getattr(np, name)(values), f"{name} of {values}")
    a = np.ones((4, 4), np.float32)
    a[1, 2], a[2, 0] = np.nan, np.inf
    same(
        xp.asarray(a, device=device) @ xp.asarray(np.eye(4, dtype=np.float32), device=device),
        a @ np.eye(4, dtype=np.float32),
        "matmul",
    )
    same(
        xp.where(xp.isnan(one), xp.zeros_like(one), one),
        np.where(np.isnan(ODD), np.float32(0), ODD),
        "where",
    )
    # Zeros of both signs compare equal, so their order is undefined.
    np.testing.assert_array_equal(xp.sort(one).to_numpy(), np.sort(ODD))


def test_neural_operations_propagate_nan(device: Device) -> None:
    values = RANDOM.normal(size=(3, 256)).astype(np.float32)
    values[1, 17] = np.nan
    x = xp.asarray(values, device=device, copy=True)
    weights, gain = packed(device, 64, 256, "f32"), upload(device, 256)
    for name, out in {
        "softmax": ops.softmax(x),
        "rms_norm": ops.rms_norm(x, gain, 1e-5),
        "linear": ops.linear(x, weights),
    }.items():
        found = np.isnan(out.to_numpy())
        assert found[1].all(), name
        assert not found[[0, 2]].any(), name


def test_tf32_is_used_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    if (library := cuda.cublaslt()).missing is not None:
        pytest.skip(library.missing)
    hosts = [RANDOM.normal(size=(512, 512)).astype(np.float32) for _ in range(2)]
    expected = hosts[0].astype(np.float64) @ hosts[1].astype(np.float64)

    def error(**options: bool) -> float:
        device = Device("cuda:0", pool_bytes=1 << 26, **options)
        a, b = (xp.asarray(host, device=device) for host in hosts)
        got = (a @ b).to_numpy()
        return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))

    monkeypatch.delenv("ASSAY_ALLOW_TF32", raising=False)
    assert error() < 2e-6
    # TF32 has 10 mantissa bits.
    assert 1e-5 < error(allow_tf32=True) < 1e-3
    monkeypatch.setenv("ASSAY_ALLOW_TF32", "1")
    assert 1e-5 < error() < 1e-3
    assert error(allow_tf32=False) < 2e-6


SPIN = """
extern "C" __global__ void spin(long long* out, long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
    out[0] = now - start;
}
"""


def test_operations_do_not_synchronize_the_device(device: Device) -> None:
    """A kernel that spins on another stream neither ends early nor delays any operation."""
    spin = assay.jit.kernel(SPIN)
    busy = device.stream()
    clock = xp.zeros(1, dtype=xp.int64, device=device)
    work = operations(device)
    host = RANDOM.normal(size=(1 << 20,)).astype(np.float32)
    work["upload"] = lambda: xp.asarray(host, device=device)
    work["fill"] = lambda: xp.zeros((1 << 20,), dtype=xp.float32, device=device)

    def allocate_and_free() -> Array:
        array = xp.empty((1 << 22,), dtype=xp.float32, device=device)
        array.free()
        return xp.ones(1, dtype=xp.float32, device=device)

    work["allocate and free"] = allocate_and_free
    for operation in work.values():
        operation().to_numpy()
    spin(clock, 1, grid=1, block=1, stream=busy)
    busy.synchronize()
    for name, operation in work.items():
        spin(clock, 250_000_000, grid=1, block=1, stream=busy)
        spinning = busy.record()
        operation().to_numpy()
        assert not spinning.query(), f"{name} returned after the spinning kernel did"
        spinning.synchronize()


def test_out_of_memory_raises_and_the_device_survives() -> None:
    device = Device("cuda:0", pool_bytes=64 << 20)
    arrays: list[Array] = []

    def keep_allocating() -> None:
        for _ in range(100):
            arrays.append(xp.ones(4 << 20, dtype=xp.float32, device=device))

    with pytest.raises(OutOfMemoryError, match="expected at most") as caught:
        keep_allocating()
    assert caught.value.hint is not None
    assert 0 < len(arrays) <= 4
    np.testing.assert_array_equal(arrays[0].to_numpy()[:3], [1, 1, 1])
    arrays.clear()
    assert float(xp.ones(4 << 20, dtype=xp.float32, device=device)[7]) == 1.0
