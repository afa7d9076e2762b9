"""The fused kernels of a mixture of experts against NumPy, from inputs rounded to bf16."""

import functools
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from assay import ops, xp
from assay.engine.loading.dequantize import dequantize as dequantize_blocks
from assay.runtime import Array, Device, cuda
from assay.runtime.rounding import narrow

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu

Values = npt.NDArray[np.float32]
RANDOM = np.random.default_rng(11)
TOLERANCE = 1.2e-2
"""Of the largest value: sums of bf16 products, and a result rounded to bf16."""


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def upload(device: Device, *shape: int, scale: float = 1.0) -> tuple[Array, Values]:
    """Random values on the device, and as rounded to bf16."""
    values = RANDOM.standard_normal(shape, np.float32) * np.float32(scale)
    array = xp.asarray(values, dtype=xp.bfloat16, device=device)
    return array, read(array)


def read(array: Array) -> Values:
    stored = array.to_numpy()
    if array.dtype is xp.bfloat16:
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32)


def poisoned(device: Device, *shape: int, dtype: object = xp.bfloat16) -> Array:
    return xp.full(shape, float("nan"), dtype=dtype, device=device)


def upload_weights(
    device: Device, outputs: int, inputs: int, scale: float | None = None
) -> tuple[ops.Weights, Values]:
    """Random weights that keep the variance of what they multiply."""
    rounded = narrow(
        RANDOM.standard_normal((outputs, inputs), np.float32) * np.float32(scale or inputs**-0.5)
    )
    values = (rounded.astype(np.uint32) << 16).view(np.float32)
    return ops.pack(rounded, "bf16", (outputs, inputs), device), values


@functools.lru_cache(maxsize=1)
def experts_of(
    device: Device, hidden: int, inner: int, experts: int
) -> tuple[ops.Weights, Values, ops.Weights, Values]:
    """The weights of gate and up, and of down, of every expert."""
    up, ups = upload_weights(device, experts * 2 * inner, hidden)
    down, downs = upload_weights(device, experts * hidden, inner)
    return (
        up, ups.reshape(experts, 2 * inner, hidden), down, downs.reshape(experts, hidden, inner),
    )  # fmt: skip


def silu(values: Values) -> Values:
    return values / (1 + np.exp(-values))


def chosen(logits: Values, top_k: int) -> tuple[npt.NDArray[np.int64], Values]:
    order = np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
    scores = np.exp(np.take_along_axis(logits, order, 1))
    return order, scores / scores.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("rows", [1, 3, 8, 17, 64])
@pytest.mark.parametrize(
    ("hidden", "experts", "top_k"),
    [(2048, 128, 8), (2880, 32, 4), (4096, 8, 2), (256, 4, 2), (256, 6, 3), (1024, 100, 5)],
)
def test_router_norms_and_chooses(
    device: Device, rows: int, hidden: int, experts: int, top_k: int
) -> None:
    x, x_values = upload(device, rows, hidden, scale=3.0)
    gain, gains = upload(device, hidden)
    matrix, weights = upload_weights(device, experts, hidden)
    bias, biases = upload(device, experts, scale=0.1)
    normed = poisoned(device, rows, hidden)
    out = xp.full((rows, top_k), -1, dtype=xp.int32, device=device)
    shares = poisoned(device, rows, top_k, dtype=xp.float32)
    ops.router(
        x,
        gain,
        matrix,
        top_k,
        epsilon=1e-6,
        router_bias=bias,
        normed=normed,
        logits=poisoned(device, rows, experts, dtype=xp.float32),
        experts_out=out,
        weights_out=shares,
    )
    expected = x_values / np.sqrt((x_values**2).mean(axis=1, keepdims=True) + 1e-6) * gains
    np.testing.assert_allclose(read(normed), expected, atol=TOLERANCE * np.abs(expected).max())
    logits = expected @ weights.T + biases
    order, expected_shares = chosen(logits, top_k)
    got = out.to_numpy()
    # Rounding may swap experts whose logits are almost equal.
    at_got = np.take_along_axis(logits, got.astype(np.int64), 1)
    at_best = np.take_along_axis(logits, order, 1)
    assert np.abs(at_got - at_best).max() < 0.05
    assert all(len(set(row)) == top_k for row in got)
    np.testing.assert_allclose(shares.to_numpy(), expected_shares, atol=0.02)


@pytest.mark.parametrize("sigmoid", [False, True])
def test_router_of_groups_agrees_with_route(device: Device, sigmoid: bool) -> None:
    rows, hidden, experts, top_k = 13, 512, 64, 6
    x, _ = upload(device, rows, hidden)
    gain, _ = upload(device, hidden)
    matrix, _ = upload_weights(device, experts, hidden)
    bias = xp.asarray(RANDOM.normal(size=experts).astype(np.float32) * 0.1, device=device)
    options = {"sigmoid": sigmoid, "groups": 8, "top_groups": 3, "top_two_groups": True}
    normed = poisoned(device, rows, hidden)
    logits = poisoned(device, rows, experts, dtype=xp.float32)
    out = xp.full((rows, top_k), -1, dtype=xp.int32, device=device)
    shares = poisoned(device, rows, top_k, dtype=xp.float32)
    ops.router(
        x, gain, matrix, top_k, epsilon=1e-6, choice_bias=bias, factor=2.5, normed=normed,
        logits=logits, experts_out=out, weights_out=shares, **options,
    )  # fmt: skip
    ops.linear(normed, matrix, out=logits)
    expected, expected_shares = ops.route(logits, top_k, bias=bias, factor=2.5, **options)
    assert (out.to_numpy() == expected.to_numpy()).mean() > 0.9
    # Rounding may swap experts whose ranks are almost equal, and with them their shares.
    same = out.to_numpy() == expected.to_numpy()
    got, wanted = shares.to_numpy(), expected_shares.to_numpy()
    np.testing.assert_allclose(got[same], wanted[same], atol=0.05)


def expert_choice(rows: int, top_k: int, experts: int) -> npt.NDArray[np.int32]:
    return np.array([RANDOM.permutation(experts)[:top_k] for _ in range(rows)], np.int32)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 4, 8, 33, 64, 100])
@pytest.mark.parametrize(
    ("hidden", "inner", "experts", "top_k"),
    [(2048, 768, 64, 8), (512, 256, 16, 2), (1024, 512, 8, 2)],
)
def test_experts_of_every_number_of_rows(
    device: Device, rows: int, hidden: int, inner: int, experts: int, top_k: int, biased: bool
) -> None:
    """Gate and up, then down and the weighted sum, by whichever kernels the rows take."""
    x, x_values = upload(device, rows, hidden)
    up, ups, down, downs = experts_of(device, hidden, inner, experts)
    up_bias, up_biases = upload(device, experts, 2 * inner)
    down_bias, down_biases = upload(device, experts, hidden)
    residual, residuals = upload(device, rows, hidden)
    shared, shared_values = upload(device, rows, hidden)
    choice = expert_choice(rows, top_k, experts)
    factors = RANDOM.random((rows, top_k)).astype(np.float32)
    on_device = xp.asarray(choice, device=device)
    intermediate = ops.grouped_linear(
        x, up, on_device, experts_count=experts, bias=up_bias if biased else None,
        activation="swiglu", out=poisoned(device, rows * top_k, inner),
    )  # fmt: skip
    expected = np.empty((rows * top_k, inner))
    for i, expert in enumerate(choice.flat):
        product = ups[expert] @ x_values[i // top_k]
        product += up_biases[expert] if biased else 0.0
        expected[i] = silu(product[:inner]) * product[inner:]
    got = read(intermediate)
    np.testing.assert_allclose(got, expected, atol=TOLERANCE * np.abs(expected).max())

    gates = RANDOM.normal(size=(rows, 1)).astype(np.float32)
    out = ops.combine_linear(
        intermediate, down, on_device, xp.asarray(factors, device=device),
        experts_count=experts, bias=down_bias if biased else None, residual=residual,
        shared=shared if biased else None,
        gates=xp.asarray(gates, device=device) if biased else None,
        expert_outputs=poisoned(device, rows * top_k, hidden), out=poisoned(device, rows, hidden),
        experts_ready=True,
    )  # fmt: skip
    total = residuals.copy()
    for i, expert in enumerate(choice.flat):
        product = downs[expert] @ got[i] + (down_biases[expert] if biased else 0.0)
        total[i // top_k] += factors.flat[i] * product
    if biased:
        total += shared_values / (1 + np.exp(-gates))
    np.testing.assert_allclose(read(out), total, atol=TOLERANCE * np.abs(total).max())


@pytest.mark.parametrize("rows", [40, 60])
def test_one_expert_of_all_tokens_takes_several_tiles(device: Device, rows: int) -> None:
    """Of the small-M kernel: more assignments than GEMV takes, few for so many experts."""
    experts, outputs = 32, 72
    known = device.capabilities
    assert known.grouped_gemv_max_assignments < rows <= known.grouped_small_m_max_rows * experts
    x, x_values = upload(device, rows, 512)
    matrix, weights = upload_weights(device, experts * outputs, 512)
    choice = np.full((rows, 1), 2, np.int32)
    choice[3] = 1
    got = ops.grouped_linear(
        x, matrix, xp.asarray(choice, device=device), experts_count=experts,
        out=poisoned(device, rows, outputs),
    )  # fmt: skip
    by_expert = weights.reshape(experts, outputs, 512)
    expected = np.array([by_expert[e] @ row for e, row in zip(choice[:, 0], x_values, strict=True)])
    np.testing.assert_allclose(read(got), expected, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize(
    ("outputs", "inputs", "activation"), [(1536, 2048, "swiglu"), (2048, 768, None)]
)
def test_runs_of_a_grouped_gemm_are_equal_bit_by_bit(
    device: Device, outputs: int, inputs: int, activation: str | None
) -> None:
    """Shapes of Qwen3-30B-A3B: CTAs that disagree about tiles, or copies that overtake reads, differ."""
    experts, rows, columns = 16, 64, outputs // 2 if activation else outputs
    x, x_values = upload(device, rows, inputs)
    matrix, weights = upload_weights(device, experts * outputs, inputs)
    choice = xp.asarray(np.arange(rows, dtype=np.int32)[:, None] // 20, device=device)

    def run() -> Values:
        return read(ops.grouped_linear(
            x, matrix, choice, experts_count=experts, activation=activation,
            out=poisoned(device, rows, columns),
        ))  # fmt: skip

    first = run()
    by_expert = weights.reshape(experts, outputs, inputs)
    expected = np.array([by_expert[i // 20] @ row for i, row in enumerate(x_values)])
    if activation:
        gates, ups = np.split(expected, 2, axis=1)
        expected = gates / (1 + np.exp(-gates)) * ups
    np.testing.assert_allclose(first, expected, atol=TOLERANCE * np.abs(expected).max())
    for _ in range(50):
        np.testing.assert_array_equal(run(), first)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("outputs", "inputs", "activation"),
    [(1536, 2048, "swiglu"), (2048, 768, None), (272, 64, "swiglu"), (136, 128, "gelu_tanh")],
)
def test_many_tokens_of_each_expert(
    device: Device, outputs: int, inputs: int, activation: str | None, biased: bool
) -> None:
    """Of the kernel of large tiles: experts of none, one, a tile and a row more, and most tokens."""
    experts, tokens, fan_out = 6, 700, 2
    gated = activation == "swiglu"
    counts = [0, 1, 128, 129, 300]
    places = np.repeat(np.arange(6), [*counts, tokens * fan_out - sum(counts)]).astype(np.int32)
    places = RANDOM.permutation(places).reshape(tokens, fan_out)
    x, x_values = upload(device, tokens, inputs, scale=inputs**-0.5)
    matrix, weights = upload_weights(device, experts * outputs, inputs)
    bias, bias_values = upload(device, experts, outputs)

    def run() -> Values:
        return read(ops.grouped_linear(
            x, matrix, xp.asarray(places, device=device), experts_count=experts, activation=activation,
            bias=bias if biased else None,
            out=poisoned(device, tokens * fan_out, outputs // 2 if gated else outputs),
        ))  # fmt: skip

    first = run()
    by_expert = weights.reshape(experts, outputs, inputs)
    expected = np.stack([
        by_expert[expert] @ x_values[i // fan_out] + biased * bias_values[expert]
        for i, expert in enumerate(places.flat)
    ])  # fmt: skip
    if gated:
        gates, ups = np.split(expected, 2, axis=1)
        expected = gates / (1 + np.exp(-gates)) * ups
    elif activation:
        inner = 0.7978845608 * (expected + 0.044715 * expected**3)
        expected = 0.5 * expected * (1 + np.tanh(inner))
    np.testing.assert_allclose(first, expected, atol=TOLERANCE * np.abs(expected).max())
    for _ in range(20):
        np.testing.assert_array_equal(run(), first)


def test_more_assignments_than_a_grid_has_rows_take_several_launches(device: Device) -> None:
    tokens, fan_out, inputs, outputs = 520, 128, 64, 16  # 66,560 assignments, beyond 65,535
    x, x_values = upload(device, tokens, inputs)
    dense = RANDOM.standard_normal((4 * outputs, inputs), np.float32)
    matrix = ops.pack(dense, "fp8", (4 * outputs, inputs), device)
    choice = RANDOM.integers(0, 4, (tokens, fan_out)).astype(np.int32)
    got = ops.grouped_linear(
        x, matrix, xp.asarray(choice, device=device), experts_count=4,
        out=poisoned(device, tokens * fan_out, outputs),
    )  # fmt: skip
    # Products with every expert, by one launch each.
    everywhere = np.stack([
        read(ops.grouped_linear(
            x, matrix, xp.asarray(np.full((tokens, 1), e, np.int32), device=device), experts_count=4
        ))
        for e in range(4)
    ])  # fmt: skip
    expected = everywhere[choice, np.arange(tokens)[:, None]]
    np.testing.assert_array_equal(read(got).reshape(expected.shape), expected)
    exact = np.einsum("eoi,ti->eto", dense.reshape(4, outputs, inputs), x_values)
    np.testing.assert_allclose(everywhere, exact, atol=0.06 * np.abs(exact).max())


@pytest.mark.parametrize("rows", [3, 9, 40, 300])
def test_padding_has_no_experts(device: Device, rows: int) -> None:
    """By whichever kernels the rows take: GEMV, small tiles, large tiles; a fused router or not."""
    hidden, inner, experts, top_k = 512, 256, 32, 4
    x, _ = upload(device, rows, hidden)
    gain, _ = upload(device, hidden)
    router, _ = upload_weights(device, experts, hidden)
    up, _, down, _ = experts_of(device, hidden, inner, experts)
    slots = np.arange(rows, dtype=np.int32)
    slots[[1, rows - 1]] = -1
    residual, residuals = upload(device, rows, hidden)

    def layer(slots: Array | None) -> tuple[npt.NDArray[np.int32], Values]:
        chosen = xp.full((rows, top_k), 7, dtype=xp.int32, device=device)
        shares = poisoned(device, rows, top_k, dtype=xp.float32)
        normed = poisoned(device, rows, hidden)
        ops.router(
            x, gain, router, top_k, epsilon=1e-6, slots=slots, normed=normed,
            logits=poisoned(device, rows, experts, dtype=xp.float32), experts_out=chosen,
            weights_out=shares,
        )  # fmt: skip
        inner_rows = ops.grouped_linear(
            normed, up, chosen, experts_count=experts, activation="swiglu",
            out=poisoned(device, rows * top_k, inner),
        )  # fmt: skip
        out = ops.combine_linear(
            inner_rows, down, chosen, shares, experts_count=experts, residual=residual,
            expert_outputs=poisoned(device, rows * top_k, hidden),
            out=poisoned(device, rows, hidden), experts_ready=True,
        )  # fmt: skip
        return chosen.to_numpy(), read(out)

    plain_experts, plain = layer(None)
    some_experts, some = layer(xp.asarray(slots, device=device))
    real = slots >= 0
    np.testing.assert_array_equal(some_experts[real], plain_experts[real])
    assert (some_experts[~real] == -1).all()
    np.testing.assert_array_equal(some[real], plain[real])
    np.testing.assert_array_equal(some[~real], residuals[~real])


def test_limits_of_zero_turn_the_kernels_off(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _ = upload(device, 6, 512)
    matrix, _ = upload_weights(device, 8 * 64, 512)
    choice = xp.asarray(expert_choice(6, 2, 8), device=device)

    def product() -> Values:
        return read(ops.grouped_linear(x, matrix, choice, experts_count=8))

    expected = product()
    without = replace(
        device.capabilities, grouped_gemv_max_assignments=0, grouped_small_m_max_rows=0
    )
    monkeypatch.setattr(device, "capabilities", without)
    np.testing.assert_allclose(product(), expected, atol=TOLERANCE * np.abs(expected).max())


def test_a_limit_of_zero_turns_large_tiles_off(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch-invariant product never takes them: without them the bits are its."""
    experts, tokens, inputs = 4, 300, 512
    x, _ = upload(device, tokens, inputs)
    matrix, _ = upload_weights(device, experts * 64, inputs)
    choice = xp.asarray(expert_choice(tokens, 2, experts), device=device)

    def product(*, batch_invariant: bool = False) -> Values:
        return read(
            ops.grouped_linear(
                x, matrix, choice, experts_count=experts, batch_invariant=batch_invariant
            )
        )

    expected = product(batch_invariant=True)
    np.testing.assert_allclose(product(), expected, atol=TOLERANCE * np.abs(expected).max())
    without = replace(device.capabilities, grouped_large_tile_min_rows=0)
    monkeypatch.setattr(device, "capabilities", without)
    np.testing.assert_array_equal(product(), expected)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("tokens", [3, 150, 700])
def test_experts_in_mxfp4_are_multiplied_as_stored(
    device: Device, tokens: int, gated: bool
) -> None:
    """By GEMV and by tiles, against NumPy; tiles have the bits of the same values in bf16, by the same kernel."""
    experts_count, outputs, inputs, fan_out = 5, 144, 2880, 2
    blocks = RANDOM.integers(0, 256, (experts_count * outputs, inputs // 32, 17), np.uint8)
    blocks[..., 0] = RANDOM.integers(116, 124, blocks.shape[:2])
    blocks = blocks.reshape(experts_count * outputs, -1)
    shape = (experts_count * outputs, inputs)
    values = dequantize_blocks(blocks, "mxfp4", shape)
    weights = ops.pack(blocks, "mxfp4", shape, device)
    dense = ops.pack(narrow(values), "bf16", shape, device)
    x, rows = upload(device, tokens, inputs, scale=inputs**-0.5)
    bias, biases = upload(device, experts_count, outputs)
    experts = RANDOM.integers(0, experts_count, (tokens, fan_out)).astype(np.int32)
    options = {
        "experts_count": experts_count,
        "bias": bias,
        "activation": "swiglu" if gated else None,
    }
    places = xp.asarray(experts, device=device)
    got = ops.grouped_linear(x, weights, places, **options)
    of_all = rows @ values.T
    of_all = of_all.reshape(tokens, experts_count, outputs) + biases
    expected = np.take_along_axis(of_all, experts[..., None].astype(np.int64), axis=1)
    expected = expected.reshape(tokens * fan_out, outputs)
    if gated:
        gates, ups = np.split(expected, 2, axis=1)
        expected = silu(gates) * ups
    np.testing.assert_allclose(read(got), expected, atol=TOLERANCE * np.abs(expected).max())
    if tokens * fan_out > 256:
        same = ops.grouped_linear(x, dense, places, batch_invariant=True, **options)
        np.testing.assert_array_equal(got.to_numpy(), same.to_numpy())
