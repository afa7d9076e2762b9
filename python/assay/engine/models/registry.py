"""Models built from files; engines over the same files share one."""

from __future__ import annotations

import threading
import weakref

from assay.engine.loading import ModelFiles
from assay.engine.models.builder import build
from assay.engine.models.model import Model
from assay.engine.models.weights import WeightSource
from assay.runtime import Device

Key = tuple[object, ...]

_SHARED: weakref.WeakValueDictionary[Key, Model] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def build_model(
    files: ModelFiles, device: Device, weight_format: str | None = None, *, offload_layers: int = 0
) -> Model:
    """The model of these files on this device; `weight_format` None keeps the file's.

    The weights of `offload_layers` layers stay in host memory and are copied in every step.

    Weights are immutable: engines over the same files share one model while any of them lives.
    """
    key = (*_identity(files), id(device), weight_format, offload_layers)
    with _LOCK:
        model = _SHARED.get(key)
        if model is None:
            source = WeightSource(files, device, weight_format)
            model = build(source, offload_layers=offload_layers)
            _SHARED[key] = model
        return model


def _identity(files: ModelFiles) -> Key:
    """A key of the files on disk; it changes when a file is replaced."""
    if files.path is None:
        # The names of synthetic models tell their weights; other names tell nothing.
        return ("in memory", files.name, files.nbytes if files.synthetic else files.identity)
    paths = sorted(files.path.iterdir()) if files.path.is_dir() else [files.path]
    stats = [(path.name, path.stat()) for path in paths]
    return (
        files.path.resolve(),
        *((name, one.st_ino, one.st_mtime_ns, one.st_size) for name, one in stats),
    )


HASHED_BYTES = 4096
"""Bytes at either end of a tensor that its fingerprint covers."""


def fingerprint(files: ModelFiles) -> str:
    """SHA-256 over every tensor's name, format, shape and first and last bytes."""
    import hashlib

    digest = hashlib.sha256()
    for name, tensor in sorted(files.tensors.items()):
        digest.update(f"{name} {tensor.format} {tensor.shape}\n".encode())
        stored = tensor.bytes.cast("B")
        digest.update(stored[:HASHED_BYTES])
        digest.update(stored[-HASHED_BYTES:])
    return digest.hexdigest()
