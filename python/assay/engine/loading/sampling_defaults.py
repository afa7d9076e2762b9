"""The sampling parameters that a checkpoint states, for requests that do not give their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assay.engine.loading.gguf_metadata import GgufMetadata
from assay.engine.loading.json_files import optional_json
from assay.errors import InputError

_RANGES: Final = {
    "temperature": (0.0, math.inf),
    "top_k": (0, 2**31 - 1),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.0, math.inf),
}
"""The parameters that are read, as vLLM reads them, and the range of each."""

_POSITIVE: Final = ("top_p", "repetition_penalty")

_GGUF_KEYS: Final = {
    "temperature": "general.sampling.temp",
    "top_k": "general.sampling.top_k",
    "top_p": "general.sampling.top_p",
    "min_p": "general.sampling.min_p",
    "repetition_penalty": "general.sampling.penalty_repeat",
}
"""The names that llama.cpp gives them."""


def from_folder(folder: Path) -> dict[str, float]:
    """Those of generation_config.json; what it does not state is not guessed."""
    path = folder / "generation_config.json"
    return _checked(str(path), optional_json(path))


def from_gguf(metadata: GgufMetadata) -> dict[str, float]:
    """Those of a GGUF file's metadata."""
    stated = {name: metadata.value(key) for name, key in _GGUF_KEYS.items() if key in metadata}
    return _checked(metadata.where, stated)


def _checked(where: str, stated: Mapping[str, Any]) -> dict[str, float]:
    defaults: dict[str, float] = {}
    for name, (least, most) in _RANGES.items():
        value = stated.get(name)
        if value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = is_number and math.isfinite(value) and least <= value <= most
        if not fits or (name in _POSITIVE and value <= 0) or (name == "top_k" and value % 1):
            raise InputError(f"{where}: expected {name} from {least:g} to {most:g}, got {value!r}")
        defaults[name] = int(value) if name == "top_k" else float(value)
    return defaults
