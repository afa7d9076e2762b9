"""Fitted constants of accelerators, keyed by the names of the graph's variables.

Every file of `calibration/` that has a `system` and `constants` is read; several may describe one
system. `common` holds constants that do not depend on the accelerator. Constants of one engine's
kernels are under `engines`; those of the default engine are the system's own.

    >>> given("h100_sxm")["kernels.gemm.read_share"] > 0.8
    True
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.errors import unknown_name

_FOLDER = Path(__file__).parent / "calibration"
COMMON = "common"

FALLBACK_SYSTEMS = (
    (("a100", "a800", "a30", "v100", "t4", "a10", "l4", "l40", "rtx"), "a100_sxm"),
    (("h200", "h20"), "h200_sxm"),
    (("h100", "h800", "gh200"), "h100_sxm"),
    (("b200", "gb200", "b300", "gb300", "b100"), "b200_sxm"),
)
"""The system whose constants an accelerator without a calibration uses, by the start of its name.

Kernels for one generation of tensor cores are alike; those before Hopper issue `mma` as the A100
does. An accelerator that matches none uses the H100's.
"""
_DEFAULT_FALLBACK = "h100_sxm"


@dataclass(frozen=True)
class Calibration:
    """Constants of one accelerator in base units, with standard errors of their logarithms."""

    system: str
    source_system: str
    engine: str
    values: dict[str, float]
    log_standard_errors: dict[str, float]
    borrowed: tuple[str, ...] = ()
    """Layers that use the fallback system's constants although others have their own."""
    accelerator: str = ""
    """The accelerator that uses the constants, where it is not the system itself."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a prediction that uses these constants."""
        accelerator = self.accelerator or self.system
        if self.source_system != accelerator:
            return (f"no kernel measurements of {accelerator}: constants of {self.source_system}",)
        fallback = _fallback(self.system)
        return tuple(f"{layer}: constants of {fallback}" for layer in self.borrowed)


def calibrated() -> list[str]:
    """Names of the accelerators that have fitted constants of their own."""
    return sorted({str(data["system"]) for data in _files()} - {COMMON})


def engines(system: str) -> list[str]:
    """Engines whose kernels were measured on an accelerator, the default one first."""
    names: list[str] = []
    for data in _chain(system):
        names += [str(data["default_engine"])] if "default_engine" in data else []
        names += data.get("engines", {})
    return list(dict.fromkeys(names))


def source_system(system: str) -> str:
    """The system whose constants an accelerator uses: its own where it has a calibration."""
    return system if system in calibrated() else _fallback(system)


def _fallback(system: str) -> str:
    for starts, name in FALLBACK_SYSTEMS:
        if system.startswith(starts):
            return name
    return _DEFAULT_FALLBACK


def _chain(system: str) -> list[dict[str, Any]]:
    """Calibration files for an accelerator, general ones first; later ones override earlier ones."""
    sources = dict.fromkeys((COMMON, _fallback(system), system))
    return [data for source in sources for data in _files() if data["system"] == source]


def find(system: str, engine: str | None = None, *, accelerator: str = "") -> Calibration:
    """All fitted constants of an accelerator, its own or borrowed, for an engine's kernels.

    `accelerator` names the one that uses them, for its notes, where its entry chose this system.
    """
    chosen = engines(system)
    if engine is not None and engine not in chosen:
        raise unknown_name("engine", engine, chosen)
    entries: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for data in _chain(system):
        own = data.get("engines", {}).get(engine, {}) if engine is not None else {}
        entries.update({**data["constants"], **own})
        sources.update(dict.fromkeys((*data["constants"], *own), str(data["system"])))
    others = {name for name, source in sources.items() if source not in (COMMON, system)}
    return Calibration(
        system,
        source_system(system),
        engine or (chosen[0] if chosen else ""),
        {name: float(entry["value"]) for name, entry in entries.items()},
        {
            name: float(entry["log_standard_error"])
            for name, entry in entries.items()
            if "log_standard_error" in entry
        },
        tuple(sorted({name.partition(".")[0] for name in others})),
        accelerator,
    )


def given(system: str, engine: str | None = None) -> dict[str, float]:
    """Values by full name, as `registry.resolve(given=...)` takes them."""
    return find(system, engine).values


@cache
def _files() -> tuple[dict[str, Any], ...]:
    read = [json.loads(path.read_text()) for path in sorted(_FOLDER.glob("*.json"))]
    return tuple(data for data in read if "system" in data and "constants" in data)
