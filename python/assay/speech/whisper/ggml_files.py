"""Whisper models of whisper.cpp."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay._native import GgmlWhisperFile, StoredTensor
from assay.lazy_import import np
from assay.speech.whisper.files import ALIGNMENT_HEADS, Dimensions, WhisperFiles, values
from assay.speech.whisper.vocabulary import Vocabulary

if TYPE_CHECKING:
    from assay.speech.whisper.files import Tensor

_FUSED: Final = tuple(
    f".attn.{part}.{kind}" for part in ("query", "key", "value") for kind in ("weight", "bias")
)
"""Parts of the self-attention, which are one matrix here."""


def open_ggml(path: Path) -> WhisperFiles:
    """Open a file such as ggml-base.en.bin."""
    file = GgmlWhisperFile(path)
    head = file.hyperparameters()
    dimensions = Dimensions(
        mels=head["mels"],
        audio_context=head["audio_context"],
        audio_width=head["audio_state"],
        audio_heads=head["audio_heads"],
        audio_layers=head["audio_layers"],
        text_context=head["text_context"],
        text_width=head["text_state"],
        text_heads=head["text_heads"],
        text_layers=head["text_layers"],
        vocabulary=head["vocabulary"],
    )
    tensors = {tensor.name: tensor for tensor in file.tensors()}
    stored: dict[str, Callable[[], Tensor]] = {}
    for name, tensor in tensors.items():
        if name.endswith(".attn.query.weight"):
            prefix = name.removesuffix("query.weight")
            stored[f"{prefix}qkv.weight"] = _joined(tensors, prefix)
            stored[f"{prefix}qkv.bias"] = _joined_bias(tensors, prefix)
        elif not name.endswith(_FUSED):
            stored[name] = _flat_bias(tensor)
    formats = Counter(tensor.format for tensor in tensors.values() if len(tensor.shape) > 1)
    return WhisperFiles(
        path=path,
        dimensions=dimensions,
        vocabulary=Vocabulary(file.tokens(), dimensions.vocabulary),
        alignment_heads=ALIGNMENT_HEADS.get(dimensions.name, ()),
        stored=stored,
        format=formats.most_common(1)[0][0],
    )


def _flat_bias(tensor: StoredTensor) -> Callable[[], Tensor]:
    """Biases of convolutions are columns."""
    is_column = len(tensor.shape) == 2 and tensor.shape[1] == 1
    return lambda: values(tensor).reshape(-1) if is_column else values(tensor)


def _joined(tensors: dict[str, StoredTensor], prefix: str) -> Callable[[], Tensor]:
    names = [f"{prefix}{part}.weight" for part in ("query", "key", "value")]
    return lambda: np.concatenate([values(tensors[name]) for name in names])


def _joined_bias(tensors: dict[str, StoredTensor], prefix: str) -> Callable[[], Tensor]:
    """Keys have no bias."""

    def join() -> Tensor:
        query, value = (values(tensors[f"{prefix}{part}.bias"]) for part in ("query", "value"))
        return np.concatenate([query, np.zeros_like(query), value])

    return join
