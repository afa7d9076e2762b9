"""Linear layers over arrays of the host, against products in double precision."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import assay
from assay._native import host_linear
from assay.speech.products import linear

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    [(1, 1, 1), (4, 256, 258), (5, 387, 128), (3, 9, 1), (0, 7, 3), (2, 0, 3), (130, 201, 350)],
)
def test_products_are_those_of_double_precision(rows: int, inputs: int, outputs: int) -> None:
    x, weights, bias = floats(rows, inputs), floats(outputs, inputs), floats(outputs)
    exact = x.astype(float) @ weights.T.astype(float) + bias
    scale = np.abs(exact).max(initial=1.0)
    assert np.abs(linear(x, weights, bias) - exact).max(initial=0.0) <= 2e-6 * scale
    rectified = linear(x, weights, bias, relu=True)
    assert np.abs(rectified - np.maximum(exact, 0)).max(initial=0.0) <= 2e-6 * scale


def test_rows_may_overlap_and_stand_apart() -> None:
    signal, weights = floats(700), floats(6, 256)
    frames = np.lib.stride_tricks.as_strided(signal, (4, 256), (128 * 4, 4), writeable=False)
    assert np.array_equal(linear(frames, weights), linear(frames.copy(), weights))
    apart = floats(5, 3, 256)[:, 1]
    assert np.array_equal(linear(apart, weights), linear(apart.copy(), weights))
    # A row's result is its own: the same alone and beside others.
    assert np.array_equal(linear(frames, weights)[2], linear(frames[2], weights))


def test_what_cannot_be_multiplied_is_refused_by_name() -> None:
    x, weights, out = floats(2, 8), floats(3, 8), floats(2, 3)
    for bad in (x.T, x.astype(float), x[::-1], floats(1, 2, 8), x.astype(">f4")):
        with pytest.raises(ValueError, match="x: expected rows of float32"):
            host_linear(bad, weights, None, out)
    with pytest.raises(ValueError, match="x: expected rows of 8 numbers, as weights have, got 4"):
        host_linear(x[:, :4], weights, None, out)
    with pytest.raises(ValueError, match="weights: expected outputs by inputs"):
        host_linear(x, weights[0], None, out)
    with pytest.raises(ValueError, match="out"):
        host_linear(x, weights, None, floats(2, 4))
    with pytest.raises(ValueError, match="bias"):
        host_linear(x, weights, floats(2), out)
    with pytest.raises(ValueError, match="overlap with x"):
        host_linear(x[:, :3], np.eye(3, dtype=np.float32), None, x.reshape(-1)[:6])


def test_speech_leaves_no_product_to_a_blas() -> None:
    # Its threads spin behind each product, on the cores that kernels want.
    packages = [Path(assay.__file__).parent / name for name in ("speech", "talking")]
    calls = {f"np.{name}" for name in ("matmul", "dot", "vdot", "inner", "tensordot", "einsum")}
    products = [
        f"{path}: {ast.unparse(node)}"
        for package in packages
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))
        or (isinstance(node, ast.Attribute) and ast.unparse(node) in calls)
    ]
    assert products == []
