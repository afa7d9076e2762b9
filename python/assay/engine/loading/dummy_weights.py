"""Dummy weights: models of a published shape with random weights, for benchmarks.

A model of eight billion random numbers takes minutes to generate and as much disk as a real one.
How fast a device reads weights does not depend on their values, as long as they are not all equal:
a file as large as the largest matrix is generated once, and every matrix maps a part of it.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay import paths
from assay.engine.loading.configuration import validated
from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.tensor_shapes import expected_shapes
from assay.engine.loading.tokenizer import Tokenizer
from assay.engine.loading.vocabulary import LibraryVocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHAPES: Final[dict[str, dict[str, Any]]] = {
    "llama-3-8b-shape": {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        # The model itself stops at 8192; longer contexts are measured too.
        "max_position_embeddings": 16384,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "rope_theta": 500000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 128000,
        "eos_token_id": 128001,
    },
    "qwen3-30b-a3b-shape": {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "rope_theta": 1000000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "use_sliding_window": False,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
    },
}
"""Configurations by name, each with its architecture, in bf16."""

SEED: Final = 20_240_418
MAX_MAPPINGS: Final = 1024
"""Matrices up to which each is a mapping of its own."""
_ITEM: Final = 2
_CHUNK: Final = 1 << 22
"""Values generated at a time."""


def dummy_model(name: str) -> ModelFiles:
    """The model of this shape; its random file is generated in the scratch folder if missing."""
    stated = dict(SHAPES[name])
    architecture = stated.pop("model_type")
    config, _ = validated(name, architecture, stated)
    shapes = expected_shapes(architecture, config)
    largest = max(math.prod(shape) for shape in shapes.values())
    path = _random_file(largest, config["hidden_size"])
    with path.open("rb") as file:
        # Each mapping keeps a file descriptor: the matrices of many experts share one.
        shared = None
        if len(shapes) > MAX_MAPPINGS:
            shared = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        tensors = {
            tensor: _tensor(tensor, shape, file.fileno(), largest, shared)
            for tensor, shape in shapes.items()
        }
    return ModelFiles(
        name=name,
        path=None,
        architecture=architecture,
        config=config,
        tensors=tensors,
        rope_pairs="half",
        make_tokenizer=lambda: _tokenizer(config["vocab_size"]),
        notes=("random weights of a published shape: the text means nothing",),
        synthetic=True,
    )


def _tensor(
    name: str, shape: tuple[int, ...], file: int, largest: int, shared: memoryview | None
) -> Tensor:
    if len(shape) == 1:
        return Tensor(name, "f32", shape, memoryview(_norm_weights(name, shape[0]).view("u1").data))
    count = math.prod(shape)
    page = mmap.ALLOCATIONGRANULARITY
    offsets = (largest - count) * _ITEM // page + 1
    digest = hashlib.sha256(name.encode()).digest()
    offset = int.from_bytes(digest[:8], "little") % offsets * page
    if shared is not None:
        return Tensor(name, "bf16", shape, shared[offset : offset + count * _ITEM])
    # A separate mapping for each tensor, so that page faults cost what they cost with real weights.
    mapped = mmap.mmap(file, count * _ITEM, access=mmap.ACCESS_READ, offset=offset)
    return Tensor(name, "bf16", shape, memoryview(mapped))


def _norm_weights(name: str, count: int) -> NDArray[np.float32]:
    """Norm weights near one."""
    import numpy as np

    key = int.from_bytes(hashlib.sha256(f"{SEED} {name}".encode()).digest()[:16], "little")
    bits = np.random.Philox(key=key).random_raw(count) >> np.uint64(40)
    return np.ascontiguousarray(0.9 + bits.astype(np.float32) * np.float32(0.2 / (1 << 24)))


def _random_file(count: int, inputs: int) -> Path:
    """A file of `count` uniform bfloat16 values, scaled for rows of `inputs`; generated once."""
    import numpy as np

    from assay.runtime.rounding import narrow

    path = paths.cache("patterns") / f"uniform-{SEED}-{count}-{inputs}.bf16"
    if path.exists() and path.stat().st_size == count * _ITEM:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Every 16 random bits index a table of values, rounded to bfloat16 beforehand.
    bound = math.sqrt(3 / inputs)
    values = ((np.arange(1 << 16) + 0.5) / (1 << 15) - 1).astype(np.float32) * np.float32(bound)
    table = narrow(values)
    bits = np.random.Philox(key=SEED)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for first in range(0, count, _CHUNK):
                count_here = min(_CHUNK, count - first)
                raw = bits.random_raw(-(-count_here // 4)).view(np.uint16)[:count_here]
                file.write(table[raw].data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def byte_library(vocabulary: int) -> Any:
    """Bytes are tokens; every other ID is a token of its number in brackets."""
    from tokenizers import Tokenizer as Library, decoders, models, pre_tokenizers

    from assay.engine.loading.tokenizer import byte_alphabet

    alphabet = byte_alphabet()
    known = {char: byte for byte, char in enumerate(alphabet)}
    known |= {f"[{number}]": number for number in range(len(alphabet), vocabulary)}
    library = Library(models.BPE(known, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    return library


def _tokenizer(vocabulary: int) -> Tokenizer:
    return Tokenizer(
        LibraryVocabulary(byte_library(vocabulary), "pattern"),
        bos_id=None,
        eos_id=None,
        stop_ids=[],
        add_bos=False,
        source="pattern",
    )
