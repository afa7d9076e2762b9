"""Fitted constants of kernels per accelerator, with what is known of the accelerator itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from assay.errors import unknown_name

_FOLDER = Path(__file__).parent / "calibration"
_PREFIX = "kernels_"


@dataclass(frozen=True)
class KernelCalibration:
    """One accelerator: its device values, and constants by operation and by kernel family.

    Constants and spreads are keyed by operation (`gemm`, `prefill`, `decode`), then by the
    framework whose kernels they describe, `all` where one set serves every framework. Names
    lack the scope, values are in base units.
    """

    system: str
    device: dict[str, float]
    peak_flops: float
    peak_bandwidth: float
    constants: dict[str, dict[str, dict[str, float]]]
    spread: dict[str, dict[str, float]]

    def given(self, operation: str, framework: str = "all") -> dict[str, float]:
        """Values by full name, as `registry.resolve(given=...)` takes them."""
        scope = f"kernels.{operation}"
        values = {f"kernels.device.{name}": value for name, value in self.device.items()}
        for name, value in self.constants[operation][framework].items():
            values[f"{scope}.{name}"] = value
        values[f"{scope}.spread"] = self.spread[operation][framework]
        return values


def calibrated_systems() -> list[str]:
    """Names of the accelerators that have fitted constants."""
    return sorted(path.stem.removeprefix(_PREFIX) for path in _FOLDER.glob(f"{_PREFIX}*.json"))


def kernel_calibration(system: str) -> KernelCalibration:
    """The constants of one accelerator."""
    path = _FOLDER / f"{_PREFIX}{system}.json"
    if not path.is_file():
        raise unknown_name("accelerator", system, calibrated_systems())
    data = json.loads(path.read_text())
    device = {name: float(fact["value"]) for name, fact in data["device"].items()}
    constants: dict[str, dict[str, dict[str, float]]] = {}
    spread: dict[str, dict[str, float]] = {}
    for fit in data["fits"]:
        values = {entry["name"]: float(entry["value"]) for entry in fit["constants"]}
        constants.setdefault(fit["operation"], {})[fit["tables"]] = values
        spread.setdefault(fit["operation"], {})[fit["tables"]] = float(fit["spread"])
    return KernelCalibration(
        system,
        {name: device[name] for name in ("multiprocessors", "cache_capacity")},
        device["peak_flops"],
        device["peak_bandwidth"],
        constants,
        spread,
    )
