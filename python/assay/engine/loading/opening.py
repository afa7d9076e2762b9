"""Opens a model by path or by name."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from assay.engine.loading import hub, sources
from assay.engine.loading.model_files import ModelFiles
from assay.engine.loading.speech_sources import SPEECH_SOURCES
from assay.errors import InputError

SYNTHETIC = "synthetic"
"""The name of the small in-memory model."""

DUMMY_SUFFIX = "-shape"
"""The suffix of models with a published shape and random weights."""


def open_model(source: str | PathLike[str]) -> ModelFiles:
    """Open a GGUF file, a Hugging Face folder, or a model known by name.

    Nothing is downloaded: a name, a repository or an address stands for what `assay pull` has put
    into the scratch folder, "synthetic" for a small in-memory model with random weights, and names that end in "-shape"
    for models of a published shape with random weights.
    """
    text = str(source)
    if text == SYNTHETIC:
        from assay.engine.loading.synthetic import synthetic_model

        return synthetic_model()
    if text.endswith(DUMMY_SUFFIX):
        from assay.engine.loading.dummy_weights import SHAPES, dummy_model

        if text in SHAPES:
            return dummy_model(text)
    if text in sources.SOURCES:
        if not sources.is_pulled(text):
            raise InputError(
                f'model "{text}": expected it in {sources.models_folder()}, got no such file',
                f"fetch it with: assay pull {text}",
            )
        if text in SPEECH_SOURCES:
            raise InputError(
                f'model "{text}": expected a model of text, got one of speech',
                "what it does: assay models; see docs/guides/speech.md",
            )
        return _open_path(sources.pulled_path(text))
    path = Path(source)
    if path.exists():
        return _open_path(path)
    if (remote := hub.parse(text)) is not None:
        stored = hub.stored_path(remote)
        if stored is None:
            raise InputError(
                f'model "{text}": expected a path, or a model that was fetched, got neither',
                f"fetch it with: assay pull {remote.command}",
            )
        return replace(_open_path(stored), name=_name_of(remote))
    from assay.engine.loading.dummy_weights import SHAPES

    raise InputError(
        f'model "{text}": expected a GGUF file, a Hugging Face folder or a name, got neither',
        f"names: {', '.join((*sources.SOURCES, SYNTHETIC, *SHAPES))}",
    )


def _name_of(remote: hub.Remote) -> str:
    """The name of a model that was fetched, which its folder may not have."""
    return remote.name if isinstance(remote, hub.Repository) else remote.file_name


def _open_path(path: Path) -> ModelFiles:
    if path.is_dir():
        from assay.engine.loading.hugging_face import open_folder

        return open_folder(path)
    if path.suffix == ".safetensors":
        raise InputError(
            f"{path}: expected the folder that holds config.json, got one of its files",
            f"open {path.parent}",
        )
    from assay.engine.loading.gguf import open_gguf

    return open_gguf(path)
