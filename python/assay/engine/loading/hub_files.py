"""Which files of a repository make a model: one GGUF file, or a folder of safetensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from assay.errors import InputError

PREFERRED: Final = ("Q4_K_M", "Q8_0")
"""The quantization of a GGUF file where none is named: the first is llama.cpp's default."""

_SPLIT: Final = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_TEXTS: Final = (".json", ".jinja", ".txt", ".model")
_LISTED: Final = 12


class Selection(NamedTuple):
    """Files to download, and the one that opens the model; empty for the folder."""

    files: list[str]
    opens: str
    note: str = ""


def select(where: str, names: Sequence[str], wanted: str | None) -> Selection:
    """The files of a model among those of a repository."""
    ggufs = _by_model(name for name in names if name.endswith(".gguf"))
    if wanted is not None:
        if wanted in names and not wanted.endswith(".gguf"):
            raise InputError(
                f"{where}: expected a GGUF file or a quantization, got {wanted!r}",
                "without a file, all that the model needs is fetched",
            )
        return _gguf(where, ggufs, wanted)
    if "config.json" in names or "adapter_config.json" in names:
        weights = [name for name in names if _is_weights(name)]
        if weights:
            return Selection([*weights, *(name for name in names if _is_text(name))], "")
    if len(ggufs) == 1:
        return _selection(next(iter(ggufs.values())))
    for quantization in PREFERRED:
        matches = _matching(ggufs, quantization)
        if len(matches) == 1:
            note = f"{len(ggufs)} GGUF files: taking {quantization}; name another as :QUANTIZATION"
            return _selection(ggufs[matches[0]], note)
    raise InputError(
        f"{where}: expected safetensors with config.json or GGUF files, got {_listed(names)}",
        "name one of its files as ORG/NAME:FILE" if ggufs else "other formats are not read",
    )


def _gguf(where: str, ggufs: dict[str, list[str]], wanted: str) -> Selection:
    for files in ggufs.values():
        if wanted in files:
            return _selection(files)
    matches = _matching(ggufs, wanted)
    if len(matches) != 1:
        raise InputError(
            f"{where}: expected {wanted!r} as one of its GGUF files or their quantizations, got "
            f"{'several' if matches else 'none'}",
            f"it has {_listed([files[0] for files in ggufs.values()])}",
        )
    return _selection(ggufs[matches[0]])


def _matching(ggufs: dict[str, list[str]], quantization: str) -> list[str]:
    return [name for name in ggufs if _has_part(name.lower(), quantization.lower())]


def _has_part(name: str, part: str) -> bool:
    """Whether a name has a part between separators or its ends.

    >>> _has_part("m-q4_k_m", "q4_k_m"), _has_part("m-iq4_k_m", "q4_k_m")
    (True, False)
    """
    return any(
        (not before or before[-1] in "-._/") and (not after or after[0] in "-._")
        for before, after in pairwise(name.split(part))
    )


def _by_model(names: Iterable[str]) -> dict[str, list[str]]:
    """GGUF files by name; those of a split model together, and none of an image encoder."""
    models: dict[str, list[str]] = {}
    for name in sorted(names):
        if not PurePosixPath(name).name.startswith("mmproj"):
            models.setdefault(_SPLIT.sub("", name).removesuffix(".gguf"), []).append(name)
    return models


def _selection(files: list[str], note: str = "") -> Selection:
    return Selection(files, files[0], note)


def _is_weights(name: str) -> bool:
    # Mistral's own format, consolidated, is a second copy.
    return name.endswith(".safetensors") and "/" not in name and not name.startswith("consolidated")


def _is_text(name: str) -> bool:
    """Configuration, tokenizer and template; the pooling of encoders is in a folder below."""
    path = PurePosixPath(name)
    is_pooling = len(path.parts) == 2 and path.name == "config.json"
    return path.suffix in _TEXTS and (len(path.parts) == 1 or is_pooling)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return (shown + (" ..." if len(names) > _LISTED else "")) or "no files"
