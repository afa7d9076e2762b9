"""Readers for user-supplied files: JSON, TOML, YAML, text and bytes, with one-line errors."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError

MAX_BYTES: Final = 64 << 20
"""Size limit: no hand-written file is larger."""
MAX_YAML_BYTES: Final = 1 << 18
"""YAML is parsed in Python, at about 100 kB a second."""


def read_json(what: str, path: Path, max_bytes: int = MAX_BYTES) -> Any:
    """The content of a JSON file; `what` names its kind in errors."""
    text = read_text(what, path, max_bytes)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} {path} cannot be read: expected JSON, got: {error}") from None


def read_toml(what: str, path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The content of a TOML file; `what` names its kind in errors."""
    import tomllib

    text = read_text(what, path, max_bytes)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{what} {path} cannot be read: expected TOML, got: {error}") from None


def read_yaml(what: str, path: Path, max_bytes: int = MAX_YAML_BYTES) -> Any:
    """The content of a YAML file without aliases and tags; `what` names its kind in errors."""
    from assay import yaml_text

    return yaml_text.loads(read_text(what, path, max_bytes), f"{what} {path}")


def read_text(what: str, path: Path, max_bytes: int = MAX_BYTES) -> str:
    """The text of a file in UTF-8; `what` names its kind in errors.

    A byte-order mark, as editors of Windows write it, is no part of the text.
    """
    try:
        # As a text file: all line ends become one.
        return io.TextIOWrapper(io.BytesIO(read_bytes(what, path, max_bytes)), "utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise InputError(f"{what} {path} cannot be read: expected UTF-8, got: {error}") from None


def read_bytes(what: str, path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file; `what` names its kind in errors."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise InputError(
                f"{what} {path} cannot be read: expected at most {max_bytes:,} bytes, got {size:,}"
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror}") from None
