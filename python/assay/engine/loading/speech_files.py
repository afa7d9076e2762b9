"""Where the files of a model of speech are."""

from __future__ import annotations

from pathlib import Path

from assay.engine.loading import sources
from assay.errors import InputError


def speech_folder(name: str) -> Path:
    """The folder of a model of speech that was downloaded."""
    if not sources.is_pulled(name):
        raise InputError(
            f'model "{name}": expected it in {sources.models_folder()}, got no such files',
            f"fetch it with: assay pull {name}",
        )
    return sources.folder_of(name)
