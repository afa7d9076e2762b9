"""Quantized weights on a GPU: packed, dequantized and multiplied, against NumPy."""

import numpy as np
import numpy.typing as npt
import pytest

from assay import ops, xp
from assay.bench.suites import low_precision
from assay.errors import AssayError
from assay.ops import Weights
from assay.runtime import Array, Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

Values = npt.NDArray[np.float64]
BLOCKS = ("q8_0", "q4_0", "q4_1")
FORMATS = ("int8", "fp8", "int4", *BLOCKS)
RANDOM = np.random.default_rng(11)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def made(device: Device, format: str, outputs: int, inputs: int) -> tuple[Weights, Values]:
    """Packed weights, and what they stand for by definition."""
    drawn = RANDOM.normal(size=(outputs, inputs)).astype(np.float32)
    shape = (outputs, inputs)
    if format in ("int8", "fp8"):
        rows = low_precision.int8_rows if format == "int8" else low_precision.fp8_rows
        codes, scales, stored = rows(drawn)
        return ops.pack(codes, format, shape, device, scales=scales), stored
    if format == "int4":
        drawn = low_precision.int4_groups(drawn, 128)
        return ops.pack(drawn, format, shape, device), drawn.astype(np.float64)
    on_host = ops.pack(drawn, format, shape, "cpu")
    stored = on_host.dequantize().to_numpy().astype(np.float64)
    return ops.pack(drawn, format, shape, device), stored


def read(array: Array) -> Values:
    stored = array.to_numpy()
    if array.dtype is xp.bfloat16:
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float64)


def far(got: Values, wanted: Values) -> float:
    assert not np.isnan(got).any()
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("outputs", "inputs"), [(5, 128), (70, 1152), (256, 4096)])
def test_packed_weights_stand_for_what_they_should(
    device: Device, format: str, outputs: int, inputs: int
) -> None:
    weights, stored = made(device, format, outputs, inputs)
    assert far(read(weights.dequantize()), stored) < 1e-6


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("kind", "rows", "outputs", "inputs"),
    [
        ("bfloat16", 1, 512, 4096),
        ("bfloat16", 3, 512, 4096),
        ("bfloat16", 8, 512, 4096),
        ("bfloat16", 200, 512, 4096),
        ("bfloat16", 2, 100, 1152),
        ("bfloat16", 13, 96, 14336),
        ("float16", 1, 512, 4096),
        ("float16", 200, 512, 4096),
    ],
)
def test_linear(
    device: Device, format: str, kind: str, rows: int, outputs: int, inputs: int
) -> None:
    weights, stored = made(device, format, outputs, inputs)
    numbers = RANDOM.normal(size=(rows, inputs)).astype(np.float32)
    x = xp.asarray(numbers, dtype=getattr(xp, kind), device=device)
    out = xp.full((rows, outputs), float("nan"), dtype=x.dtype, device=device)
    ops.linear(x, weights, out=out)
    assert far(read(out), read(x) @ stored.T) < (4e-3 if kind == "bfloat16" else 1e-3)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rows", [2, 100])
def test_bias_activation_and_residual(device: Device, format: str, rows: int) -> None:
    weights, stored = made(device, format, 128, 512)
    draw = lambda *shape: xp.asarray(  # noqa: E731
        RANDOM.normal(size=shape).astype(np.float32), dtype=xp.bfloat16, device=device
    )
    x, bias, residual = draw(rows, 512), draw(128), draw(rows, 128)
    out = ops.linear(x, weights, bias=bias, activation="relu", residual=residual)
    sums = read(x) @ stored.T + read(bias)
    assert far(read(out), np.maximum(sums, 0) + read(residual)) < 5e-3


def test_invariant_rows_are_the_same_alone_and_together(device: Device) -> None:
    for format in FORMATS:
        weights, _ = made(device, format, 64, 1024)
        numbers = RANDOM.normal(size=(40, 1024)).astype(np.float32)
        x = xp.asarray(numbers, dtype=xp.bfloat16, device=device)
        together = ops.linear(x, weights, batch_invariant=True).to_numpy()
        for row in (0, 7, 8, 39):
            alone = ops.linear(x[row : row + 1], weights, batch_invariant=True).to_numpy()
            np.testing.assert_array_equal(alone[0], together[row])


@pytest.mark.parametrize("format", ["int8", "fp8", "int4"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_numbers_in_device_memory_are_rounded_there(device: Device, format: str, kind: str) -> None:
    numbers = RANDOM.normal(size=(300, 1024)).astype(np.float32)
    numbers[3] = 0
    x = xp.asarray(numbers, dtype=getattr(xp, kind), device=device)
    weights = ops.pack(x, format, (300, 1024), device)
    given = read(x)
    error = np.abs(read(weights.dequantize()) - given)
    largest = np.abs(given).max(axis=1, keepdims=True)
    # Half a step: of 127 to the largest, an eighth of each number, or 15 from least to largest.
    step = {"int8": largest / 127, "fp8": np.abs(given) / 8 + largest / 2**17, "int4": largest / 6}
    assert (error <= step[format] * 0.51 + 1e-3 * largest).all()
    assert (error[3] == 0).all()


@pytest.mark.parametrize("rows", [1, 16, 250])
@pytest.mark.parametrize("extras", [False, True])
def test_both_sides_of_8_bits(device: Device, rows: int, extras: bool) -> None:
    codes, scales, x_stored = low_precision.fp8_rows(
        RANDOM.normal(size=(rows, 512)).astype(np.float32)
    )
    x = ops.pack(codes, "fp8", (rows, 512), device, scales=scales)
    weights, stored = made(device, "fp8", 256, 512)
    expected = x_stored @ stored.T
    bias = None
    if extras:
        bias = xp.asarray(
            RANDOM.normal(size=256).astype(np.float32), dtype=xp.bfloat16, device=device
        )
        expected = np.maximum(expected + read(bias), 0)
    out = ops.linear(x, weights, bias=bias, activation="relu" if extras else None)
    assert out.dtype is xp.bfloat16
    assert far(read(out), expected) < 5e-3


def test_records_name_the_path_of_the_kernel(device: Device) -> None:
    x = xp.zeros((1, 512), dtype=xp.bfloat16, device=device)
    device.take_records()
    for format in ("int8", "int4"):
        ops.linear(x, made(device, format, 64, 512)[0])
    device.synchronize()
    labels = {one.name for one in device.take_records().records}
    assert {"linear_w8a16_bf16", "linear_w4a16_bf16"} <= labels


def test_what_does_not_fit_is_refused(device: Device) -> None:
    numbers = np.ones((4, 96), np.float32)
    with pytest.raises(AssayError, match="multiples of 128 for int4, got 96"):
        ops.pack(numbers, "int4", (4, 96), device)
    with pytest.raises(AssayError, match="got q6_k"):
        ops.pack(np.ones((4, 256), np.float32), "q6_k", (4, 256), device)
    weights, _ = made(device, "int8", 8, 128)
    single = xp.zeros((1, 128), dtype=xp.float32, device=device)
    with pytest.raises(AssayError, match="beside quantized weights"):
        ops.linear(single, weights)


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "q4_1", "q4_k", "q6_k"])
def test_blocks_out_of_files_are_read_as_on_a_processor(device: Device, format: str) -> None:
    numbers = RANDOM.normal(size=(6, 512)).astype(np.float32)
    blocks = ops.quantize(xp.asarray(numbers, copy=True), format)
    expected = ops.dequantize(blocks, format, (6, 512)).to_numpy()
    there = ops.dequantize(blocks.to_device(device), format, (6, 512))
    np.testing.assert_array_equal(there.to_numpy(), expected)


@pytest.mark.parametrize("format", ["q8_0", "q4_0", "q4_1", "bf16", "f16"])
def test_numbers_are_rounded_as_on_a_processor(device: Device, format: str) -> None:
    numbers = RANDOM.normal(size=(7, 512)).astype(np.float32)
    numbers[2, :64] = 0
    numbers[3, :32] = np.float32(-2.5)
    expected = ops.quantize(xp.asarray(numbers, copy=True), format).to_numpy()
    got = ops.quantize(xp.asarray(numbers, device=device), format)
    np.testing.assert_array_equal(got.to_numpy(), expected)
    back = ops.dequantize(got, format, (7, 512)).to_numpy()
    assert far(back.astype(np.float64), numbers.astype(np.float64)) < 0.1


def test_long_blocks_are_made_on_a_processor(device: Device) -> None:
    numbers = xp.zeros((1, 256), dtype=xp.float32, device=device)
    with pytest.raises(AssayError, match="got q6_k"):
        ops.quantize(numbers, "q6_k")


@pytest.mark.parametrize("format", [*FORMATS, "bf16"])
@pytest.mark.parametrize(("outputs", "inputs"), [(70, 1152), (256, 4096), (96, 14336)])
@pytest.mark.parametrize("gated", [False, True])
def test_a_row_gives_the_same_bytes_whatever_is_beside_it(
    device: Device, format: str, outputs: int, inputs: int, gated: bool
) -> None:
    if format == "bf16":
        drawn = RANDOM.normal(size=(outputs, inputs)).astype(np.float32)
        weights = ops.pack(drawn, format, (outputs, inputs), device)
    else:
        weights, _ = made(device, format, outputs, inputs)
    drawn = RANDOM.normal(size=(33, inputs)).astype(np.float32)
    x = xp.asarray(drawn, dtype=xp.bfloat16, device=device)
    gain = xp.ones((inputs,), dtype=xp.bfloat16, device=device) if gated else None

    def product(rows: Array) -> npt.NDArray[np.uint16]:
        return ops.linear(
            rows,
            weights,
            norm=gain,
            epsilon=1e-5 if gated else 0.0,
            activation="swiglu" if gated else None,
            batch_invariant=True,
        ).to_numpy()

    whole = product(x)
    for first, last in ((0, 1), (8, 9), (30, 32), (5, 8), (7, 12), (16, 33)):
        assert (product(x[first:last]) == whole[first:last]).all(), (first, last)
