"""Fitted constants of accelerators, keyed by the names of the graph's variables.

Every file of `calibration/` that has a `system` and `constants` is read; several may describe one
system. `common` holds constants that do not depend on the accelerator. Constants of one engine's
kernels are under `engines`; those of the default engine are the system's own.

    >>> given("h100_sxm")["kernels.gemm.read_share"] > 0.8
    True
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from assay.errors import unknown_name

_FOLDER = Path(__file__).parent / "calibration"
COMMON = "common"
_MEASURED = "kernels.gemm.sustained_share"
"""A constant that every accelerator with measured kernels has."""

_TRANSFER = "model_error.transfer"
"""Ending of the names of model errors on accelerators that no fit has seen."""

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

KINDS_OF_SYSTEMS = (
    (("mi", "gaudi", "tpu", "trainium"), "other_makers"),
    (("tpu", "trainium"), "torus"),
)
"""What holds for all systems whose names start so, before what is a system's own.

Accelerators of other makers than NVIDIA run other software: their error of transfer is what the
published figures of each other are missed by. In a torus no rank reaches all others in one hop.
"""


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
    correlations: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Correlations of the logarithms of fitted constants, by pair in order of their names."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """How each constant was obtained, `measured` where its file does not say."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a prediction that uses these constants."""
        accelerator = self.accelerator or self.system
        notes = [f"{layer}: constants of {_fallback(self.system)}" for layer in self.borrowed]
        if self.source_system != accelerator:
            notes = [f"no kernel measurements of {accelerator}: constants of {self.source_system}"]
        scopes = [n.partition(".")[0] for n in self.log_standard_errors if n.endswith(_TRANSFER)]
        if scopes:
            fits = " or ".join(sorted(scopes, reverse=True))
            notes.append(f"no fit of {fits} has seen {accelerator}: wider intervals")
        return tuple(notes)


def calibrated() -> list[str]:
    """Names of the accelerators whose own kernels were measured."""
    own = {str(data["system"]) for data in _files() if _MEASURED in data["constants"]}
    return sorted(own - {COMMON})


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


def _kinds(system: str) -> tuple[str, ...]:
    return tuple(name for starts, name in KINDS_OF_SYSTEMS if system.startswith(starts))


def is_other_maker(system: str) -> bool:
    """Whether an accelerator runs other software than that which constants were fitted on.

    >>> is_other_maker("mi300x"), is_other_maker("l40s")
    (True, False)
    """
    return "other_makers" in _kinds(system)


def _chain(system: str) -> list[dict[str, Any]]:
    """Calibration files for an accelerator, general ones first; later ones override earlier ones."""
    sources = dict.fromkeys((COMMON, _fallback(system), *_kinds(system), system))
    return [data for source in sources for data in _files() if data["system"] == source]


def find(system: str, engine: str | None = None, *, accelerator: str = "") -> Calibration:
    """All fitted constants of an accelerator, its own or borrowed, for an engine's kernels.

    `accelerator` names the one that uses them, for its notes, where its entry chose this system.
    """
    return _find(system, engine, accelerator)


@cache
def _find(system: str, engine: str | None, accelerator: str) -> Calibration:
    chosen = engines(system)
    if engine is not None and engine not in chosen:
        raise unknown_name("engine", engine, chosen)
    entries: dict[str, Any] = {}
    sources: dict[str, str] = {}
    correlations: dict[tuple[str, str], float] = {}
    for data in _chain(system):
        own = data.get("engines", {}).get(engine, {}) if engine is not None else {}
        applied = {**data["constants"], **own}
        if data["system"] not in (COMMON, *_kinds(system), system):
            # What holds for one accelerator only, such as that a fit has seen it.
            applied = {name: entry for name, entry in applied.items() if not entry.get("own_only")}
        replaced = entries.keys() & applied.keys()
        entries.update(applied)
        sources.update(dict.fromkeys(applied, str(data["system"])))
        correlations = {p: v for p, v in correlations.items() if replaced.isdisjoint(p)}
        correlations |= read_correlations(data.get("correlations", ()))
    own_sources = {COMMON, *_kinds(system), system}
    others = {name for name, source in sources.items() if source not in own_sources}
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
        {
            pair: value
            for pair, value in correlations.items()
            # Correlations are those of the default engine's kernels.
            if engine is None or all("kernels." not in name for name in pair)
        },
        {name: str(entry["kind"]) for name, entry in entries.items() if "kind" in entry},
    )


def read_correlations(blocks: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """Correlations as calibration files have them: names, and the rows below the diagonal.

    >>> read_correlations([{"names": ["a", "b"], "below": [[0.5]]}])
    {('a', 'b'): 0.5}
    """
    return {
        (min(name, other), max(name, other)): value
        for block in blocks
        for name, row in zip(block["names"][1:], block["below"], strict=True)
        for other, value in zip(block["names"], row, strict=False)
        if value
    }


def given(system: str, engine: str | None = None) -> dict[str, float]:
    """Values by full name, as `registry.resolve(given=...)` takes them."""
    return dict(find(system, engine).values)


@cache
def _files() -> tuple[dict[str, Any], ...]:
    read = [json.loads(path.read_text()) for path in sorted(_FOLDER.glob("*.json"))]
    return tuple(data for data in read if "system" in data and "constants" in data)
