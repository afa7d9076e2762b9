"""Packed weights and linear layers against NumPy and against the gguf package's own blocks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_operations import ACTIVATIONS, take, upload

from assay import ops, xp
from assay.errors import AssayError, DeviceError, DTypeError, InputError, ShapeError
from assay.runtime import Device, device

gguf = pytest.importorskip("gguf")

BLOCKS = ("q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k")
QUANTIZABLE = ("q8_0", "q4_0", "q4_1")
"""Formats that the gguf package can make as well as read."""


def kind(format: str) -> object:
    """The gguf package's name for a format."""
    return getattr(gguf.GGMLQuantizationType, format.upper())


@pytest.mark.parametrize("format", BLOCKS)
@pytest.mark.parametrize("outputs", [1, 16, 37])
def test_packed_blocks_dequantize_like_gguf(format: str, outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    values = rng.standard_normal((outputs, 512)).astype(np.float32)
    blocks = ops.quantize(upload(values), format).to_numpy()
    expected = gguf.quants.dequantize(blocks, kind(format))
    weights = ops.pack(blocks, format, (outputs, 512))
    assert weights.shape == (outputs, 512)
    assert weights.format == format
    assert np.array_equal(weights.dequantize().to_numpy(), expected)
    assert np.abs(expected - values).max() < {"q8_0": 0.03, "q6_k": 0.1}.get(format, 0.5)


@pytest.mark.parametrize("format", QUANTIZABLE)
def test_gguf_blocks_are_packed_unchanged(format: str) -> None:
    values = np.random.default_rng(3).standard_normal((20, 96)).astype(np.float32)
    blocks = gguf.quants.quantize(values, kind(format))
    expected = gguf.quants.dequantize(blocks, kind(format))
    assert np.array_equal(ops.pack(blocks, format, (20, 96)).dequantize().to_numpy(), expected)


@pytest.mark.parametrize("format", ["f32", "f16", "bf16", "int8", *BLOCKS])
@pytest.mark.parametrize("rows", [1, 3, 4, 9, 33])
@pytest.mark.parametrize("outputs", [1, 16, 50])
def test_linear_matches_dequantized_weights(format: str, rows: int, outputs: int) -> None:
    inputs = 512 if format in BLOCKS else 96
    rng = np.random.default_rng(rows * outputs)
    values = rng.standard_normal((outputs, inputs)).astype(np.float32)
    x = rng.standard_normal((rows, inputs)).astype(np.float32)
    if format == "int8":
        codes = rng.integers(-127, 128, (outputs, inputs)).astype(np.int8)
        scales = rng.uniform(0.01, 0.02, outputs).astype(np.float32)
        weights = ops.pack(codes, format, values.shape, scales=scales)
        assert np.allclose(weights.dequantize().to_numpy(), codes * scales[:, None])
    else:
        weights = ops.pack(values, format, values.shape)
    wide = weights.dequantize().to_numpy().astype(np.float64)
    out = ops.linear(upload(x), weights).to_numpy()
    exact = x @ wide.T
    if format in ("f32", "f16", "bf16"):
        assert np.abs(out - exact).max() < 1e-4
    else:
        # Activations are rounded to a 127th of the largest of their 32.
        largest = np.abs(x.reshape(rows, -1, 32)).max(-1).repeat(32, 1)
        bound = 0.5 / 127 * np.abs(largest) @ np.abs(wide).T + 1e-4
        assert (np.abs(out - exact) <= bound).all()


@pytest.mark.parametrize("format", ["f32", "bf16", "q4_1", "q8_0"])
@pytest.mark.parametrize("activation", [None, "silu", "gelu", "gelu_tanh", "relu"])
def test_bias_activation_and_residual_are_applied_in_this_order(
    format: str, activation: str | None
) -> None:
    rng = np.random.default_rng(5)
    rows, outputs, inputs = 5, 35, 64
    x, bias, residual = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((rows, inputs), (outputs,), (rows, outputs))
    )
    values = rng.standard_normal((outputs, inputs)).astype(np.float32)
    weights = ops.pack(values, format, (outputs, inputs))
    plain = ops.linear(upload(x), weights).to_numpy().astype(np.float64)
    out = ops.linear(
        upload(x), weights, bias=upload(bias), activation=activation, residual=upload(residual)
    ).to_numpy()
    assert np.abs(out - (ACTIVATIONS[activation](plain + bias) + residual)).max() < 1e-5


@pytest.mark.parametrize("format", ["f32", "bf16", "q4_1", "q8_0"])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_fused_norm_and_swiglu_match_separate_operations(format: str, rows: int) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((rows, 64)).astype(np.float32) * 3
    gain, bias = (rng.standard_normal(count).astype(np.float32) for count in (64, 34))
    values = rng.standard_normal((34, 64)).astype(np.float32)
    weights = ops.pack(values, format, values.shape)
    normed = ops.rms_norm(upload(x), upload(gain), 1e-5)
    exact = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5) * gain
    assert np.abs(normed.to_numpy() - exact).max() < 1e-5
    plain = ops.linear(normed, weights, bias=upload(bias))
    together = ops.linear(upload(x), weights, norm=upload(gain), epsilon=1e-5, bias=upload(bias))
    assert np.array_equal(together.to_numpy(), plain.to_numpy())
    gated = ops.linear(
        upload(x), weights, norm=upload(gain), epsilon=1e-5, bias=upload(bias), activation="swiglu"
    )
    gate, up = np.split(plain.to_numpy().astype(np.float64), 2, axis=1)
    assert np.abs(gated.to_numpy() - gate / (1 + np.exp(-gate)) * up).max() < 1e-4


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "q4_1", "q4_k", "q6_k", "int8", "f32", "bf16"])
def test_linear_is_batch_invariant_on_request(format: str) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((130, 256)).astype(np.float32)
    values = rng.standard_normal((70, 256)).astype(np.float32)
    if format == "int8":
        codes = rng.integers(-127, 128, (70, 256)).astype(np.int8)
        weights = ops.pack(codes, format, (70, 256), scales=np.ones(70, np.float32))
    else:
        weights = ops.pack(values, format, (70, 256))
    whole = ops.linear(upload(x), weights, batch_invariant=True).to_numpy().copy()
    for rows in (1, 2, 5, 16, 64):
        part = ops.linear(upload(x[:rows]), weights, batch_invariant=True).to_numpy()
        assert part.tobytes() == whole[:rows].tobytes(), rows


def test_linear_writes_to_out_and_records_its_label() -> None:
    own = Device("cpu")
    weights = ops.pack(np.ones((3, 32), np.float32), "f32", (3, 32), own)
    x = xp.ones((2, 32), dtype=xp.float32, device=own)
    out = xp.zeros((2, 3), dtype=xp.float32, device=own)
    own.take_records()
    assert ops.linear(x, weights, out=out, label="layers.3.output") is out
    (record,) = [each for each in own.take_records().records if each.kind == "launch"]
    assert record.name == "layers.3.output"
    assert record.flops == 2 * 2 * 3 * 32
    assert record.bytes == 4 * (2 * 32 + 3 * 32 + 2 * 3)
    assert (out.to_numpy() == 32).all()


def test_nan_propagates_to_every_output() -> None:
    x = np.ones((1, 64), np.float32)
    x[0, 40] = np.nan
    for format in ("f32", "q8_0", "q4_1"):
        weights = ops.pack(np.ones((5, 64), np.float32), format, (5, 64))
        assert np.isnan(ops.linear(upload(x), weights).to_numpy()).all()


def test_zero_rows_give_zero_rows() -> None:
    weights = ops.pack(np.ones((5, 64), np.float32), "q8_0", (5, 64))
    assert ops.linear(upload(np.empty((0, 64), np.float32)), weights).shape == (0, 5)


def wrong_calls() -> list[tuple[type[AssayError], str, object]]:
    """Calls that must be refused, and what must be said."""
    weights = ops.pack(np.ones((4, 32), np.float32), "f32", (4, 32))
    x = upload(np.ones((2, 32), np.float32))
    out = upload(np.ones((2, 4), np.float32))
    return [
        (ShapeError, "x of shape (any, 32), got (2, 31)", lambda: ops.linear(x[:, :31], weights)),
        (
            ShapeError,
            "C-contiguous",
            lambda: ops.linear(upload(np.ones((32, 2), np.float32)).T, weights),
        ),
        (DTypeError, "float32, got float64", lambda: ops.linear(upload(np.ones((2, 32))), weights)),
        (DTypeError, "packed weights, got Array", lambda: ops.linear(x, x)),
        (InputError, "activation", lambda: ops.linear(x, weights, activation="sine")),
        (InputError, "epsilon", lambda: ops.linear(x, weights, epsilon=-1.0)),
        (
            ShapeError,
            "norm of shape (32)",
            lambda: ops.linear(x, weights, norm=upload([1.0], "f4")),
        ),
        (
            ShapeError,
            "no residual for swiglu",
            lambda: ops.linear(x, weights, activation="swiglu", residual=out),
        ),
        (ShapeError, "bias of shape (4)", lambda: ops.linear(x, weights, bias=upload([1.0], "f4"))),
        (
            DeviceError,
            "borrowed",
            lambda: ops.linear(x, weights, out=xp.asarray(np.ones(out.shape, "f4"))),
        ),
        (DeviceError, "apart from residual", lambda: ops.linear(x, weights, residual=out, out=out)),
        (InputError, "q4_2", lambda: ops.pack(b"", "q4_2", (1, 32))),
        (ShapeError, "multiples of 256", lambda: ops.pack(np.ones((1, 32), "f4"), "q4_k", (1, 32))),
        (ShapeError, "34 bytes", lambda: ops.pack(np.zeros(33, np.uint8), "q8_0", (1, 32))),
        (InputError, "scale for each", lambda: ops.pack(np.zeros(32, "i1"), "int8", (1, 32))),
        (InputError, "no scales", lambda: ops.pack(b"1" * 34, "q8_0", (1, 32), scales=[1.0])),
    ]


@pytest.mark.parametrize("index", range(13))
def test_invalid_arguments_are_named(index: int) -> None:
    error, text, call = wrong_calls()[index]
    with pytest.raises(error) as raised:
        call()  # type: ignore[operator]
    assert text in raised.value.message


def test_freed_weights_raise() -> None:
    weights = ops.pack(np.ones((4, 32), np.float32), "q8_0", (4, 32))
    weights.free()
    with pytest.raises(AssayError, match="freed"):
        ops.linear(upload(np.ones((1, 32), np.float32)), weights)


def test_sim_time_grows_with_bytes_and_is_recorded() -> None:
    simulated = Device("sim")
    weights = ops.pack(np.ones((64, 32), np.float32), "q8_0", (64, 32), simulated)
    x = xp.ones((4, 32), dtype=xp.float32, device=simulated)
    simulated.take_records()
    ops.linear(x, weights)
    simulated.synchronize()
    records = [each for each in simulated.take_records().records if each.name == "linear"]
    (record,) = records
    assert record.start_ns is not None
    assert record.end_ns is not None
    assert record.end_ns > record.start_ns
    assert device("cpu") is not simulated
    assert take(upload(np.ones(1, np.float32)))[0] == 1
