"""Sampling and penalties against NumPy, with the numbers drawn written out again here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy_operations import upload

from assay import ops, xp
from assay.errors import DeviceError, DTypeError, ShapeError
from assay.runtime import Device

MASK = (1 << 64) - 1


def uniform(seed: int, step: int) -> float:
    """SplitMix64's output number `step`, as a number from 0 to below 1."""
    mixed = (seed + (step + 1) * 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return ((mixed ^ (mixed >> 31)) >> 11) / 2**53


def choose(
    logits: Any, temperature: float, top_k: int, top_p: float, min_p: float, u: float
) -> int:
    """Temperature, min-p, top-k, top-p, then the token whose share the number falls into."""
    if temperature == 0:
        return int(np.argmax(logits))
    weights = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    tokens = np.flatnonzero(weights >= min_p)
    if top_k or top_p < 1:
        tokens = tokens[np.lexsort((tokens, -weights[tokens]))]
        tokens = tokens[: top_k or None]
        sums = np.cumsum(weights[tokens])
        tokens = tokens[: int(np.searchsorted(sums, top_p * sums[-1])) + 1]
    sums = np.cumsum(weights[tokens])
    return int(tokens[min(int(np.searchsorted(sums, u * sums[-1], "right")), len(tokens) - 1)])


SETTINGS = [
    (0.0, 0, 1.0, 0.0),
    (1.0, 0, 1.0, 0.0),
    (0.7, 5, 1.0, 0.0),
    (1.3, 0, 0.9, 0.0),
    (1.0, 0, 1.0, 0.05),
    (0.8, 40, 0.95, 0.02),
    (2.0, 1, 1.0, 0.0),
    (5.0, 0, 0.999, 0.0),
    (1.0, 10_000_000, 0.5, 0.0),
]


@pytest.mark.parametrize("columns", [1, 3, 100, 5003])
@pytest.mark.parametrize("seeds", [np.int32, np.int64])
def test_sampling_parameters_are_per_row(columns: int, seeds: Any) -> None:
    rng = np.random.default_rng(columns)
    rows = 3 * len(SETTINGS)
    logits = 4 * rng.standard_normal((rows, columns)).astype(np.float32)
    settings = (SETTINGS * 3)[:rows]
    numbers = rng.integers(0, 2**31, rows)
    steps = rng.integers(0, 1000, rows)
    logprobs = upload(np.zeros(rows, np.float32))
    tokens = ops.sample(
        upload(logits),
        *(upload([each[at] for each in settings], kind) for at, kind in enumerate(("f4", "i4", "f4", "f4"))),
        upload(numbers, seeds),
        upload(steps, np.int32),
        logprobs_out=logprobs,
    ).to_numpy()  # fmt: skip
    agreed = 0
    for row in range(rows):
        wanted = choose(logits[row], *settings[row], uniform(int(numbers[row]), int(steps[row])))
        agreed += int(tokens[row] == wanted)
        own = logits[row].astype(np.float64)
        log = own - own.max() - np.log(np.exp(own - own.max()).sum())
        assert abs(logprobs.to_numpy()[row] - log[tokens[row]]) < 1e-5
    # A number may fall within rounding of a border.
    assert agreed >= rows - 1


def test_greedy_takes_the_first_maximum_and_skips_nan() -> None:
    logits = np.array(
        [[1, 7, 7, 2], [np.nan, -5, np.nan, -6], [-np.inf, -np.inf, 3, 1]], np.float32
    )
    zeros, ones = np.zeros(3), np.ones(3)
    tokens = ops.sample(
        upload(logits), upload(zeros, "f4"), upload(zeros, "i4"), upload(ones, "f4"), upload(zeros, "f4"),
        upload(zeros, "i8"), upload(zeros, "i4"),
    )  # fmt: skip
    assert tokens.to_numpy().tolist() == [1, 1, 2]


def test_frequencies_follow_the_probabilities() -> None:
    rows = 20_000
    logits = np.tile(np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32)), (rows, 1))
    zeros, ones = np.zeros(rows), np.ones(rows)
    tokens = ops.sample(
        upload(logits), upload(ones, "f4"), upload(zeros, "i4"), upload(ones, "f4"), upload(zeros, "f4"),
        upload(np.full(rows, 11), "i8"), upload(np.arange(rows), "i4"),
    ).to_numpy()  # fmt: skip
    shares = np.bincount(tokens, minlength=4) / rows
    # Five standard deviations of the largest share.
    assert np.abs(shares - [0.5, 0.3, 0.15, 0.05]).max() < 5 * np.sqrt(0.25 / rows)


@pytest.mark.parametrize(
    "setting",
    [(-1, 0, 1, 0), (1, -1, 1, 0), (1, 0, 0, 0), (1, 0, 1.1, 0), (1, 0, 1, 2), (np.nan, 0, 1, 0)],
)
def test_sampling_parameters_out_of_range_fail_only_their_call(setting: tuple[float, ...]) -> None:
    own = Device("cpu")
    kinds = (xp.float32, xp.int32, xp.float32, xp.float32)
    given = [
        xp.asarray([value], dtype=kind, device=own)
        for value, kind in zip(setting, kinds, strict=True)
    ]
    zero = xp.zeros((1,), dtype=xp.int32, device=own)
    logits = xp.ones((1, 3), dtype=xp.float32, device=own)
    with pytest.raises(DeviceError, match=r'"sample" failed on stream 0: .* expected'):
        ops.sample(logits, *given, zero, zero)
    own.synchronize()
    assert float(xp.sum(logits)) == 3.0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_sampling_a_row_of_nan_gives_no_token(temperature: float) -> None:
    logits = np.full((3, 300), np.nan, np.float32)
    logits[1, 217] = -3.0
    given = [
        upload(np.full(3, value), kind)
        for value, kind in (
            (temperature, np.float32),
            (0, np.int32),
            (1, np.float32),
            (0, np.float32),
        )
    ]
    zeros = upload(np.zeros(3), np.int32)
    logprobs = upload(np.zeros(3), np.float32)
    tokens = ops.sample(upload(logits), *given, zeros, zeros, logprobs_out=logprobs)
    assert tokens.to_numpy().tolist() == [-1, 217, -1]
    np.testing.assert_array_equal(logprobs.to_numpy(), np.float32([np.nan, 0, np.nan]))


@pytest.mark.parametrize("masked", [True, False])
def test_penalties(masked: bool) -> None:
    rng = np.random.default_rng(2)
    logits = rng.standard_normal((3, 50)).astype(np.float32)
    counts = rng.integers(0, 3, (3, 50)).astype(np.int32)
    mask = rng.integers(0, 2, (3, 50)).astype(np.uint8)
    repetition, presence, frequency = (
        np.array(each, np.float32) for each in ([1.3, 1.0, 0.8], [0.5, 0.0, -0.2], [0.1, 0.0, 0.4])
    )
    out = ops.penalize(
        upload(logits), upload(counts), upload(mask) if masked else None, upload(repetition), upload(presence),
        upload(frequency),
    ).to_numpy()  # fmt: skip
    seen = (counts > 0) | ((mask > 0) & masked)
    factor = repetition[:, None]
    wanted = np.where(seen, np.where(logits > 0, logits / factor, logits * factor), logits)
    wanted -= np.where(counts > 0, presence[:, None] + frequency[:, None] * counts, 0)
    assert np.abs(out - wanted).max() < 1e-6


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 32), (2, 1001), (0, 64)])
def test_masked_logits_are_minus_infinity_and_others_untouched(rows: int, columns: int) -> None:
    random = np.random.default_rng(rows)
    logits = random.standard_normal((rows, columns)).astype(np.float32)
    allowed = random.random((rows, columns)) < 0.5
    allowed[:, 32:64], allowed[:, 64:96] = True, False
    words = np.full((rows, -(-columns // 32) * 4), 0xFF, np.uint8)
    packed = np.packbits(allowed, axis=1, bitorder="little")
    words[:, : packed.shape[1]] = packed
    out = ops.mask_logits(upload(logits), upload(words.view(np.int32))).to_numpy()
    np.testing.assert_array_equal(out, np.where(allowed, logits, -np.inf))


def test_invalid_arguments_are_named() -> None:
    logits = upload(np.ones((2, 3), np.float32))
    floats, numbers = upload([1, 1], "f4"), upload([0, 0], "i4")
    with pytest.raises(ShapeError, match="temperature of shape"):
        ops.sample(logits, upload([1], "f4"), numbers, floats, floats, numbers, numbers)
    with pytest.raises(DTypeError, match="top_k of int32"):
        ops.sample(logits, floats, floats, floats, floats, numbers, numbers)
    with pytest.raises(DTypeError, match="seeds of int64 or int32"):
        ops.sample(logits, floats, numbers, floats, floats, floats, numbers)
    with pytest.raises(ShapeError, match="counts of shape"):
        ops.penalize(logits, upload([[1]], "i4"), None, floats, floats, floats)
    with pytest.raises(ShapeError, match="allowed of shape"):
        ops.mask_logits(logits, upload([[1, 1], [1, 1]], "i4"))
