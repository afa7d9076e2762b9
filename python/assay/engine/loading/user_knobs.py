"""Knobs as users write them: NAME=VALUE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import InputError


def read_knobs(texts: Sequence[str]) -> dict[str, Any]:
    """Knobs from NAME=VALUE arguments; the engine checks names and values.

    >>> read_knobs(["threads=2", "policy=fifo", "deterministic=true"])
    {'threads': 2, 'policy': 'fifo', 'deterministic': True}
    """
    knobs: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"--knob: expected NAME=VALUE, got {text!r}")
        if name in knobs:
            raise InputError(f"--knob: {name} is given twice")
        knobs[name] = _value(value)
    return knobs


def knob_texts(knobs: Mapping[str, Any]) -> list[str]:
    """Knobs as `read_knobs` takes them.

    >>> knob_texts({"threads": 2, "deterministic": True})
    ['threads=2', 'deterministic=true']
    """
    return [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in knobs.items()
    ]


def _value(text: str) -> int | str | bool:
    if text in ("true", "false"):
        return text == "true"
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else text
