"""Opens Whisper models of any file format."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.runtime import Device, device as device_named
from assay.speech.whisper.ctranslate2_files import open_ctranslate2
from assay.speech.whisper.decoder import Decoder
from assay.speech.whisper.encoder import Encoder
from assay.speech.whisper.files import WhisperFiles
from assay.speech.whisper.ggml_files import open_ggml
from assay.speech.whisper.layers import COMPUTE_TYPES, Loader


class WhisperModel:
    """A model in device memory."""

    def __init__(
        self,
        files: WhisperFiles,
        device: Device | str = "cpu",
        compute_type: str = COMPUTE_TYPES[0],
    ) -> None:
        """Load a model of these files; `int8` quantizes its weights."""
        loader = Loader(files, device_named(device), compute_type)
        self.files: Final = files
        self.vocabulary: Final = files.vocabulary
        self.encoder: Final = Encoder(loader)
        self.decoder: Final = Decoder(loader)


def open_files(path: Path) -> WhisperFiles:
    """A ggml file of whisper.cpp, or a folder of CTranslate2."""
    if path.is_dir() and (path / "model.bin").is_file():
        return open_ctranslate2(path)
    if path.name == "model.bin" and path.is_file():
        return open_ctranslate2(path.parent)
    if path.is_file():
        return open_ggml(path)
    raise InputError(
        f"{path}: expected a Whisper model, got {'a folder without model.bin' if path.is_dir() else 'no such file'}",
        "a ggml file of whisper.cpp, or a folder of CTranslate2 with model.bin",
    )
