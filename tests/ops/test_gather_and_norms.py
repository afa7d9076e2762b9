"""Embedding, gathered rows, norms, activations and softmax against NumPy."""

from __future__ import annotations

import numpy as np
import numpy_operations as reference
import pytest
from numpy_operations import take, upload

from assay import ops, xp
from assay.errors import DeviceError, DTypeError, InputError, ShapeError
from assay.ops import audio
from assay.runtime import Device


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("columns", [1, 7, 64])
def test_embedding_gathers_rows_and_zeros_for_minus_one(dtype: str, columns: int) -> None:
    table = upload(np.random.default_rng(1).standard_normal((11, columns)), dtype)
    ids = np.array([3, -1, 0, 10, 3], np.int32)
    out = ops.embedding(upload(ids), table).to_numpy()
    expected = np.where(ids[:, None] < 0, 0, take(table).astype(np.float32)[ids])
    assert np.array_equal(out, expected)


def test_embedding_resolves_ids_of_sampled_tokens() -> None:
    table = np.random.default_rng(1).standard_normal((9, 5)).astype(np.float32)
    ids, sampled = upload([3, -1, -2, -4], "i4"), upload([8, 0, 6], "i4")
    out = ops.embedding(ids, upload(table), sampled_tokens=sampled).to_numpy()
    assert np.array_equal(out, [table[3], np.zeros(5), table[8], table[6]])


@pytest.mark.parametrize("format", ["f32", "bf16", "f16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"])
def test_embedding_from_packed_weights_is_a_row_of_them(format: str) -> None:
    values = np.random.default_rng(2).standard_normal((37, 256)).astype(np.float32)
    table = ops.pack(values, format, (37, 256))
    ids = np.array([36, 0, 17, -1], np.int32)
    out = ops.embedding(upload(ids), table).to_numpy()
    whole = table.dequantize().to_numpy()
    assert np.array_equal(out[:3], whole[ids[:3]])
    assert (out[3] == 0).all()


def test_gather_rows() -> None:
    x = np.random.default_rng(3).standard_normal((6, 5)).astype(np.float32)
    rows = np.array([5, 5, -1, 0], np.int32)
    out = ops.gather_rows(upload(x), upload(rows)).to_numpy()
    assert np.array_equal(out, np.where(rows[:, None] < 0, 0, x[rows]))


@pytest.mark.parametrize("ids", [[11], [-2], [2**31 - 1]])
def test_id_out_of_range_fails_only_its_call(ids: list[int]) -> None:
    own = Device("cpu")
    table = xp.ones((11, 4), dtype=xp.float32, device=own)
    given = xp.asarray(ids, dtype=xp.int32, device=own)
    with pytest.raises(DeviceError, match=r'"embedding" failed on stream 0: .* expected'):
        ops.embedding(given, table)
    own.synchronize()
    assert float(xp.sum(table)) == 44.0


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("columns", [1, 17, 576])
@pytest.mark.parametrize("adds", [False, True])
def test_rms_norm(rows: int, columns: int, adds: bool) -> None:
    rng = np.random.default_rng(rows + columns)
    x, residual = rng.standard_normal((2, rows, columns)).astype(np.float32)
    weight = rng.standard_normal(columns).astype(np.float32)
    before = upload(residual) if adds else None
    out = ops.rms_norm(upload(x), upload(weight), 1e-5, residual=before).to_numpy()
    summed = x + residual if adds else x
    assert np.abs(out - reference.rms_norm(summed, weight, 1e-5)).max() < 2e-5
    if before is not None:
        assert np.array_equal(before.to_numpy(), summed)


@pytest.mark.parametrize("columns", [1, 17, 768])
@pytest.mark.parametrize("adds", [False, True])
def test_layer_norm(columns: int, adds: bool) -> None:
    rng = np.random.default_rng(columns)
    x, residual = rng.standard_normal((2, 5, columns)).astype(np.float32)
    weight, bias = rng.standard_normal((2, columns)).astype(np.float32)
    before = upload(residual) if adds else None
    out = ops.layer_norm(upload(x), upload(weight), upload(bias), 1e-5, residual=before).to_numpy()
    summed = x + residual if adds else x
    assert np.abs(out - reference.layer_norm(summed, weight, bias, 1e-5)).max() < 2e-5
    if before is not None:
        assert np.array_equal(before.to_numpy(), summed)


@pytest.mark.parametrize("shape", [(1, 2), (3, 34), (40, 3072)])
def test_swiglu_takes_gates_first(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    gate, up = np.split(x.astype(np.float64), 2, 1)
    assert np.abs(ops.swiglu(upload(x)).to_numpy() - reference.silu(gate) * up).max() < 1e-5


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_tanh", "relu"])
def test_activate(name: str) -> None:
    x = np.linspace(-12, 12, 1003).astype(np.float32).reshape(17, 59)
    out = ops.activate(upload(x), name).to_numpy()
    assert np.abs(out - reference.ACTIVATIONS[name](x.astype(np.float64))).max() < 2e-6


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 100)])
def test_softmax(shape: tuple[int, ...]) -> None:
    x = 30 * np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    power = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    assert (
        np.abs(ops.softmax(upload(x)).to_numpy() - power / power.sum(-1, keepdims=True)).max()
        < 1e-6
    )


@pytest.mark.parametrize("format", ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"])
def test_quantize_and_back(format: str) -> None:
    x = np.random.default_rng(8).standard_normal((3, 256)).astype(np.float32)
    narrow = ops.quantize(upload(x), format)
    back = ops.dequantize(narrow, format, (3, 256)).to_numpy()
    error = {"f32": 0, "f16": 2e-3, "bf16": 2e-2, "q8_0": 0.02, "q6_k": 0.1}.get(format, 0.4)
    assert np.abs(back - x).max() <= error


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize(
    "types", [("float32", "float32"), ("float32", "bfloat16"), ("float16",) * 2]
)
def test_batched_matmul(batch: tuple[int, ...], types: tuple[str, str]) -> None:
    rng = np.random.default_rng(9)
    a = upload(rng.standard_normal((*batch, 7, 33)), types[0])
    b = upload(rng.standard_normal((*batch, 33, 5)), types[1])
    expected = take(a).astype(np.float64) @ take(b).astype(np.float64)
    assert np.abs(ops.batched_matmul(a, b).to_numpy() - expected).max() < 1e-4
    transposed = upload(np.swapaxes(take(b), -1, -2), types[1]).mT
    assert np.abs(ops.batched_matmul(a, transposed).to_numpy() - expected).max() < 1e-4


def test_matmul_with_an_empty_axis() -> None:
    empty = upload(np.empty((2, 3, 0), np.float32))
    out = ops.batched_matmul(empty, upload(np.empty((2, 0, 4), np.float32)))
    assert np.array_equal(out.to_numpy(), np.zeros((2, 3, 4)))


WRONG = [
    (DTypeError, "ids of int32", lambda: ops.embedding(upload([0]), upload([[1.0]], "f4"))),
    (ShapeError, "ids of shape", lambda: ops.embedding(upload([[0]], "i4"), upload([[1.0]], "f4"))),
    (ShapeError, "weight of shape (2)", lambda: ops.rms_norm(ONE, upload([1.0], "f4"), 0.1)),
    (InputError, "epsilon", lambda: ops.rms_norm(ONE, upload([1.0, 1.0], "f4"), -1.0)),
    (ShapeError, "residual", lambda: ops.rms_norm(ONE, upload([1.0] * 2, "f4"), 0, residual=ONE.T)),
    (ShapeError, "even number", lambda: ops.swiglu(upload([[1.0]], "f4"))),
    (InputError, "sine", lambda: ops.activate(ONE, "sine")),
    (InputError, "q9", lambda: ops.quantize(ONE, "q9")),
    (ShapeError, "multiples of 32", lambda: ops.quantize(ONE, "q8_0")),
    (ShapeError, "bytes of q8_0", lambda: ops.dequantize(upload([0], "u1"), "q8_0", (32,))),
    (ShapeError, "b of shape (2, any)", lambda: ops.batched_matmul(ONE, upload([[1.0]], "f4"))),
]
ONE = upload([[1.0, 2.0]], "f4")


LISTS = [
    lambda x: audio.resample(x, 2, 1),
    lambda x: audio.fir(x, ONE),
    lambda x: audio.recursive_filter(ONE, ONE, x),
    lambda x: audio.pad(x, 1, 1),
    lambda x: audio.stft(x, 4),
    lambda x: ops.activate(x, "silu"),
    lambda x: ops.softmax(x),
    lambda x: ops.quantize(x, "q8_0"),
    lambda x: ops.batched_matmul(x, ONE),
    lambda x: ops.leaky_relu(x, 0.1),
]


@pytest.mark.parametrize("index", range(len(LISTS)))
def test_a_list_is_refused_by_its_type(index: int) -> None:
    with pytest.raises(DTypeError, match="as an array, got list"):
        LISTS[index]([1.0, 2.0])


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_invalid_arguments_are_named(index: int) -> None:
    error, text, call = WRONG[index]
    with pytest.raises(error) as raised:
        call()
    assert text in raised.value.message


def test_memory_of_numpy_is_read_and_no_result_is_written_to_it() -> None:
    values = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    shared = xp.asarray(values)
    exact = np.exp(values - values.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    assert np.allclose(ops.softmax(shared).to_numpy(), exact, atol=1e-6)
    with pytest.raises(DTypeError, match="expected x of float32") as caught:
        ops.softmax(xp.asarray(values.astype(np.float64)))
    assert "astype" in str(caught.value.hint)
    with pytest.raises(DeviceError, match="borrowed memory"):
        ops.softmax(xp.asarray(values, copy=True), out=shared)
