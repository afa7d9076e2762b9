"""Both ways to add LoRA adapters to a layer give the same logits.

CPUs have no kernels of the fused way: operations that they have stand in for its two.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lora_folders import factors_of, write_adapter
from small_models import fixture_files

from assay import ops, xp
from assay.engine import Engine
from assay.errors import AssayError, ShapeError
from assay.runtime import Array, Device

PROMPT = [3, 17, 5, 90, 41, 8]


def shrink(
    x: Array, a: ops.Weights, adapters: Array, *, adapters_count: int, **options: Any
) -> Array:
    norm, out = options["norm"], options["out"]
    if norm is not None:
        x = ops.rms_norm(x, norm, options["epsilon"])
    return ops.grouped_linear(x, a, adapters, experts_count=adapters_count, out=out)


def expand(
    product: Array,
    low: Array,
    b: ops.Weights,
    adapters: Array,
    *,
    adapters_count: int,
    **options: Any,
) -> Array:
    delta = ops.grouped_linear(low, b, adapters, experts_count=adapters_count)
    activation, out = options["activation"], options["out"]
    if activation is None:
        return ops.add_residual(delta, product, out=out)
    total = ops.add_residual(delta, product)
    return (
        ops.swiglu(total, out) if activation == "swiglu" else ops.activate(total, activation, out)
    )


def linear(
    x: Array, weights: ops.Weights, low: Array, b: ops.Weights, adapters: Array, **options: Any
) -> Array:
    layer = {name: options.pop(name) for name in ("norm", "epsilon", "bias", "residual")}
    product = ops.linear(x, weights, **layer)
    return expand(product, low, b, adapters, **options)


@pytest.mark.parametrize("model", ["llama", "gpt2"])
def test_two_kernels_around_a_layer_add_what_grouped_products_add(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = fixture_files(model)
    targets = ("c_attn", "c_proj", "c_fc") if model == "gpt2" else ("_proj",)
    folder = write_adapter(tmp_path / "adapter", factors_of(files, targets, rank=4, seed=1))
    calls: list[str] = []

    def logits(device: Device) -> np.ndarray:
        with Engine.load(files, device, adapters={"tuned": folder}, kv_format="f32") as engine:
            return engine.logits(PROMPT, "tuned")

    grouped = logits(Device("cpu"))
    device = Device("cpu")
    monkeypatch.setattr(
        device, "capabilities", replace(device.capabilities, fused_adapters_max_rows=64)
    )
    for name, stand_in in (
        ("lora_shrink", shrink),
        ("lora_expand", expand),
        ("lora_linear", linear),
    ):

        def called(*arguments: Any, label: str, stand_in: Any = stand_in, **options: Any) -> Array:
            calls.append(label)
            assert options.pop("adapters_ready", True)
            out: Array = stand_in(*arguments, **options)
            return out

        monkeypatch.setattr(ops, name, called)
    fused = logits(device)
    assert any(label.endswith("lora_a") for label in calls)
    np.testing.assert_allclose(fused, grouped, atol=1e-5 * np.abs(grouped).max())


def test_the_rank_that_registers_hold() -> None:
    assert ops.expands(256, None)
    assert ops.expands(128, "swiglu")
    assert not ops.expands(256, "swiglu")
    assert not ops.expands(12, None)


def test_factors_of_another_shape_are_refused() -> None:
    x, adapters = xp.zeros((2, 16), dtype=xp.float32), xp.zeros(2, dtype=xp.int32)
    a = ops.pack(np.zeros((9, 16), np.float32), "f32", (9, 16))
    with pytest.raises(ShapeError, match="multiples of 2 adapters, got 9 rows"):
        ops.lora_shrink(x, a, adapters, adapters_count=2)
    with pytest.raises(ShapeError, match=r"product of shape \(any, 3\)"):
        ops.lora_expand(x, x, a, adapters, adapters_count=3)
    b = ops.pack(np.zeros((6, 8), np.float32), "f32", (6, 8))
    weights = ops.pack(np.zeros((4, 16), np.float32), "f32", (4, 16))
    with pytest.raises(ShapeError, match="b of 4 outputs, got 2"):
        ops.lora_linear(x, weights, xp.zeros((2, 8)), b, adapters, adapters_count=3)
    with pytest.raises(AssayError, match="an operation"):
        ops.lora_shrink(x, a, adapters, adapters_count=3)
