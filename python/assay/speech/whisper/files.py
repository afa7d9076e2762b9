"""Files of Whisper models, in the names that openai/whisper gives to tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay._native import StoredTensor
from assay.errors import InputError
from assay.lazy_import import np
from assay.speech.whisper.vocabulary import Vocabulary

if TYPE_CHECKING:
    import numpy.typing as npt

    Tensor = npt.NDArray[Any]

Heads = tuple[tuple[int, int], ...]

_DTYPES: Final = {"f32": "<f4", "f16": "<f2", "i8": "i1", "i16": "<i2", "i32": "<i4"}


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of a Whisper model."""

    mels: int
    audio_context: int
    audio_width: int
    audio_heads: int
    audio_layers: int
    text_context: int
    text_width: int
    text_heads: int
    text_layers: int
    vocabulary: int

    @property
    def name(self) -> str:
        """Its size, as OpenAI calls it."""
        sizes = {4: "tiny", 6: "base", 12: "small", 24: "medium", 32: "large"}
        name = sizes.get(self.audio_layers, f"{self.audio_layers} layers")
        return name if self.vocabulary > 51_864 else f"{name}.en"


ALIGNMENT_HEADS: Final[dict[str, Heads]] = {
    "tiny.en": ((1, 0), (2, 0), (2, 5), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)),
    "tiny": ((2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)),
    "base.en": ((3, 3), (4, 7), (5, 1), (5, 5), (5, 7)),
    "base": ((3, 1), (4, 2), (4, 3), (4, 7), (5, 1), (5, 2), (5, 4), (5, 6)),
}
"""Layers and heads of the cross-attention that follow the words, for files that do not say
(`src/whisper.cpp` of ggml-org/whisper.cpp, g_aheads)."""


@dataclass(frozen=True, slots=True)
class WhisperFiles:
    """A model on disk."""

    path: Path
    dimensions: Dimensions
    vocabulary: Vocabulary
    alignment_heads: Heads
    """Empty where the file does not say and the size is not known."""
    stored: Mapping[str, Callable[[], Tensor]]
    format: str
    """The format of most weights."""
    notes: tuple[str, ...] = field(default=())

    def tensor(self, name: str) -> Tensor:
        """A tensor as it is stored: float16 or float32."""
        if name not in self.stored:
            raise InputError(f"{self.path}: expected a tensor {name}, got none")
        return self.stored[name]()


def values(tensor: StoredTensor) -> Tensor:
    """A tensor of a file as an array over the file's memory."""
    if tensor.format not in _DTYPES:
        raise InputError(
            f"tensor {tensor.name}: expected f32 or f16, got {tensor.format}",
            "quantized Whisper files are not read; take the one of 16 bits",
        )
    array: Tensor = np.frombuffer(tensor, np.dtype(_DTYPES[tensor.format]))  # type: ignore[call-overload]
    return array.reshape(tensor.shape)
