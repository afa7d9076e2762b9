"""The operations of speech and audio on a GPU, against the CPU's or double precision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from assay import ops, xp
from assay.ops import audio
from assay.runtime import Array, Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

RANDOM = np.random.default_rng(36)
CLOSE = 1e-5
"""Of the largest magnitude."""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=16 << 30)


def noise(*shape: int) -> npt.NDArray[np.float32]:
    return RANDOM.standard_normal(shape).astype(np.float32)


def complex_noise(*shape: int) -> npt.NDArray[np.complex64]:
    return (noise(*shape) + 1j * noise(*shape)).astype(np.complex64)


def put(values: npt.NDArray[Any], where: Device | str = "cpu") -> Array:
    return xp.asarray(values, device=where, copy=True)


def poisoned(device: Device, shape: tuple[int, ...]) -> Array:
    return xp.full(shape, float("nan"), dtype=xp.float32, device=device)


def check(got: Any, expected: Any, tolerance: float = CLOSE) -> None:
    assert got.shape == expected.shape
    largest = float(np.abs(expected).max()) if expected.size else 0.0
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * largest)


def compare(
    device: Device,
    function: Callable[..., Array],
    *values: npt.NDArray[Any] | None,
    tolerance: float = CLOSE,
) -> None:
    """A function of arrays on the GPU and on the CPU, into poisoned memory on the GPU."""
    on_cpu = [None if one is None else put(one) for one in values]
    expected = function(*on_cpu).to_numpy()
    on_gpu = [None if one is None else put(one, device) for one in values]
    out = function(*on_gpu, out=poisoned(device, expected.shape))
    check(out.to_numpy(), expected, tolerance)


CONVOLUTIONS = [
    # x, weight, options: Whisper's stem, Kokoro's, odd extents, groups, few filters.
    ((2, 80, 300), (96, 80, 3), {"padding": 1, "activation": "gelu"}),
    ((1, 512, 131), (512, 512, 5), {"padding": 2}),
    ((1, 128, 1000), (128, 128, 11), {"padding": 25, "dilation": 5}),
    ((2, 96, 301), (64, 96, 3), {"padding": 1, "stride": 2}),
    ((2, 64, 97), (128, 32, 3), {"groups": 2, "padding": (2, 0)}),
    ((3, 40, 67), (40, 1, 7), {"groups": 40, "padding": 3}),
    ((1, 1, 5000), (1, 1, 401), {}),
    ((1, 1, 1), (1, 1, 1), {}),
    ((257, 17), (33, 257, 1), {}),
]


@pytest.mark.parametrize(("x", "weight", "options"), CONVOLUTIONS)
def test_conv1d(
    device: Device, x: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]
) -> None:
    def run(
        x: Array, weight: Array, bias: Array, residual: Array, out: Array | None = None
    ) -> Array:
        return ops.conv1d(x, weight, bias, residual=residual, out=out, **options)

    values = (
        noise(*x),
        noise(*weight) / np.float32(np.sqrt(weight[1] * weight[2])),
        noise(weight[0]),
    )
    shape = ops.conv1d(*(put(one) for one in values), **options).shape
    compare(device, run, *values, noise(*shape))


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_conv1d_of_16_bits(device: Device, kind: str) -> None:
    x, weight = noise(2, 64, 333), noise(80, 64, 3) / 14
    dtype = getattr(xp, kind)
    on_gpu = [xp.asarray(one, dtype=dtype, device=device) for one in (x, weight)]
    got = xp.astype(ops.conv1d(*on_gpu, padding=1), xp.float32).to_numpy()
    rounded = [xp.astype(one, xp.float32).to_numpy() for one in on_gpu]
    expected = ops.conv1d(*(put(one) for one in rounded), padding=1).to_numpy()
    check(got, expected, 8e-3 if kind == "bfloat16" else 1e-3)


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((2, 32, 40, 37), (48, 32, 3, 5), {"stride": (2, 1), "padding": (1, 2)}),
        ((1, 8, 50, 264), (16, 8, 3, 39), {"padding": (1, 19), "activation": "relu"}),
        ((1, 6, 20, 20), (4, 3, 3, 3), {"groups": 2, "dilation": 3}),
        # Through the pipeline: a detector's blocks and heads, samples that share a tile, groups in strides.
        ((64, 124, 108), (128, 64, 3, 3), {"padding": 1, "stride": 2, "activation": "relu"}),
        ((256, 62, 54), (256, 256, 3, 3), {"padding": 1, "activation": "relu"}),
        ((512, 31, 27), (288, 128, 1, 1), {"groups": 4}),
        ((3, 12, 9, 7), (70, 12, 3, 3), {"padding": 1}),
        (
            (2, 64, 33, 40),
            (80, 32, 5, 3),
            {"groups": 2, "stride": (2, 3), "padding": (2, 5), "dilation": (1, 4)},
        ),
    ],
)
def test_conv2d(
    device: Device, x: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]
) -> None:
    def run(x: Array, weight: Array, bias: Array, out: Array | None = None) -> Array:
        return ops.conv2d(x, weight, bias, out=out, **options)

    compare(device, run, noise(*x), noise(*weight), noise(weight[0]))


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((1, 512, 50), (512, 256, 20), {"stride": 10, "padding": 5}),
        ((2, 64, 33), (64, 32, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((2, 24, 33), (24, 1, 3), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 24}),
        ((1, 32, 9), (32, 32, 2), {"stride": 4}),
        ((1, 32, 9), (32, 32, 3), {"stride": 3, "dilation": 2}),
    ],
)
def test_conv_transpose1d(
    device: Device, x: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]
) -> None:
    def run(x: Array, weight: Array, bias: Array, out: Array | None = None) -> Array:
        return ops.conv_transpose1d(x, weight, bias, out=out, **options)

    filters = weight[1] * options.get("groups", 1)
    compare(device, run, noise(*x), noise(*weight), noise(filters))


@pytest.mark.parametrize(
    ("steps", "batch", "hidden"),
    [(50, 1, 256), (7, 3, 128), (9, 20, 256), (5, 2, 64), (6, 2, 512), (1, 2, 33)],
)
@pytest.mark.parametrize("both", [False, True])
def test_lstm(device: Device, steps: int, batch: int, hidden: int, both: bool) -> None:
    inputs = 40
    scale = np.float32(hidden**-0.5)
    gates = 4 * hidden
    shapes = ((gates, inputs), (gates, hidden), (gates,), (gates,))
    weights = [tuple(noise(*shape) * scale for shape in shapes) for _ in range(2)]
    x, state = noise(steps, batch, inputs), [noise(1 + both, batch, hidden) for _ in range(2)]

    def run(where: Device | str) -> list[npt.NDArray[Any]]:
        first, second = (ops.LSTMWeights(*(put(one, where) for one in side)) for side in weights)
        states = tuple(put(one, where) for one in state)
        given = put(x, where)
        if both:
            out, (h, c) = ops.bidirectional_lstm(given, first, second, state=states)
        else:
            out, (h, c) = ops.lstm(given, *first, state=states, reverse=hidden == 128)
        return [one.to_numpy() for one in (out, h, c)]

    for got, expected in zip(run(device), run("cpu"), strict=True):
        check(got, expected, 3e-5)


@pytest.mark.parametrize("columns", [1, 31, 4099])
def test_channel_norms(device: Device, columns: int) -> None:
    x, weight, bias, alpha = (
        noise(3, 12, columns) + 2,
        noise(12),
        noise(12),
        np.abs(noise(12)) + np.float32(0.1),
    )

    def group(x: Array, weight: Array, bias: Array, out: Array | None = None) -> Array:
        return ops.group_norm(x, 3, weight, bias, slope=0.2, out=out)

    def instance(x: Array, alpha: Array, out: Array | None = None) -> Array:
        return ops.instance_norm(x, alpha=alpha, out=out)

    def adaptive(x: Array, gamma: Array, beta: Array, out: Array | None = None) -> Array:
        return ops.adain(x, gamma, beta, out=out)

    compare(device, group, x, weight, bias)
    compare(device, instance, x, alpha, tolerance=1e-4 if columns == 1 else CLOSE)
    compare(
        device, adaptive, x, noise(3, 12), noise(3, 12), tolerance=1e-4 if columns == 1 else CLOSE
    )
    compare(device, ops.snake, x, alpha)
    compare(device, lambda x, out=None: ops.leaky_relu(x, 0.1, out), x)


LENGTHS = [
    1,
    2,
    3,
    7,
    8,
    11,
    17,
    97,
    400,
    441,
    1000,
    1009,
    2048,
    8192,
    10007,
    16384,
    44100,
    65537,
    100000,
]


@pytest.mark.parametrize("length", LENGTHS)
def test_transforms(device: Device, length: int) -> None:
    rows = 5 if length < 20_000 else 2
    x, real, half = (
        complex_noise(rows, length),
        noise(rows, length),
        complex_noise(rows, length // 2 + 1),
    )
    exact = x.astype(np.complex128)
    for norm in ("backward", "ortho"):
        got = xp.fft.fft(put(x, device), norm=norm).to_numpy()
        check(got, np.fft.fft(exact, norm=norm))
    check(xp.fft.ifft(put(x, device)).to_numpy(), np.fft.ifft(exact))
    check(xp.fft.rfft(put(real, device)).to_numpy(), np.fft.rfft(real.astype(float)))
    got = xp.fft.irfft(put(half, device), n=length).to_numpy()
    check(got, np.fft.irfft(half.astype(np.complex128), length))


@pytest.mark.parametrize("length", [10_000_000, 9_999_991])
def test_long_transforms(device: Device, length: int) -> None:
    x = noise(length)
    check(xp.fft.rfft(put(x, device)).to_numpy(), np.fft.rfft(x.astype(float)))


def test_transforms_of_many_rows_and_axes(device: Device) -> None:
    x = noise(3, 1000, 30)
    check(xp.fft.rfft(put(x, device)).to_numpy(), np.fft.rfft(x.astype(float)))
    got = xp.fft.rfft(put(x, device), axis=1, n=1100).to_numpy()
    check(got, np.fft.rfft(x.astype(float), axis=1, n=1100))
    assert xp.fft.rfft(xp.zeros((0, 8), dtype=xp.float32, device=device)).shape == (0, 5)


@pytest.mark.parametrize(
    ("n_fft", "hop"), [(400, 160), (512, 128), (2048, 512), (1022, 200), (16384, 4096), (25, 7)]
)
@pytest.mark.parametrize("value", ["complex", "magnitude", "power"])
def test_stft(device: Device, n_fft: int, hop: int, value: str) -> None:
    x = noise(2, 40_000)
    mode = "reflect" if value == "complex" else "constant"
    got = audio.stft(put(x, device), n_fft, hop=hop, value=value, pad_mode=mode)
    expected = audio.stft(put(x), n_fft, hop=hop, value=value, pad_mode=mode)
    check(got.to_numpy(), expected.to_numpy())
    if value == "complex" and n_fft % 2 == 0:
        back = audio.istft(got, hop=hop, length=40_000).to_numpy()
        check(back, audio.istft(expected, hop=hop, length=40_000).to_numpy())


def test_mel_and_log_mel(device: Device) -> None:
    x = noise(16_000)

    def mel(where: Device | str) -> npt.NDArray[Any]:
        filters = audio.mel_filters(16_000, 400, 80, device=where)
        return audio.mel_spectrogram(put(x, where), filters, hop=160).to_numpy()

    check(mel(device), mel("cpu"))


@pytest.mark.parametrize(("up", "down"), [(1, 3), (160, 441), (3, 1), (7, 5)])
def test_resample(device: Device, up: int, down: int) -> None:
    x = noise(2, 4410)
    got = audio.resample(put(x, device), up, down).to_numpy()
    check(got, audio.resample(put(x), up, down).to_numpy())


@pytest.mark.parametrize("samples", [1, 37, 100_000])
def test_filters(device: Device, samples: int) -> None:
    x = noise(3, samples)
    b, a = np.float32([0.1, 0.2, 0.1]), np.float32([1.0, -0.9, 0.3])
    taps = noise(31)
    for where in (device,):
        on_gpu = [put(one, where) for one in (b, a, x, taps)]
        on_cpu = [put(one) for one in (b, a, x, taps)]
        for got, expected in zip(
            audio.recursive_filter(*on_gpu[:3]), audio.recursive_filter(*on_cpu[:3]), strict=True
        ):
            check(got.to_numpy(), expected.to_numpy())
        for got, expected in zip(
            audio.fir(on_gpu[2], on_gpu[3]), audio.fir(on_cpu[2], on_cpu[3]), strict=True
        ):
            check(got.to_numpy(), expected.to_numpy())


def test_shaping_and_pitch(device: Device) -> None:
    x = noise(2, 100)
    for mode in ("reflect", "edge", "constant"):
        got = audio.pad(put(x, device), 7, 9, mode=mode).to_numpy()
        check(got, audio.pad(put(x), 7, 9, mode=mode).to_numpy())
    for mode in ("nearest", "linear"):
        got = audio.interpolate(put(x, device), 233, mode=mode).to_numpy()
        check(got, audio.interpolate(put(x), 233, mode=mode).to_numpy())
    tone = np.sin(np.arange(16_000) * 2 * np.pi * 220 / 16_000).astype(np.float32)
    got = audio.yin(put(tone, device), 16_000, lowest=80, highest=800).to_numpy()
    check(got, audio.yin(put(tone), 16_000, lowest=80, highest=800).to_numpy())
