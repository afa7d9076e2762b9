"""Fourier transforms, frames and filters against NumPy and SciPy in double precision, thread by thread on the host."""

import functools
import math

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Kernel

Floats = npt.NDArray[np.float32]
Complex = npt.NDArray[np.complex64]

RANDOM = np.random.default_rng(5)
FORMS = {"complex": 0, "real": 1, "half": 2, "real pair": 3, "half pair": 4}


@functools.cache
def stages(length: int) -> tuple[int, ...] | None:
    """The fewest radices of a length, of the least sum."""
    if length == 1:
        return ()
    found = [
        (*rest, radix) for radix in (2, 3, 4, 5, 7, 8, 9, 10, 12, 14, 15, 16, 20, 21, 25)
        if length % radix == 0 and (rest := stages(length // radix)) is not None
    ]  # fmt: skip
    return min(found, key=lambda radices: (len(radices), sum(radices)), default=None)


def plan(length: int, transforms: int) -> tuple[dict[str, object], int]:
    """Options, and bytes of shared memory."""
    radices = stages(length) or (1,)
    threads = min(1024, 32 * -(-transforms * length // max(radices) // 32))
    pitch = length + length // radices[0] | 1
    roots = sum(math.prod(radices[: count + 1]) for count in range(1, len(radices)))
    digits = int("".join(f"{radix:02}" for radix in reversed(radices)))
    options: dict[str, object] = {
        "LENGTH": length, "RADICES": digits, "TRANSFORMS": transforms, "THREADS": max(threads, 32),
        "CTAS_PER_SM": 1,
    }  # fmt: skip
    return options, 8 * (transforms * pitch + roots)


def transform(
    x: npt.NDArray[np.generic], out: npt.NDArray[np.generic], length: int, count: int, *,
    load: str = "complex", store: str = "complex", swap: bool = False, transforms: int = 3,
    backward: bool = False, grid: int = 2,
) -> None:  # fmt: skip
    options, shared = plan(length, transforms)
    options |= {"LOAD": FORMS[load], "STORE": FORMS[store], "SWAP_LOAD": int(swap),
                "SWAP_STORE": int(swap), "ACROSS": 0, "ROTATE": 0}  # fmt: skip
    zero = np.int64(0)
    Kernel("fourier.cu", **options)(
        grid, int(str(options["THREADS"])), x, out, count, length, zero, length, 1, zero, length, 1,
        1 / length if swap else 1.0, shared=shared, late=[x], backward=backward,
    )  # fmt: skip


def noise(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape).astype(np.float32)


def complex_noise(*shape: int) -> Complex:
    return (noise(*shape) + 1j * noise(*shape)).astype(np.complex64)


def check(got: npt.NDArray[np.generic], expected: npt.NDArray[np.generic]) -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 * float(np.abs(expected).max()))


def check_complex(length: int, rows: int, *, inverse: bool, backward: bool = False) -> None:
    x, out = complex_noise(rows, length), np.full((rows, length), np.nan, np.complex64)
    transform(x, out, length, rows, swap=inverse, backward=backward)
    exact = x.astype(np.complex128)
    check(out, np.fft.ifft(exact) if inverse else np.fft.fft(exact))


def check_pairs(length: int, rows: int) -> None:
    x, out = noise(rows, length), np.full((rows, length // 2 + 1), np.nan, np.complex64)
    transform(x, out, length, rows, load="real pair", store="half pair")
    check(out, np.fft.rfft(x.astype(float)))
    # Imaginary parts that a real signal has not are left out, as by NumPy.
    half, back = complex_noise(rows, length // 2 + 1), np.full((rows, length), np.nan, np.float32)
    transform(half, back, length, rows, load="half pair", store="real pair", swap=True)
    check(back, np.fft.irfft(half.astype(np.complex128), length))


def test_pairs_of_rows() -> None:
    check_pairs(20, 5)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 9, 30, 49, 64, 100, 400, 441, 1024])
def test_rows(length: int) -> None:
    for inverse in (False, True):
        check_complex(length, 7, inverse=inverse, backward=inverse)
    check_pairs(length, 5)
    check_pairs(length, 4)


def long_transform(x: npt.NDArray[np.generic], kind: str, first: int, second: int) -> Complex:
    """Two passes over a row of first * second elements."""
    total, rows = first * second, len(x)
    middle = np.full((rows, total), np.nan, np.complex64)
    zero = np.int64(total)
    load, store = {"fft": ("complex",) * 2, "rfft": ("real", "half"), "irfft": ("half", "real")}[
        kind
    ]
    swap = int(kind == "irfft")
    counts = {"complex": total, "half": total // 2 + 1, "real": total}
    out = np.full((rows, counts[store]), np.nan, np.float32 if store == "real" else np.complex64)
    for length, other, data, target, options in (
        (first, second, x, middle, {"LOAD": FORMS[load], "STORE": 0, "SWAP_LOAD": swap,
                                    "SWAP_STORE": 0, "ACROSS": 1, "ROTATE": 1}),
        (second, first, middle, out, {"LOAD": 0, "STORE": FORMS[store], "SWAP_LOAD": 0,
                                      "SWAP_STORE": swap, "ACROSS": 2, "ROTATE": 0}),
    ):  # fmt: skip
        planned, shared = plan(length, 4)
        is_first = data is x
        Kernel("fourier.cu", **planned, **options)(
            (2, rows), int(str(planned["THREADS"])), data, target, other, total,
            np.int64(counts[load]) if is_first else zero, 1, other,
            zero if is_first else np.int64(counts[store]), *((length, 1) if is_first else (1, other)),
            1 / total if swap and not is_first else 1.0, shared=shared,
        )  # fmt: skip
    return out


@pytest.mark.slow
def test_long_rows_take_two_passes() -> None:
    for first, second in ((8, 6), (15, 32), (32, 25)):
        total = first * second
        x = complex_noise(2, total)
        check(long_transform(x, "fft", first, second), np.fft.fft(x.astype(np.complex128)))
        real = noise(2, total)
        check(long_transform(real, "rfft", first, second), np.fft.rfft(real.astype(float)))
        half = complex_noise(2, total // 2 + 1)
        expected = np.fft.irfft(half.astype(np.complex128), total)
        check(long_transform(half, "irfft", first, second), expected)


def bluestein(x: npt.NDArray[np.generic], length: int, kind: str) -> npt.NDArray[np.generic]:
    padded = 1 << math.ceil(math.log2(2 * length - 1)) if length > 1 else 1
    rows = len(x)
    load = {"fft": 0, "ifft": 0, "rfft": 1, "irfft": 2}[kind]
    store = {"fft": 0, "ifft": 0, "rfft": 2, "irfft": 1}[kind]
    swap = int(kind in ("ifft", "irfft"))
    columns = length // 2 + 1 if store == 2 else length
    out = np.full((rows, columns), np.nan, np.float32 if store == 1 else np.complex64)
    spectrum = np.full((1, padded), np.nan, np.complex64)
    work, product, back = (np.full((rows, padded), np.nan, np.complex64) for _ in range(3))

    def part(
        number: int, data: npt.NDArray[np.generic] | None, filter: Complex | None,
        target: npt.NDArray[np.generic], scale: float = 1.0,
    ) -> None:  # fmt: skip
        kernel = Kernel("chirp.cu", PART=number, LOAD=load, STORE=store, SWAP=swap)
        kernel((-(-padded // 32), 1 if number == 0 else rows), 32, data, filter, target, length,
               padded, scale)  # fmt: skip

    wave = np.full((1, padded), np.nan, np.complex64)
    part(0, None, None, wave)
    transform(wave, spectrum, padded, 1)
    part(1, x, None, work)
    transform(work, back, padded, rows)
    part(2, back, spectrum, product)
    transform(product, work, padded, rows)
    part(3, work, None, out, (1 / length if swap else 1.0) / padded)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 11, 17, 22, 97])
def test_any_length(length: int) -> None:
    x, real, half = complex_noise(2, length), noise(2, length), complex_noise(2, length // 2 + 1)
    exact = x.astype(np.complex128)
    check(bluestein(x, length, "fft"), np.fft.fft(exact))
    check(bluestein(x, length, "ifft"), np.fft.ifft(exact))
    check(bluestein(real, length, "rfft"), np.fft.rfft(real.astype(float)))
    expected = np.fft.irfft(half.astype(np.complex128), length)
    check(bluestein(half, length, "irfft"), expected)


def frames_of(
    x: Floats, length: int, hop: int, padding: int, reflect: bool
) -> npt.NDArray[np.float64]:
    padded = np.pad(
        x.astype(float), ((0, 0), (padding, padding)), "reflect" if reflect else "constant"
    )
    windows = np.lib.stride_tricks.sliding_window_view(padded, length, axis=-1)
    return windows[:, ::hop]


def check_stft(
    length: int, hop: int, samples: int, *, reflect: bool, value: int, apart: bool
) -> None:
    x, window = noise(2, samples), noise(length)
    padding = length // 2
    frames = frames_of(x, length, hop, padding, reflect)
    count = frames.shape[1]
    expected: npt.NDArray[np.generic] = np.fft.rfft(frames * window.astype(float)).swapaxes(1, 2)
    expected = (expected, np.abs(expected), np.square(np.abs(expected)))[value]
    out = np.full(expected.shape, np.nan, np.complex64 if value == 0 else np.float32)
    choice = {"REFLECT": int(reflect), "VALUE": value}
    if not apart:
        options, shared = plan(length, 4)
        kernel = Kernel("stft.cu", **options, **choice)
        kernel((2, 2), int(str(options["THREADS"])), x, window, out, samples, hop, count, padding,
               shared=shared, late=[x])  # fmt: skip
        check(out, expected)
        return
    for signal, target in zip(x, out, strict=True):
        for first in range(0, count, 4):
            some = min(4, count - first)
            rows = np.full((some, length), np.nan, np.float32)
            numbers = (samples, length, hop, first, some, count, padding)
            kernel = Kernel("stft_step.cu", PART=0, **choice)
            kernel((-(-length // 32), some), 32, np.array(signal), window, rows, *numbers)
            spectra = np.fft.rfft(rows).astype(np.complex64)
            kernel = Kernel("stft_step.cu", PART=1, **choice)
            kernel((1, length // 2 + 1), 32, spectra, window, target, *numbers)
    check(out, expected)


def test_stft() -> None:
    check_stft(20, 5, 83, reflect=True, value=0, apart=False)


@pytest.mark.slow
@pytest.mark.parametrize("value", [0, 1, 2])
@pytest.mark.parametrize("apart", [False, True])
def test_all_stfts(value: int, apart: bool) -> None:
    check_stft(400, 160, 1700, reflect=False, value=value, apart=apart)
    check_stft(15, 4, 60, reflect=True, value=value, apart=apart)
    check_stft(1, 1, 5, reflect=True, value=value, apart=apart)
    check_stft(16, 40, 200, reflect=True, value=value, apart=apart)


@pytest.mark.slow
@pytest.mark.parametrize(("hop", "first"), [(4, 8), (16, 0), (20, 3), (1, 0)])
def test_overlap_add(hop: int, first: int) -> None:
    frames, window = noise(2, 6, 16), noise(16)
    window[3] = 0
    whole = np.zeros((2, 16 + 5 * hop + 40))
    weights = np.zeros(whole.shape[1])
    for index in range(6):
        whole[:, index * hop : index * hop + 16] += frames[:, index] * window
        weights[index * hop : index * hop + 16] += np.square(window.astype(float))
    expected = whole / np.where(weights > 1e-11, weights, 1.0)
    samples = 16 + 5 * hop + 7
    out = np.full((2, samples), np.nan, np.float32)
    Kernel("overlap_add.cu")((-(-samples // 32), 2), 32, frames, window, out, 6, 16, hop, first,
                             samples, 1e-11)  # fmt: skip
    check(out, expected[:, first : first + samples])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("up", "down", "taps"), [(1, 1, 1), (3, 2, 41), (2, 7, 141), (160, 441, 21)]
)
def test_resample(up: int, down: int, taps: int) -> None:
    signal = pytest.importorskip("scipy.signal")
    x, filter = noise(2, 50), noise(taps)
    raised = signal.upfirdn(filter.astype(float), x.astype(float), up=up)
    outputs = -(-50 * up // down) + 3
    first = taps // 2
    places = first + down * np.arange(outputs)
    expected = np.where(
        places < raised.shape[1], raised[:, np.minimum(places, raised.shape[1] - 1)], 0
    )
    out = np.full((2, outputs), np.nan, np.float32)
    Kernel("resample.cu")((-(-outputs // 32), 2), 32, x, filter, out, 50, taps, up, down, first,
                          outputs)  # fmt: skip
    check(out, expected)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("samples", [1, 5, 64, 200])
def test_recursive_filter(order: int, samples: int) -> None:
    signal = pytest.importorskip("scipy.signal")
    b, a = (part.astype(np.float32) * 2 for part in signal.butter(order, 0.3))
    x, state = noise(2, samples), noise(2, order)
    expected, last = signal.lfilter(
        b.astype(float), a.astype(float), x.astype(float), zi=state.astype(float)
    )
    out = np.full((2, samples), np.nan, np.float32)
    kernel = Kernel("recursive_filter.cu", ORDER=order, THREADS=64)
    kernel(2, 64, x, b, a, state, out, samples, shared=8 * order * (64 + order), late=[x])
    check(out, expected)
    np.testing.assert_allclose(state, last, rtol=0, atol=2e-6 * (1 + float(np.abs(last).max())))
