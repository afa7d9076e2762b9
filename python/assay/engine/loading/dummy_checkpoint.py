"""Dummy weights as a Hugging Face folder, so that other engines load the same ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from assay.engine.loading.dummy_weights import SHAPES, byte_library, dummy_model
from assay.engine.loading.model_files import Tensor
from assay.errors import unknown_name

_STATED: Final[dict[str, dict[str, Any]]] = {
    "llama": {"architectures": ["LlamaForCausalLM"]},
    "qwen3_moe": {"architectures": ["Qwen3MoeForCausalLM"]},
}
"""What other engines read in a configuration, by model type."""
_TOKENIZER: Final = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ",
}
_SHARD_BYTES: Final = 4 << 30
_ITEM: Final = 2
_EMBEDDING: Final = "model.embed_tokens.weight"
_HEAD: Final = "lm_head.weight"
_LETTERS: Final = range(32, 127)
"""The tokens of plain answers: bytes that are characters by themselves."""
_STRIDE: Final = 37
"""From a letter to the one that follows it: pairs that no prompt has, and none again before all."""
_FOLLOWING: Final = 50.0
"""Logit of the letter that follows, in nats, where the stream is the embedding alone; others are about 0."""


def write_checkpoint(folder: Path, name: str, *, plain: bool = False) -> None:
    """Write a model of `SHAPES` in bf16, with a tokenizer that makes a token of every byte.

    Eight billion weights take 16 GB. A folder that is complete already, and as plain, stays as it is.

    Random weights answer with tokens that no text leads to again, and choose each by next to nothing: whatever
    rounds otherwise answers otherwise. `plain` answers are letters, each of which follows from the one before,
    so that they can be compared; that a context was read right they do not show.
    """
    if name not in SHAPES:
        raise unknown_name("shape", name, SHAPES)
    index = folder / "model.safetensors.index.json"
    metadata = {"plain": True} if plain else {}
    if index.exists():
        if json.loads(index.read_text(encoding="utf-8")).get("metadata") == metadata:
            return
        # Half of the one and half of the other is complete as neither.
        index.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    weight_map: dict[str, str] = {}
    model = dummy_model(name)
    tensors = dict(model.tensors)
    if plain:
        tensors |= _plain(tensors, model.config["num_hidden_layers"])
    for number, part in enumerate(_shards(tensors), 1):
        file = f"model-{number:05}.safetensors"
        write_safetensors(folder / file, part)
        weight_map |= dict.fromkeys((tensor.name for tensor in part), file)
    stated = {**SHAPES[name], **_STATED[SHAPES[name]["model_type"]], "torch_dtype": "bfloat16"}
    _write_json(folder / "config.json", stated)
    _write_json(folder / "tokenizer_config.json", _TOKENIZER)
    byte_library(stated["vocab_size"]).save(str(folder / "tokenizer.json"))
    # Last: it says that the rest is there.
    _write_json(index, {"metadata": metadata, "weight_map": weight_map})


def _plain(tensors: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Embedding and head of a model that says letters; all other weights stay random.

    The embedding is about as large as what the layers add to it, and each letter's row of the head points to
    the letter before.
    """
    import numpy as np

    from assay.runtime.rounding import narrow, widen

    embedding = tensors[_EMBEDDING]
    rows, width = embedding.shape
    bits = np.frombuffer(embedding.bytes, np.uint16).reshape(rows, width)
    scale = 2.0 ** round(0.5 * math.log2(layers * width))
    # Powers of two are exact in bf16.
    larger = narrow(widen(bits) * np.float32(scale))
    head = np.frombuffer(tensors[_HEAD].bytes, np.uint16).reshape(rows, width).copy()
    letters = np.array(_LETTERS)
    following = letters[(np.arange(len(letters)) + _STRIDE) % len(letters)]
    head[following] = narrow(_FOLLOWING / math.sqrt(width) * widen(bits[letters]))
    return {
        name: Tensor(name, "bf16", (rows, width), memoryview(values.reshape(-1).view("u1").data))
        for name, values in ((_EMBEDDING, larger), (_HEAD, head))
    }


def _shards(tensors: Mapping[str, Tensor]) -> Iterable[list[Tensor]]:
    part: list[Tensor] = []
    size = 0
    for tensor in tensors.values():
        part.append(tensor)
        size += _ITEM * math.prod(tensor.shape)
        if size >= _SHARD_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def write_safetensors(path: Path, tensors: list[Tensor]) -> None:
    """Write tensors in bf16, one after the other."""
    from assay.runtime.rounding import narrow

    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        begin, end = end, end + _ITEM * math.prod(tensor.shape)
        place = {"shape": list(tensor.shape), "data_offsets": [begin, end]}
        header[tensor.name] = {"dtype": "BF16", **place}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            # Norms are kept in float32; the matrices are views of one mapped file.
            is_stored = tensor.format == "bf16"
            file.write(tensor.bytes if is_stored else narrow(tensor.to_float32()).tobytes())


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
