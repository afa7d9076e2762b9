"""Quantized weights on a GPU: packed, dequantized and multiplied, against NumPy."""

import numpy as np
import numpy.typing as npt
import pytest

from assay import ops, xp
from assay.bench.suites import linear_weights, low_precision
from assay.engine.loading import dequantize
from assay.errors import AssayError
from assay.ops import Weights
from assay.runtime import Array, Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

Values = npt.NDArray[np.float64]
BLOCKS = tuple(linear_weights.HALVES)
FORMATS = ("int8", "fp8", "int4", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k")
OTHERS = tuple(format for format in BLOCKS if format not in FORMATS)
"""Formats whose kernels share their parts with those above: tested at fewer shapes."""
RANDOM = np.random.default_rng(11)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def random_weights(
    device: Device, format: str, outputs: int, inputs: int
) -> tuple[Weights, Values]:
    """Packed weights, and their dequantized values by definition."""
    values = RANDOM.normal(size=(outputs, inputs)).astype(np.float32)
    shape = (outputs, inputs)
    if format in ("int8", "fp8"):
        rows = low_precision.int8_rows if format == "int8" else low_precision.fp8_rows
        codes, scales, stored = rows(values)
        return ops.pack(codes, format, shape, device, scales=scales), stored
    if format == "int4":
        values = low_precision.int4_groups(values, 128)
        return ops.pack(values, format, shape, device), values.astype(np.float64)
    blocks, stored_values = random_blocks(format, outputs, inputs)
    return ops.pack(blocks, format, shape, device), stored_values.astype(np.float64)


def random_blocks(
    format: str, outputs: int, inputs: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Blocks as a file holds them, and their values; other tests hold those to the gguf package."""
    shape = (outputs, inputs)
    blocks = linear_weights.random_blocks(format, *shape, seed=outputs)
    if format in dequantize.FORMATS:
        return blocks, dequantize.dequantize(blocks, format, shape)
    return blocks, ops.dequantize(xp.asarray(blocks, copy=True), format, shape).to_numpy()


def read(array: Array) -> Values:
    stored = array.to_numpy()
    if array.dtype is xp.bfloat16:
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


def relative_error(got: Values, expected: Values) -> float:
    assert not np.isnan(got).any()
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("format", BLOCKS)
@pytest.mark.parametrize(("outputs", "inputs"), [(5, 256), (70, 1280), (33, 4096)])
def test_packed_blocks_keep_every_bit_of_their_values(
    device: Device, format: str, outputs: int, inputs: int
) -> None:
    blocks, values = random_blocks(format, outputs, inputs)
    packed = ops.pack(blocks, format, (outputs, inputs), device)
    for got in (
        packed.dequantize(),
        ops.dequantize(xp.asarray(blocks, copy=True).to_device(device), format, (outputs, inputs)),
    ):
        np.testing.assert_array_equal(got.to_numpy().view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("outputs", "inputs"), [(5, 256), (70, 1280), (256, 4096)])
def test_packed_weights_dequantize_to_their_definition(
    device: Device, format: str, outputs: int, inputs: int
) -> None:
    weights, stored = random_weights(device, format, outputs, inputs)
    assert relative_error(read(weights.dequantize()), stored) < 1e-6


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("kind", "rows", "outputs", "inputs"),
    [
        ("bfloat16", 1, 512, 4096),
        ("bfloat16", 3, 512, 4096),
        ("bfloat16", 8, 512, 4096),
        ("bfloat16", 200, 512, 4096),
        ("bfloat16", 2, 100, 1280),
        ("bfloat16", 13, 96, 14336),
        ("float16", 1, 512, 4096),
        ("float16", 200, 512, 4096),
    ],
)
def test_linear_matches_numpy(
    device: Device, format: str, kind: str, rows: int, outputs: int, inputs: int
) -> None:
    weights, stored = random_weights(device, format, outputs, inputs)
    values_f32 = RANDOM.normal(size=(rows, inputs)).astype(np.float32)
    x = xp.asarray(values_f32, dtype=getattr(xp, kind), device=device)
    out = xp.full((rows, outputs), float("nan"), dtype=x.dtype, device=device)
    ops.linear(x, weights, out=out)
    assert relative_error(read(out), read(x) @ stored.T) < (4e-3 if kind == "bfloat16" else 1e-3)


@pytest.mark.parametrize("format", ["q4_k", "q5_k", "q6_k"])
def test_long_rows_of_nested_scales_match_numpy(device: Device, format: str) -> None:
    """Two tiles of eight rows and more for each SM, and a last one that is not full."""
    test_linear_matches_numpy(device, format, "bfloat16", 1, 2205, 14336)


@pytest.mark.parametrize("format", OTHERS)
@pytest.mark.parametrize(("rows", "outputs", "inputs"), [(1, 512, 4096), (3, 100, 1280)])
def test_other_formats_match_numpy(
    device: Device, format: str, rows: int, outputs: int, inputs: int
) -> None:
    test_linear_matches_numpy(device, format, "bfloat16", rows, outputs, inputs)


@pytest.mark.parametrize(
    ("format", "outputs"),
    [*((one, 1036) for one in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs")),
     ("q4_k", 20480), ("q6_k", 20480)],
)  # fmt: skip
def test_gated_rows_of_nested_scales_have_the_same_bits_each_time(
    device: Device, format: str, outputs: int
) -> None:
    """20480 rows are more tiles a CTA than stages: one that is overwritten too early would show."""
    weights, stored = random_weights(device, format, outputs, 4096)
    values_f32 = RANDOM.normal(size=(1, 4096)).astype(np.float32)
    x = xp.asarray(values_f32, dtype=xp.bfloat16, device=device)
    gain = xp.ones((4096,), dtype=xp.bfloat16, device=device)
    runs = []
    for _ in range(40):
        out = xp.full((1, outputs // 2), float("nan"), dtype=x.dtype, device=device)
        ops.linear(x, weights, norm=gain, activation="swiglu", out=out)
        runs.append(read(out))
    for one in runs[1:]:
        np.testing.assert_array_equal(one, runs[0])
    normed = read(x) / np.sqrt((read(x) ** 2).mean())
    gates, ups = np.split(normed @ stored.T, 2, axis=1)
    assert relative_error(runs[0], gates * (1 + np.tanh(gates / 2)) / 2 * ups) < 5e-3


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rows", [2, 100])
def test_bias_activation_and_residual_match_numpy(device: Device, format: str, rows: int) -> None:
    weights, stored = random_weights(device, format, 128, 512)
    draw = lambda *shape: xp.asarray(  # noqa: E731
        RANDOM.normal(size=shape).astype(np.float32), dtype=xp.bfloat16, device=device
    )
    x, bias, residual = draw(rows, 512), draw(128), draw(rows, 128)
    out = ops.linear(x, weights, bias=bias, activation="relu", residual=residual)
    sums = read(x) @ stored.T + read(bias)
    assert relative_error(read(out), np.maximum(sums, 0) + read(residual)) < 5e-3


def test_batch_invariant_rows_equal_single_rows(device: Device) -> None:
    for format in FORMATS:
        weights, _ = random_weights(device, format, 64, 1024)
        values_f32 = RANDOM.normal(size=(40, 1024)).astype(np.float32)
        x = xp.asarray(values_f32, dtype=xp.bfloat16, device=device)
        batched = ops.linear(x, weights, batch_invariant=True).to_numpy()
        for row in (0, 7, 8, 39):
            single = ops.linear(x[row : row + 1], weights, batch_invariant=True).to_numpy()
            np.testing.assert_array_equal(single[0], batched[row])


@pytest.mark.parametrize("format", ["int8", "fp8", "int4"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_device_arrays_are_quantized_on_the_device(device: Device, format: str, kind: str) -> None:
    values_f32 = RANDOM.normal(size=(300, 1024)).astype(np.float32)
    values_f32[3] = 0
    x = xp.asarray(values_f32, dtype=getattr(xp, kind), device=device)
    weights = ops.pack(x, format, (300, 1024), device)
    rounded = read(x)
    error = np.abs(read(weights.dequantize()) - rounded)
    largest = np.abs(rounded).max(axis=1, keepdims=True)
    # Half a step: 1/127 of the largest, 1/8 of each value, or 1/15 of the range.
    step = {
        "int8": largest / 127,
        "fp8": np.abs(rounded) / 8 + largest / 2**17,
        "int4": largest / 6,
    }
    assert (error <= step[format] * 0.51 + 1e-3 * largest).all()
    assert (error[3] == 0).all()


@pytest.mark.parametrize("rows", [1, 16, 250])
@pytest.mark.parametrize("extras", [False, True])
def test_fp8_activations_and_weights_match_numpy(device: Device, rows: int, extras: bool) -> None:
    codes, scales, x_stored = low_precision.fp8_rows(
        RANDOM.normal(size=(rows, 512)).astype(np.float32)
    )
    x = ops.pack(codes, "fp8", (rows, 512), device, scales=scales)
    weights, stored = random_weights(device, "fp8", 256, 512)
    expected = x_stored @ stored.T
    bias = None
    if extras:
        bias = xp.asarray(
            RANDOM.normal(size=256).astype(np.float32), dtype=xp.bfloat16, device=device
        )
        expected = np.maximum(expected + read(bias), 0)
    out = ops.linear(x, weights, bias=bias, activation="relu" if extras else None)
    assert out.dtype is xp.bfloat16
    assert relative_error(read(out), expected) < 5e-3


def test_records_name_the_weight_format(device: Device) -> None:
    x = xp.zeros((1, 512), dtype=xp.bfloat16, device=device)
    device.take_records()
    for format in ("int8", "int4"):
        ops.linear(x, random_weights(device, format, 64, 512)[0])
    device.synchronize()
    labels = {one.name for one in device.take_records().records}
    assert {"linear_w8a16_bf16", "linear_w4a16_bf16"} <= labels


def test_unsupported_shapes_and_types_are_refused(device: Device) -> None:
    values_f32 = np.ones((4, 96), np.float32)
    with pytest.raises(AssayError, match="multiples of 128 for int4, got 96"):
        ops.pack(values_f32, "int4", (4, 96), device)
    with pytest.raises(AssayError, match='got "iq2_xs"'):
        ops.pack(np.ones((4, 74), np.uint8), "iq2_xs", (4, 256), device)
    with pytest.raises(AssayError, match="bytes of q3_k as a file stores them"):
        ops.pack(np.ones((4, 256), np.float32), "q3_k", (4, 256), device)
    with pytest.raises(AssayError, match="multiples of 256 for q6_k, got 96"):
        ops.pack(values_f32, "q6_k", (4, 96), device)
    weights, _ = random_weights(device, "int8", 8, 128)
    single = xp.zeros((1, 128), dtype=xp.float32, device=device)
    with pytest.raises(AssayError, match="beside quantized weights"):
        ops.linear(single, weights)


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "q4_1", "q4_k", "q6_k"])
def test_quantized_blocks_dequantize_as_on_the_cpu(device: Device, format: str) -> None:
    values_f32 = RANDOM.normal(size=(6, 512)).astype(np.float32)
    blocks = ops.quantize(xp.asarray(values_f32, copy=True), format)
    expected = ops.dequantize(blocks, format, (6, 512)).to_numpy()
    on_device = ops.dequantize(blocks.to_device(device), format, (6, 512))
    np.testing.assert_array_equal(on_device.to_numpy(), expected)


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "q4_1", "bf16", "f16"])
def test_quantized_blocks_equal_those_of_the_cpu(device: Device, format: str) -> None:
    values_f32 = RANDOM.normal(size=(7, 512)).astype(np.float32)
    values_f32[2, :64] = 0
    values_f32[3, :32] = np.float32(-2.5)
    expected = ops.quantize(xp.asarray(values_f32, copy=True), format).to_numpy()
    got = ops.quantize(xp.asarray(values_f32, device=device), format)
    np.testing.assert_array_equal(got.to_numpy(), expected)
    back = ops.dequantize(got, format, (7, 512)).to_numpy()
    assert relative_error(back.astype(np.float64), values_f32.astype(np.float64)) < 0.1


def test_k_quants_are_not_quantized_on_the_gpu(device: Device) -> None:
    values_f32 = xp.zeros((1, 256), dtype=xp.float32, device=device)
    with pytest.raises(AssayError, match="got q6_k"):
        ops.quantize(values_f32, "q6_k")


@pytest.mark.parametrize("format", [*FORMATS, "bf16"])
@pytest.mark.parametrize(("outputs", "inputs"), [(70, 1280), (256, 4096), (96, 14336)])
@pytest.mark.parametrize("gated", [False, True])
def test_batch_invariant_rows_do_not_depend_on_the_batch(
    device: Device, format: str, outputs: int, inputs: int, gated: bool
) -> None:
    if format == "bf16":
        values = RANDOM.normal(size=(outputs, inputs)).astype(np.float32)
        weights = ops.pack(values, format, (outputs, inputs), device)
    else:
        weights, _ = random_weights(device, format, outputs, inputs)
    values = RANDOM.normal(size=(33, inputs)).astype(np.float32)
    x = xp.asarray(values, dtype=xp.bfloat16, device=device)
    gain = xp.ones((inputs,), dtype=xp.bfloat16, device=device) if gated else None

    def linear(rows: Array) -> npt.NDArray[np.uint16]:
        return ops.linear(
            rows,
            weights,
            norm=gain,
            epsilon=1e-5 if gated else 0.0,
            activation="swiglu" if gated else None,
            batch_invariant=True,
        ).to_numpy()

    all_rows = linear(x)
    for first, last in ((0, 1), (8, 9), (30, 32), (5, 8), (7, 12), (16, 33)):
        assert (linear(x[first:last]) == all_rows[first:last]).all(), (first, last)
