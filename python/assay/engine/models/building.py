"""Models from files; equal ones are made once and shared."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from assay.engine.loading import ModelFiles
from assay.engine.models import gpt2, llama, mistral, qwen2, qwen3
from assay.engine.models.model import Model
from assay.engine.models.weights import WeightSource
from assay.runtime import Device

ARCHITECTURES: dict[str, Callable[[WeightSource], Model]] = {
    "gpt2": gpt2.build,
    "llama": llama.build,
    "mistral": mistral.build,
    "qwen2": qwen2.build,
    "qwen3": qwen3.build,
}
"""What builds a model of each architecture."""

Key = tuple[object, ...]

_SHARED: weakref.WeakValueDictionary[Key, Model] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def build_model(files: ModelFiles, device: Device, weight_format: str | None = None) -> Model:
    """The model of these files on this device; None keeps the format of the file.

    Weights never change, so engines over the same files share one model while any of them lives.
    """
    key = (*_identity(files), id(device), weight_format)
    with _LOCK:
        model = _SHARED.get(key)
        if model is None:
            model = ARCHITECTURES[files.architecture](WeightSource(files, device, weight_format))
            _SHARED[key] = model
        return model


def _identity(files: ModelFiles) -> Key:
    """What tells files apart; a file that was replaced is another one."""
    if files.path is None:
        return ("made up", files.name, files.nbytes)
    found = files.path.stat()
    return (files.path.resolve(), found.st_ino, found.st_mtime_ns, found.st_size)
