"""Hostile LoRA adapters: refused with an `AssayError`, whatever their files hold."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from lora_folders import factors_of, write_adapter

from assay.engine import Engine
from assay.engine.loading.lora_adapter import open_adapter
from assay.engine.loading.synthetic import synthetic_model
from assay.errors import AssayError, InputError, UnsupportedError

FACTORS = factors_of(synthetic_model(), ("q_proj", "down_proj"), rank=2, seed=1)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"peft_type": "LOHA"}, UnsupportedError, 'peft_type: expected "LORA", got'),
        ({"peft_type": None}, UnsupportedError, "got None"),
        ({"use_dora": True}, UnsupportedError, "use_dora: DoRA"),
        ({"bias": "all"}, UnsupportedError, "bias: expected"),
        ({"lora_bias": True}, UnsupportedError, "lora_bias"),
        ({"modules_to_save": ["lm_head"]}, UnsupportedError, "modules_to_save"),
        ({"alpha_pattern": {"q_proj": 3}}, UnsupportedError, "alpha_pattern"),
        ({"layer_replication": [[0, 2]]}, UnsupportedError, "layer_replication"),
        ({"target_parameters": ["experts"]}, UnsupportedError, "target_parameters"),
        ({"init_lora_weights": "pissa_niter_4"}, UnsupportedError, "init_lora_weights"),
        ({"lora_alpha": None}, InputError, "lora_alpha: expected a number"),
        ({"lora_alpha": True}, InputError, "lora_alpha: expected a number"),
        ({"lora_alpha": 1e308}, InputError, "expected finite values when scaled"),
        ({"use_rslora": "yes"}, InputError, "use_rslora: expected true or false"),
    ],
)
def test_configurations(
    tmp_path: Path, changes: dict[str, Any], kind: type[AssayError], message: str
) -> None:
    folder = write_adapter(tmp_path / "adapter", FACTORS, **changes)
    with pytest.raises(kind) as caught:
        open_adapter("hostile", folder)
    assert message in caught.value.message


def tensors_of(name: str) -> dict[str, tuple[Any, Any]]:
    module, (a, b) = next(iter(FACTORS.items()))
    return {
        "infinite": {module: (np.full_like(a, np.inf), b)},
        "not a number": {module: (a, np.full_like(b, np.nan))},
        "other ranks": {module: (a[:1], b)},
        "an empty rank": {module: (a[:0], b[:, :0])},
        "a vector": {module: (a[0], b)},
        "a huge rank": {module: (np.ones((1025, 2)), np.ones((2, 1025)))},
        "nothing": {},
        "no module": {"": (a, b)},
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        *("infinite", "not a number", "other ranks", "an empty rank", "a vector"),
        *("a huge rank", "nothing", "no module"),
    ],
)
def test_tensors(tmp_path: Path, name: str) -> None:
    folder = write_adapter(tmp_path / "adapter", tensors_of(name))
    with pytest.raises(AssayError):
        open_adapter("hostile", folder)


def test_names_of_other_layers_are_refused_by_name(tmp_path: Path) -> None:
    a, b = next(iter(FACTORS.values()))
    for module in ("model.embed_tokens", "lm_head", "model.layers.0.mlp.experts.0.w1", "../x"):
        folder = write_adapter(tmp_path / module.replace("/", "_"), {module: (a, b)})
        with pytest.raises(AssayError) as caught:
            Engine.load("synthetic", adapters={"hostile": folder})
        assert f'"{module}"' in caught.value.message


def test_folders_without_their_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a folder"):
        open_adapter("hostile", tmp_path / "absent")
    folder = write_adapter(tmp_path / "adapter", FACTORS)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(InputError, match=r"expected adapter_model\.safetensors"):
        open_adapter("hostile", folder)
    (folder / "adapter_config.json").unlink()
    with pytest.raises(InputError, match=r"adapter_config\.json: expected a file"):
        open_adapter("hostile", folder)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), config=st.booleans())
def test_damaged_bytes(tmp_path: Path, position: int, value: int, config: bool) -> None:
    folder = tmp_path / "adapter"
    if not folder.exists():
        write_adapter(folder, FACTORS)
    file = folder / ("adapter_config.json" if config else "adapter_model.safetensors")
    whole = file.read_bytes()
    # Half of the changes hit the header, which is small beside the data.
    size = len(whole) if position % 2 else min(len(whole), 600)
    damaged = bytearray(whole)
    damaged[position % size] = value
    file.write_bytes(damaged)
    try:
        with suppress(AssayError):
            open_adapter("hostile", folder)
    finally:
        file.write_bytes(whole)
    assert json.loads((folder / "adapter_config.json").read_text())["peft_type"] == "LORA"
