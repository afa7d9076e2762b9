"""Engines over small models, with the expected outputs of transformers."""

from pathlib import Path

import numpy as np

from assay._native import SafeTensorsFile
from assay.engine import Engine
from assay.engine.loading import ModelFiles, open_model
from assay.engine.loading.synthetic import synthetic_model
from chosen_device import NAME, ON_GPU

FOLDER = Path(__file__).parents[1] / "data" / "engine"
EXACT_CACHE = "bf16" if ON_GPU else "f32"
"""The cache format that rounds least: GPU kernels read keys and values as bfloat16."""
FIXTURES = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


def expected(name: str):
    """The expected outputs of a small model with stored weights."""
    return expected_outputs(FOLDER / name)


def expected_outputs(folder: Path):
    """Tokens, logits of transformers after each, and its greedy tokens after them all."""
    stored = {
        tensor.name: tensor for tensor in SafeTensorsFile(folder / "expected.safetensors").tensors()
    }

    def read(name, dtype):
        return np.frombuffer(memoryview(stored[name]), dtype).reshape(stored[name].shape)

    tokens = read("tokens", np.int32).tolist()
    return tokens, read("logits", np.float32), read("greedy", np.int32).tolist()


def bf16_errors(folder: Path):
    """Relative errors of transformers' logits in bfloat16, by token."""
    stored = {
        tensor.name: tensor for tensor in SafeTensorsFile(folder / "expected.safetensors").tensors()
    }
    return np.frombuffer(memoryview(stored["bf16_errors"]), np.float32)


def fixture_files(name: str) -> ModelFiles:
    """A small model with the synthetic tokenizer, of whose vocabulary it has the first tokens."""
    files = open_model(FOLDER / name)
    return ModelFiles(
        name=files.name,
        path=files.path,
        architecture=files.architecture,
        config=files.config,
        tensors=files.tensors,
        rope_pairs=files.rope_pairs,
        make_tokenizer=synthetic_model().make_tokenizer,
        notes=files.notes,
    )


def fixture_engine(name: str, device=NAME, **settings) -> Engine:
    """An engine over a small model."""
    return Engine.load(fixture_files(name), device, **settings)
