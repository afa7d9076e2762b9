"""LoRA adapters of few rows: both kernels against NumPy, and an engine that uses them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from lora_folders import factors_of, merged, write_adapter
from small_models import fixture_files

from assay import ops, xp
from assay.engine import Engine
from assay.runtime import Array, Device, cuda, device as shared_device

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

Values = npt.NDArray[np.float32]
RANDOM = np.random.default_rng(31)
COUNT = 4
TOLERANCE = 1.2e-2
"""Of the largest value: a sum that is rounded to bf16."""
EPSILON = 1e-5


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=4 << 30)


def read(array: Array) -> Values:
    return (array.to_numpy().astype(np.uint32) << 16).view(np.float32)


def upload(device: Device, *shape: int, scale: float = 1.0) -> tuple[Array, Values]:
    values = RANDOM.standard_normal(shape, np.float32) * np.float32(scale)
    array = xp.asarray(values, dtype=xp.bfloat16, device=device)
    return array, read(array)


def factors(device: Device, outputs: int, inputs: int) -> tuple[ops.Weights, Values]:
    values = RANDOM.standard_normal((COUNT * outputs, inputs), np.float32) / np.float32(
        np.sqrt(inputs)
    )
    values = (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    packed = ops.pack(values, "bf16", values.shape, device)
    return packed, values.reshape(COUNT, outputs, inputs)


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
@pytest.mark.parametrize(("inputs", "rank"), [(4096, 64), (14336, 64), (520, 24), (28672, 16)])
@pytest.mark.parametrize("normed", [False, True])
def test_shrink(device: Device, rows: int, inputs: int, rank: int, normed: bool) -> None:
    x, x_values = upload(device, rows, inputs)
    gain, gains = upload(device, inputs)
    a, a_values = factors(device, rank, inputs)
    choice = RANDOM.integers(0, COUNT, rows).astype(np.int32)
    low = ops.lora_shrink(
        x, a, xp.asarray(choice, device=device), adapters_count=COUNT,
        norm=gain if normed else None, epsilon=EPSILON,
    )  # fmt: skip
    values = x_values.astype(np.float64)
    if normed:
        values *= gains / np.sqrt((values**2).mean(axis=1, keepdims=True) + EPSILON)
    expected = np.einsum("ri,rki->rk", values, a_values[choice]) * (choice > 0)[:, None]
    largest = max(np.abs(expected).max(), 1e-9)
    np.testing.assert_allclose(read(low), expected, atol=TOLERANCE * largest)


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
@pytest.mark.parametrize(("outputs", "rank"), [(6144, 64), (28672, 64), (200, 24), (512, 128)])
@pytest.mark.parametrize("activation", [None, "swiglu", "gelu_tanh"])
def test_expand(device: Device, rows: int, outputs: int, rank: int, activation: str | None) -> None:
    product, products = upload(device, rows, outputs)
    low, lows = upload(device, rows, rank)
    b, b_values = factors(device, outputs, rank)
    choice = RANDOM.integers(0, COUNT, rows).astype(np.int32)
    out = ops.lora_expand(
        product, low, b, xp.asarray(choice, device=device), adapters_count=COUNT,
        activation=activation,
    )  # fmt: skip
    delta = np.einsum("rk,rok->ro", lows.astype(np.float64), b_values[choice])
    total = products + delta * (choice > 0)[:, None]
    if activation == "swiglu":
        gates, ups = np.split(total, 2, axis=1)
        total = gates / (1 + np.exp(-gates)) * ups
    elif activation == "gelu_tanh":
        inner = np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)
        total = 0.5 * total * (1 + np.tanh(inner))
    np.testing.assert_allclose(read(out), total, atol=TOLERANCE * np.abs(total).max())


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
@pytest.mark.parametrize("kind", ["bf16", "fp8", "q4_0"])
@pytest.mark.parametrize(
    ("outputs", "inputs", "activation"),
    [(6144, 4096, None), (4096, 14336, None), (2048, 512, "swiglu")],
)
def test_linear_with_adapters(
    device: Device, rows: int, kind: str, outputs: int, inputs: int, activation: str | None
) -> None:
    """By GEMV, small-M GEMM or a GEMM and `lora_expand`, as rows and format take it: the same sum."""
    rank = 64
    x, _ = upload(device, rows, inputs)
    gain, _ = upload(device, inputs)
    low, _ = upload(device, rows, rank)
    residual = None if activation else upload(device, rows, outputs)[0]
    b, _ = factors(device, outputs, rank)
    values = RANDOM.standard_normal((outputs, inputs), np.float32) / np.float32(np.sqrt(inputs))
    weights = ops.pack(values, kind, values.shape, device)
    choice = xp.asarray(RANDOM.integers(0, COUNT, rows).astype(np.int32), device=device)
    got = ops.lora_linear(
        x, weights, low, b, choice, adapters_count=COUNT, norm=gain, epsilon=EPSILON,
        activation=activation, residual=residual,
    )  # fmt: skip
    product = ops.linear(x, weights, norm=gain, epsilon=EPSILON, residual=residual)
    expected = read(
        ops.lora_expand(product, low, b, choice, adapters_count=COUNT, activation=activation)
    )
    np.testing.assert_allclose(read(got), expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Device:
    gpu = shared_device("cuda:0")
    monkeypatch.setattr(gpu, "capabilities", replace(gpu.capabilities, fused_adapters_max_rows=64))
    return gpu


@pytest.mark.parametrize("model", ["llama", "qwen2", "gpt2"])
def test_an_engine_equals_merged_weights(fused: Device, tmp_path: Path, model: str) -> None:
    """About as close to float32 as the merged weights are in bfloat16."""
    files = fixture_files(model)
    targets = ("c_attn", "c_proj", "c_fc") if model == "gpt2" else ("_proj",)
    pair = factors_of(files, targets, rank=4, seed=1)
    folder = write_adapter(tmp_path / "adapter", pair)
    prompt = [3, 17, 5, 90, 41, 8]
    together = merged(files, pair, 2.0)
    with Engine.load(files, fused, adapters={"tuned": folder}, kv_format="bf16") as engine:
        adapted = engine.logits(prompt, "tuned")
    with Engine.load(together, fused, kv_format="bf16") as engine:
        rounded = engine.logits(prompt)
    with Engine.load(together, "cpu", kv_format="f32") as engine:
        expected = engine.logits(prompt)
    own, others = (float(np.linalg.norm(one - expected)) for one in (adapted, rounded))
    # The product of rank 4 is rounded once more than merged weights are.
    assert own < 2 * others
