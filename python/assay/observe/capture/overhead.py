"""The overhead of capturing, as `assay bench tracing` last measured it on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from assay import paths

COMMAND: Final = "assay bench tracing"


def path() -> Path:
    """Where the last measurement is kept."""
    return paths.scratch() / "tracing-overhead.json"


def measured(fingerprint: str | None) -> dict[str, Any]:
    """The measurement of the machine and device with this fingerprint, or that there is none."""
    missing = {"measured": False, "reason": "not measured on this machine", "command": COMMAND}
    try:
        kept = json.loads(path().read_text(encoding="utf-8"))
        costs = kept.get(fingerprint)
    except (OSError, ValueError, AttributeError):
        return missing
    return {"measured": True, "command": COMMAND, **costs} if isinstance(costs, dict) else missing


def keep(fingerprint: str, figures: dict[str, Any]) -> None:
    """Keep a measurement for the headers of later traces."""
    try:
        kept = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = {}
    if not isinstance(kept, dict):
        kept = {}
    kept[fingerprint] = figures
    paths.write_atomically(path(), json.dumps(kept, indent=1).encode())
