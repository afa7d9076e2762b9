"""Whisper models of CTranslate2: a folder with model.bin, a vocabulary and a configuration."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay._native import Ctranslate2File, StoredTensor
from assay.errors import InputError
from assay.lazy_import import np
from assay.speech.whisper.files import ALIGNMENT_HEADS, Dimensions, WhisperFiles, values
from assay.speech.whisper.vocabulary import Vocabulary, byte_level_tokens

if TYPE_CHECKING:
    from assay.speech.whisper.files import Tensor

_PARTS: Final = {
    "self_attention/layer_norm": "attn_ln",
    "self_attention/linear_0": "attn.qkv",
    "self_attention/linear_1": "attn.out",
    "attention/layer_norm": "cross_attn_ln",
    "attention/linear_0": "cross_attn.query",
    "attention/linear_2": "cross_attn.out",
    "ffn/layer_norm": "mlp_ln",
    "ffn/linear_0": "mlp.0",
    "ffn/linear_1": "mlp.2",
}
_FIELDS: Final = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_FIXED: Final = {
    "encoder/position_encodings/encodings": "encoder.positional_embedding",
    "decoder/position_encodings/encodings": "decoder.positional_embedding",
    "decoder/embeddings/weight": "decoder.token_embedding.weight",
    "encoder/layer_norm/gamma": "encoder.ln_post.weight",
    "encoder/layer_norm/beta": "encoder.ln_post.bias",
    "decoder/layer_norm/gamma": "decoder.ln.weight",
    "decoder/layer_norm/beta": "decoder.ln.bias",
}


def open_ctranslate2(folder: Path) -> WhisperFiles:
    """Open a folder that holds model.bin."""
    file = Ctranslate2File(folder / "model.bin")
    if file.spec != "WhisperSpec":
        raise InputError(f"{folder}: expected a WhisperSpec, got {file.spec}")
    tensors = {tensor.name: tensor for tensor in file.tensors()}
    stored: dict[str, Callable[[], Tensor]] = {}
    for name, tensor in tensors.items():
        read = partial(_values, tensor, tensors.get(f"{name}_scale"))
        stored |= dict(_named(name, tensor.shape[0] if tensor.shape else 0, read))
    configuration = _json(folder / "config.json")
    dimensions = _dimensions(folder, tensors)
    given = configuration.get("alignment_heads")
    heads = tuple((int(layer), int(head)) for layer, head in given) if given else None
    formats = Counter(tensor.format for tensor in tensors.values() if len(tensor.shape) > 1)
    return WhisperFiles(
        path=folder,
        dimensions=dimensions,
        vocabulary=Vocabulary(_tokens(folder), dimensions.vocabulary),
        alignment_heads=heads or ALIGNMENT_HEADS.get(dimensions.name, ()),
        stored=stored,
        format=formats.most_common(1)[0][0],
    )


def _values(tensor: StoredTensor, scale: StoredTensor | None) -> Tensor:
    """A variable; one of integers is divided by its scale, or by that of each row."""
    stored = values(tensor)
    if scale is None:
        return stored
    factors = np.asarray(values(scale), np.float32).reshape(-1, *[1] * (stored.ndim - 1))
    return np.asarray(stored / factors, np.float32)


def _named(
    name: str, rows: int, read: Callable[[], Tensor]
) -> list[tuple[str, Callable[[], Tensor]]]:
    """What a variable is called elsewhere; keys and values of the cross-attention are one here."""
    if name in _FIXED:
        return [(_FIXED[name], read)]
    side, _, rest = name.partition("/")
    part, _, kind = rest.rpartition("/")
    if kind not in _FIELDS:
        return []
    if part in ("conv1", "conv2"):
        return [(f"{side}.{part}.{kind}", read)]
    layer, _, inner = part.partition("/")
    prefix = f"{side}.blocks.{layer.removeprefix('layer_')}"
    if inner == "attention/linear_1":
        half = rows // 2
        return [
            (f"{prefix}.cross_attn.key.{kind}", lambda: read()[:half]),
            (f"{prefix}.cross_attn.value.{kind}", lambda: read()[half:]),
        ]
    if inner not in _PARTS:
        return []
    return [(f"{prefix}.{_PARTS[inner]}.{_FIELDS[kind]}", read)]


def _dimensions(folder: Path, tensors: dict[str, StoredTensor]) -> Dimensions:
    def shape(name: str) -> tuple[int, ...]:
        if name not in tensors:
            raise InputError(f"{folder / 'model.bin'}: expected a variable {name}, got none")
        return tuple(tensors[name].shape)

    def number(name: str) -> int:
        shape(name)
        return int(values(tensors[name]).reshape(-1)[0])

    def layers(side: str) -> int:
        heads = {name.split("/")[1] for name in tensors if name.startswith(f"{side}/layer_")}
        return len(heads - {"layer_norm"})

    width, mels, _ = shape("encoder/conv1/weight")
    vocabulary, text_width = shape("decoder/embeddings/weight")
    return Dimensions(
        mels=mels,
        audio_context=shape("encoder/position_encodings/encodings")[0],
        audio_width=width,
        audio_heads=number("encoder/num_heads"),
        audio_layers=layers("encoder"),
        text_context=shape("decoder/position_encodings/encodings")[0],
        text_width=text_width,
        text_heads=number("decoder/num_heads"),
        text_layers=layers("decoder"),
        vocabulary=vocabulary,
    )


def _tokens(folder: Path) -> list[bytes]:
    """Tokens from the vocabulary beside the model, which has one a line or is JSON."""
    for name in ("vocabulary.json", "vocabulary.txt"):
        path = folder / name
        if not path.is_file():
            continue
        text = path.read_text("utf-8")
        listed = json.loads(text) if name.endswith("json") else text.rstrip("\n").split("\n")
        return byte_level_tokens([str(token) for token in listed])
    raise InputError(
        f"{folder}: expected vocabulary.txt or vocabulary.json beside model.bin, got neither"
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, got: {error}") from None
    return content if isinstance(content, dict) else {}
