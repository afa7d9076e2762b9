"""Where the catalog's data files lie."""

from __future__ import annotations

from pathlib import Path


def scenarios() -> dict[str, Path]:
    """Scenario packs by name."""
    folder = Path(__file__).parent / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}
