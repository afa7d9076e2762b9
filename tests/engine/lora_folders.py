"""LoRA adapters with random factors: folders as PEFT writes them, and weights merged by NumPy."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.engine.loading import ModelFiles

Factors = dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def safetensors(tensors: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Float32 arrays in the format of the library of that name."""
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def factors_of(files: ModelFiles, targets: tuple[str, ...], rank: int, seed: int) -> Factors:
    """Random factors of every matrix whose name ends with a target."""
    random = np.random.default_rng(seed)
    found: Factors = {}
    for name, tensor in files.tensors.items():
        module = name.removesuffix(".weight")
        if not module.endswith(targets) or not name.endswith(".weight"):
            continue
        outputs, inputs = tensor.shape[::-1] if tensor.transposed else tensor.shape
        a, b = random.normal(size=(rank, inputs)), random.normal(size=(outputs, rank))
        # Larger scores than a trained model's would amplify rounding errors.
        found[module] = ((0.3 * a).astype(np.float32), (0.06 * b).astype(np.float32))
    assert found
    return found


def write_adapter(folder: Path, factors: Factors, **config: Any) -> Path:
    """An adapter's folder."""
    folder.mkdir(parents=True)
    tensors = {}
    for module, (a, b) in factors.items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = a
        tensors[f"base_model.model.{module}.lora_B.weight"] = b
    (folder / "adapter_model.safetensors").write_bytes(safetensors(tensors))
    settings = {
        "peft_type": "LORA",
        "r": 4,
        "lora_alpha": 8,
        "bias": "none",
        "target_modules": sorted({module.rpartition(".")[2] for module in factors}),
        "modules_to_save": None,
        **config,
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def merged(files: ModelFiles, factors: Factors, scale: float) -> ModelFiles:
    """The model with W + scale B A, in float64 until the sum is rounded."""
    tensors = {}
    # All in single precision: matrices of several formats would be fused in half precision.
    for name, tensor in files.tensors.items():
        stored = np.ascontiguousarray(tensor.to_float32())
        tensors[name] = replace(tensor, format="f32", bytes=memoryview(stored).cast("B"))
    for module, (a, b) in factors.items():
        tensor = tensors[f"{module}.weight"]
        delta = scale * (b.astype(np.float64) @ a.astype(np.float64))
        values = tensor.to_float32().astype(np.float64) + (delta.T if tensor.transposed else delta)
        stored = np.ascontiguousarray(values, np.float32)
        tensors[f"{module}.weight"] = replace(tensor, bytes=memoryview(stored).cast("B"))
    # Without a path the weights are not those of another model's files.
    return replace(files, tensors=tensors, path=None, name=f"{files.name}-merged-{scale}")
