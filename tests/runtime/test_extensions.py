"""`pad`, `einsum` and random arrays: as NumPy gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from assay import xp
from assay.errors import AssayError
from assay.xp import extensions
from assay.xp.einsum_products import by_matrix_products

RNG = np.random.default_rng(2)


def upload(values: Any) -> Any:
    return xp.asarray(np.asarray(values), copy=True)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("width", [0, 2, (1, 3), ((0, 2), (3, 1))])
def test_padding_is_that_of_numpy(mode: str, width: Any) -> None:
    for dtype in ("f4", "i8", "c8", "?"):
        values = RNG.integers(0, 9, (4, 5)).astype(dtype)
        expected = np.pad(values, width, mode)  # type: ignore[call-overload]
        pairs = [(int(before), int(after)) for before, after in np.broadcast_to(width, (2, 2))]
        given = upload(values)
        for got in (
            xp.pad(given, width, mode).to_numpy(),
            extensions.pad_by_kernels(given, expected.shape, pairs, mode, 0).to_numpy(),
        ):
            assert got.dtype == expected.dtype
            assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,jk,kl", [(3, 4), (4, 5), (5, 2)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 4, 5)]),
        ("ii", [(4, 4)]),
        ("...i,i->...", [(2, 3, 4), (4,)]),
        ("ij->ji", [(2, 0)]),
    ],
)
def test_einsum_is_that_of_numpy(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    given = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = np.einsum(subscripts, *(values.astype(float) for values in given))
    got = xp.einsum(subscripts, *map(upload, given))
    assert got.dtype is xp.float32
    assert got.shape == expected.shape
    assert np.allclose(got.to_numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij, jk, kl -> li", [(3, 4), (4, 5), (5, 2)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 4, 5)]),
        ("abc->ca", [(2, 3, 4)]),
        ("ab,cd->bd", [(2, 3), (4, 5)]),
        ("a,a,a->", [(7,), (7,), (7,)]),
        ("abc,cbd,be->ade", [(2, 3, 4), (4, 3, 5), (3, 6)]),
        ("a,b->ba", [(2,), (3,)]),
        ("ab,ab->ab", [(2, 3), (2, 3)]),
    ],
)
def test_einsum_by_matrix_products(subscripts: str, shapes: list[tuple[int, ...]]) -> None:
    given = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected = np.einsum(subscripts, *(values.astype(float) for values in given))
    got = by_matrix_products(subscripts, [upload(values) for values in given])
    assert got is not None
    assert got.shape == expected.shape
    assert np.allclose(got.to_numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    "subscripts", ["ii->i", "...i->i", "ij", "ij->k", "ijk->i", "ij,jk->ik", "ij->ii"]
)
def test_what_is_left_to_numpy(subscripts: str) -> None:
    assert by_matrix_products(subscripts, [upload(np.ones((3, 3), np.float32))]) is None


def test_einsum_promotes_and_rounds() -> None:
    small = xp.astype(upload(np.arange(6, dtype=np.float32).reshape(2, 3)), xp.bfloat16)
    assert xp.einsum("ij,kj->ik", small, small).dtype is xp.bfloat16
    mixed = xp.einsum(
        "i,i", upload(np.arange(3, dtype=np.int32)), upload(np.arange(3, dtype=np.int64))
    )
    assert (mixed.dtype, int(mixed)) == (xp.int64, 5)


def test_random_arrays_depend_on_the_seed_alone() -> None:
    for device in ("cpu", "sim"):
        numbers = xp.random.default_rng(7, device=device)
        reference = np.random.Generator(np.random.Philox(7))
        uniform = numbers.uniform(-1, 3, (2, 500))
        assert uniform.dtype is xp.float32
        assert np.allclose(uniform.to_device("cpu").to_numpy(), reference.uniform(-1, 3, (2, 500)))
        normal = numbers.normal(2, 0.5, 1000, dtype=xp.float64).to_device("cpu").to_numpy()
        assert np.array_equal(normal, reference.normal(2, 0.5, 1000))
        whole = numbers.integers(-3, 4, 1000).to_device("cpu").to_numpy()
        assert np.array_equal(whole, reference.integers(-3, 4, 1000))
        order = numbers.permutation(50).to_device("cpu").to_numpy()
        assert sorted(order.tolist()) == list(range(50))


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("mode", lambda: xp.pad(xp.ones(3), 1, "mirror")),
        ("pairs", lambda: xp.pad(xp.ones(3), ((1, 1), (1, 1)))),
        ("0 or more", lambda: xp.pad(xp.ones(3), -1)),
        ("repeat", lambda: xp.pad(xp.zeros(0), 1, "edge")),
        ("einsum", lambda: xp.einsum("ij,jk", xp.ones((2, 3)), xp.ones((2, 3)))),
        ("none", lambda: xp.einsum("i")),
        ("below high", lambda: xp.random.default_rng(0).integers(3, 3)),
        ("seed", lambda: xp.random.default_rng(-1)),
    ],
)
def test_bad_input_is_named(part: str, call: Any) -> None:
    with pytest.raises(AssayError, match=part):
        call()
