"""LoRA adapters with random factors in PEFT's format, which every server loads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from assay.bench.serving.scenarios import ADAPTERS
from assay.engine.loading import ModelFiles, Tensor, open_model
from assay.engine.loading.dummy_checkpoint import write_safetensors
from assay.engine.loading.lora_adapter import CONFIG, WEIGHTS
from assay.lazy_import import np

RANK: Final = 16
TARGETS: Final = ("q_proj", "k_proj", "v_proj", "o_proj")
"""Modules with factors: those of attention, as PEFT's own defaults and most recipes have them."""
_SCALE: Final = 0.01
"""Of the factors: outputs stay close to those of the base model."""


def write_adapters(folder: Path, source: str) -> dict[str, Path]:
    """The folder of each of `ADAPTERS` for a model; what was there is replaced."""
    files = open_model(source)
    shutil.rmtree(folder, ignore_errors=True)
    written = {}
    for number, name in enumerate(ADAPTERS):
        written[name] = folder / name
        written[name].mkdir(parents=True)
        write_safetensors(written[name] / WEIGHTS, _factors(files, number))
        config = {
            "peft_type": "LORA",
            "r": RANK,
            "lora_alpha": RANK,
            "bias": "none",
            "target_modules": list(TARGETS),
            "base_model_name_or_path": source,
        }
        (written[name] / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    return written


def _factors(files: ModelFiles, seed: int) -> list[Tensor]:
    random = np.random.default_rng(seed)
    tensors = []
    for name, tensor in files.tensors.items():
        module = name.removesuffix(".weight")
        if not name.endswith(".weight") or not module.endswith(TARGETS):
            continue
        outputs, inputs = tensor.shape[::-1] if tensor.transposed else tensor.shape
        for factor, shape in (("A", (RANK, inputs)), ("B", (outputs, RANK))):
            values = (_SCALE * random.standard_normal(shape)).astype(np.float32)
            key = f"base_model.model.{module}.lora_{factor}.weight"
            tensors.append(Tensor(key, "f32", shape, memoryview(values.tobytes())))
    return tensors
