"""Fitted constants of accelerators, keyed by the names of the graph's variables.

Every file of `calibration/` that names a `system` and has `constants` counts; several may
describe one system. `common` holds what does not depend on the accelerator. Constants that
belong to one engine's kernels stand under `engines`; the default engine's are the system's own.

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

LENDERS = (
    (("a100", "a800", "a30", "v100", "t4", "a10", "l4", "l40", "rtx"), "a100_sxm"),
    (("h200", "h20"), "h200_sxm"),
    (("h100", "h800", "gh200"), "h100_sxm"),
    (("b200", "gb200", "b300", "gb300", "b100"), "b200_sxm"),
)
"""Whose constants an accelerator without own ones borrows, by the start of its name.

Kernels of one generation of tensor cores are alike; those before Hopper issue products the way
the A100 does. An accelerator named nowhere borrows the H100's.
"""
_LAST_LENDER = "h100_sxm"


@dataclass(frozen=True)
class Calibration:
    """Constants of one accelerator in base units, with how sure they are and where they are from."""

    system: str
    lender: str
    engine: str
    values: dict[str, float]
    log_standard_errors: dict[str, float]
    borrowed: tuple[str, ...] = ()
    """Layers whose constants are a relative's although others are the accelerator's own."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a prediction that uses these constants should say."""
        if self.lender != self.system:
            return (f"no kernel measurements of {self.system}: constants of {self.lender}",)
        relative = _relative(self.system)
        return tuple(f"{layer}: constants of {relative}" for layer in self.borrowed)


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


def lender(system: str) -> str:
    """Whose constants an accelerator uses: its own where it has some."""
    return system if system in calibrated() else _relative(system)


def _relative(system: str) -> str:
    for starts, name in LENDERS:
        if system.startswith(starts):
            return name
    return _LAST_LENDER


def _chain(system: str) -> list[dict[str, Any]]:
    """What holds for an accelerator, from the general to its own, which goes last and wins."""
    sources = dict.fromkeys((COMMON, _relative(system), system))
    return [data for source in sources for data in _files() if data["system"] == source]


def find(system: str, engine: str | None = None) -> Calibration:
    """All fitted constants of an accelerator, its own or borrowed, for an engine's kernels."""
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
        lender(system),
        engine or (chosen[0] if chosen else ""),
        {name: float(entry["value"]) for name, entry in entries.items()},
        {
            name: float(entry["log_standard_error"])
            for name, entry in entries.items()
            if "log_standard_error" in entry
        },
        tuple(sorted({name.partition(".")[0] for name in others})),
    )


def given(system: str, engine: str | None = None) -> dict[str, float]:
    """Values by full name, as `registry.resolve(given=...)` takes them."""
    return find(system, engine).values


@cache
def _files() -> tuple[dict[str, Any], ...]:
    read = [json.loads(path.read_text()) for path in sorted(_FOLDER.glob("*.json"))]
    return tuple(data for data in read if "system" in data and "constants" in data)
