"""Fused layers over pairs of residues against double precision, run thread by thread on the host."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Changes, Kernel, KernelError, from_bf16, random_bf16

Values = npt.NDArray[np.float64]
EPSILON = 1e-5
BF16_ERROR = 3 * 2.0**-8
"""Of the largest value: norms, gated sums and results are each rounded to bf16."""


def layer_norm(x: Values, weight: Values, bias: Values) -> Values:
    """Over the last axis."""
    centered = x - x.mean(axis=-1, keepdims=True)
    scaled: Values = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
    return scaled * weight + bias


def sigmoid(x: Values) -> Values:
    """The logistic function."""
    value: Values = 1 / (1 + np.exp(-x))
    return value


def assert_close(got: npt.NDArray[np.uint16], expected: Values) -> None:
    __tracebackhide__ = True
    tolerance = BF16_ERROR * np.abs(expected).max()
    np.testing.assert_allclose(from_bf16(got), expected, rtol=0, atol=tolerance)


def numbers(seed: int, *shape: int, scale: float = 1.0) -> tuple[npt.NDArray[np.uint16], Values]:
    """Random bfloat16 numbers as bits, and their values."""
    bits = random_bf16(seed, *shape, scale=scale)
    return bits, from_bf16(bits)


def project(
    *,
    inputs: int,
    tile: int,
    gated: int,
    transposed: int,
    outputs: int = 64,
    stages: int = 3,
    groups: int = 0,
    changes: Changes = (),
    **order: bool,
) -> None:
    """Hold the projections of a last tile that is not full; with `groups` those of Hopper."""
    batch, rows, columns = 2, 6, 12 * (tile // 64)
    kernel = Kernel(
        "channel_projection_hopper.cu" if groups else "channel_projection.cu",
        ELEMENT="bf16", INPUTS=inputs, TILE_PLACES=tile, STAGES=stages, GATED=gated, TRANSPOSED=transposed,
        CTAS_PER_SM=1, changes=changes, **({"GROUPS": groups} if groups else {}),
    )  # fmt: skip
    places = rows * columns
    shared = tile * (2 * inputs + 16) + stages * (1 + gated) * 64 * 144 + 64 * (2 * tile + 16)
    if groups:
        shared = tile * 2 * inputs + stages * (1 + gated) * 128 // groups * 128 + 1024
    hold_projections(
        kernel, (-(-places // tile), batch), 256, shared, (batch, rows, columns), outputs,
        inputs=inputs, outputs=outputs, gated=gated, transposed=transposed, **order,
    )  # fmt: skip


def hold_projections(
    kernel: Kernel,
    grid: int | tuple[int, ...],
    threads: int,
    shared: int,
    shape: tuple[int, int, int],
    last: int,
    *,
    inputs: int,
    outputs: int,
    gated: int,
    transposed: int,
    **order: bool,
) -> None:
    """Hold what a kernel of projections writes, whose last integer argument is `last`."""
    batch, rows, columns = shape
    x, x_values = numbers(1, batch, rows, columns, inputs, scale=3.0)
    norm, norm_values = numbers(2, 2, inputs)
    weights, weight_values = numbers(3, 2, outputs, inputs, scale=inputs**-0.5)
    mask, mask_values = numbers(4, batch, rows, columns)
    places = rows * columns
    out = np.full((batch, outputs, places), 0x7FFF, np.uint16)
    operands = [norm[0].copy(), norm[1].copy(), weights[0].copy()]
    gates = weights[1].copy() if gated else None
    kernel(
        grid, threads, x, *operands, gates, mask, out, rows, columns, last, EPSILON,
        # Weights are arrays of the caller, who may have just converted them.
        shared=shared, late=[x, mask, *operands, *([] if gates is None else [gates])], **order,
    )  # fmt: skip
    normed = layer_norm(x_values, norm_values[0], norm_values[1])
    expected = normed @ weight_values[0].T * mask_values[..., None]
    if gated:
        expected = expected * sigmoid(normed @ weight_values[1].T)
    if transposed:
        expected = expected.swapaxes(1, 2)
    assert_close(out, expected.reshape(batch, places, outputs).swapaxes(1, 2))


ORDERS = [{"backward": False}, {"backward": True, "early_copies": True}]
"""Products of warpgroups read shared memory at once where copies are late, and late where copies are early."""


@pytest.mark.parametrize(
    ("inputs", "tile", "gated", "transposed"),
    [(64, 64, 1, 1), (192, 64, 0, 0), pytest.param(128, 128, 1, 0, marks=pytest.mark.slow)],
)
def test_projections_are_written_channel_by_channel(
    inputs: int, tile: int, gated: int, transposed: int
) -> None:
    order = {"backward": bool(transposed), "early_copies": bool(transposed)}
    project(inputs=inputs, tile=tile, gated=gated, transposed=transposed, **order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("inputs", "tile", "groups", "stages", "gated", "outputs"),
    [
        (128, 64, 1, 2, 1, 128),
        pytest.param(192, 64, 1, 4, 0, 256, marks=pytest.mark.slow),
        pytest.param(128, 128, 2, 4, 1, 128, marks=pytest.mark.slow),
        pytest.param(384, 128, 1, 4, 1, 256, marks=pytest.mark.slow),
        pytest.param(128, 128, 2, 3, 0, 64, marks=pytest.mark.slow),
    ],
)
def test_projections_by_warpgroups(
    inputs: int,
    tile: int,
    groups: int,
    stages: int,
    gated: int,
    outputs: int,
    order: dict[str, bool],
) -> None:
    project(
        inputs=inputs, tile=tile, gated=gated, transposed=gated, outputs=outputs, stages=stages, groups=groups,
        **order,
    )  # fmt: skip


PERSISTENT = "channel_projection_persistent.cu"


def project_persistently(
    *,
    inputs: int = 64,
    outputs: int = 256,
    gated: int,
    transposed: int,
    changes: Changes = (),
    **order: bool,
) -> None:
    """Two CTAs with three tiles each, of two samples: more than the stages that they have."""
    kernel = Kernel(
        PERSISTENT, ELEMENT="bf16", INPUTS=inputs, OUTPUTS=outputs, GATED=gated, TRANSPOSED=transposed,
        changes=changes,
    )  # fmt: skip
    shared = 2 * inputs * ((1 + gated) * outputs + 256) + 1024
    hold_projections(
        kernel, 2, 384, shared, (2, 12, 26), 2,
        inputs=inputs, outputs=outputs, gated=gated, transposed=transposed, **order,
    )  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("inputs", "outputs", "gated"),
    [
        (64, 256, 1),
        pytest.param(128, 256, 1, marks=pytest.mark.slow),
        pytest.param(128, 128, 0, marks=pytest.mark.slow),
    ],
)
def test_projections_by_persistent_ctas(
    inputs: int, outputs: int, gated: int, order: dict[str, bool]
) -> None:
    project_persistently(inputs=inputs, outputs=outputs, gated=gated, transposed=gated, **order)


@pytest.mark.parametrize(
    ("right", "wrong", "backward"),
    [
        # A tile is overwritten before it was read, or read before it was written.
        ("mbarrier_wait(empty(state.index), state.phase ^ 1);", "", False),
        ("mbarrier_wait(full(state.index), state.phase);", "", True),
    ],
)
def test_tiles_replaced_too_early_or_read_too_early_are_seen(
    right: str, wrong: str, backward: bool
) -> None:
    with pytest.raises((AssertionError, KernelError)):
        # Many channels, so that the warpgroup that writes tiles is ahead of those that read them.
        project_persistently(
            outputs=512, gated=0, transposed=0, changes=((PERSISTENT, right, wrong),), backward=backward,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "early_copies"),
    [
        ("AHEAD = STAGES - 1 - RUNNING;", "AHEAD = STAGES - 1;", True),
        ("cp_async_wait<AHEAD - 1>();", "cp_async_wait<AHEAD>();", False),
    ],
)
def test_slices_replaced_too_early_or_read_too_early_are_seen(
    right: str, wrong: str, early_copies: bool
) -> None:
    with pytest.raises(AssertionError):
        project(
            inputs=192, tile=64, gated=0, transposed=0, outputs=256, stages=3, groups=1,
            changes=(("channel_projection_hopper.cu", right, wrong),), early_copies=early_copies,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("channels", "tile", "residual"),
    [(128, 64, 1), pytest.param(256, 128, 0, marks=pytest.mark.slow)],
)
def test_pairs_are_updated_by_their_sums(channels: int, tile: int, residual: int) -> None:
    update(channels=channels, tile=tile, residual=residual, stages=2, backward=bool(residual))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("channels", "hidden", "tile", "residual", "stages"),
    [
        (256, 128, 64, 0, 4),
        pytest.param(128, 128, 64, 1, 2, marks=pytest.mark.slow),
        pytest.param(128, 128, 128, 0, 2, marks=pytest.mark.slow),
        pytest.param(256, 256, 128, 1, 3, marks=pytest.mark.slow),
    ],
)
def test_pairs_are_updated_by_warpgroups(
    channels: int, hidden: int, tile: int, residual: int, stages: int, order: dict[str, bool]
) -> None:
    update(
        channels=channels, hidden=hidden, tile=tile, residual=residual, stages=stages, hopper=True, **order
    )  # fmt: skip


def update(
    *,
    channels: int,
    tile: int,
    residual: int,
    stages: int,
    hidden: int = 128,
    hopper: bool = False,
    **order: bool,
) -> None:
    """Hold the updates of a last tile that is not full."""
    places = 72 * (tile // 64)
    kernel = Kernel(
        "triangle_update_hopper.cu" if hopper else "triangle_update.cu",
        ELEMENT="bf16", HIDDEN=hidden, CHANNELS=channels, TILE_PLACES=tile, STAGES=stages, RESIDUAL=residual,
        CTAS_PER_SM=1,
    )  # fmt: skip
    ring = max(stages * 128 * (128 if hopper else 144), hidden * (2 * tile + 16))
    shared = tile * (2 * channels + 2 * hidden) + (1024 if hopper else 32 * tile) + ring
    hold_updates(
        kernel, (-(-places // tile), 2), 256, shared, (places,), places,
        channels=channels, hidden=hidden, residual=residual, **order,
    )  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("residual", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_pairs_are_updated_by_persistent_ctas(residual: int, order: dict[str, bool]) -> None:
    places = 312  # Two CTAs with three tiles each, the last of a sample not full.
    kernel = Kernel("triangle_update_persistent.cu", ELEMENT="bf16", RESIDUAL=residual)
    shared = 65536 + 2 * (32768 + 128 * 272) + 1024
    hold_updates(
        kernel, 2, 384, shared, (places, 2), places,
        channels=128, hidden=128, residual=residual, **order,
    )  # fmt: skip


def hold_updates(
    kernel: Kernel,
    grid: int | tuple[int, ...],
    threads: int,
    shared: int,
    extents: tuple[int, ...],
    places: int,
    *,
    channels: int,
    hidden: int,
    residual: int,
    **order: bool,
) -> None:
    """Hold what a kernel of updates writes for two samples, whose integer arguments are `extents`."""
    batch = 2
    sums, sum_values = numbers(5, batch, hidden, places, scale=9.0)
    pairs, pair_values = numbers(6, batch, places, channels)
    sum_norm, sum_norm_values = numbers(7, 2, hidden)
    pair_norm, pair_norm_values = numbers(8, 2, channels)
    gates, gate_values = numbers(9, hidden, channels, scale=channels**-0.5)
    weights, weight_values = numbers(10, channels, hidden, scale=hidden**-0.5)
    out = np.full((batch, places, channels), 0x7FFF, np.uint16)
    operands: list[Any] = [
        array.copy()
        for array in (sum_norm[0], sum_norm[1], pair_norm[0], pair_norm[1], gates, weights)
    ]
    kernel(
        grid, threads, sums, pairs, *operands, out, *extents, EPSILON,
        shared=shared, late=[sums, pairs, *operands], **order,
    )  # fmt: skip
    normed = layer_norm(sum_values.swapaxes(1, 2), sum_norm_values[0], sum_norm_values[1])
    gate = sigmoid(
        layer_norm(pair_values, pair_norm_values[0], pair_norm_values[1]) @ gate_values.T
    )
    expected = (normed * gate) @ weight_values.T + residual * pair_values
    assert_close(out, expected)
