"""The scenarios that come with Assay, bound to the stack's registry."""

from __future__ import annotations

from pathlib import Path

from assay import stack
from assay.errors import unknown_name
from assay.scenario.named_scenario import Preset


def presets() -> dict[str, Path]:
    """The scenarios that come with Assay: name and file."""
    folder = Path(__file__).parent / "presets"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def preset(name: str) -> Preset:
    """A scenario that comes with Assay, bound to the stack's registry."""
    known = presets()
    if name not in known:
        raise unknown_name("preset", name, known)
    return Preset.from_file(known[name], stack.registry())
