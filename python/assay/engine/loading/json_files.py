"""JSON files of a model's folder, with typed errors for what is not JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError

_MAX_BYTES: Final = 256 << 20


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    data = _read(path)
    if not isinstance(data, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(data).__name__}")
    return data


def read_json_list(path: Path) -> list[Any]:
    """A JSON list from a file."""
    data = _read(path)
    if not isinstance(data, list):
        raise InputError(f"{path}: expected a JSON list, got {type(data).__name__}")
    return data


def optional_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or an empty one where there is no file."""
    return read_json(path) if path.exists() else {}


def _read(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: expected a file, got none")
    if path.stat().st_size > _MAX_BYTES:
        raise InputError(f"{path}: expected at most {_MAX_BYTES} bytes, got {path.stat().st_size}")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON, got: {error}") from None
