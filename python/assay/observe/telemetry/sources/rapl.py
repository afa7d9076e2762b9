"""RAPL: energy counters of CPU packages and memory, from the powercap folder of sysfs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assay.observe.telemetry.sources.source import UnsupportedFieldError


class Rapl:
    """Energy since the recording began, over all packages; wrap-around is undone."""

    fields = ("host_package_energy_joules", "host_dram_energy_joules")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._zones: list[_Zone] | None = None

    def read(self) -> Mapping[str, float | None]:
        """Joules of packages and of memory; None for what the machine does not count."""
        if self._zones is None:
            self._zones = self._find()
        sums: dict[str, float] = {}
        for zone in self._zones:
            joules = zone.read()
            sums[zone.field] = sums.get(zone.field, 0.0) + joules
        return {name: sums.get(name) for name in self.fields}

    def _find(self) -> list[_Zone]:
        if not self._folder.is_dir():
            raise UnsupportedFieldError(f"{self._folder}: not present")
        zones = []
        for path in sorted(self._folder.glob("intel-rapl:*")):
            try:
                name = (path / "name").read_text(encoding="ascii").strip()
            except OSError:
                continue
            if name.startswith("package"):
                zones.append(_Zone(path, "host_package_energy_joules"))
            elif name == "dram":
                zones.append(_Zone(path, "host_dram_energy_joules"))
        if not zones:
            raise UnsupportedFieldError(f"{self._folder}: no RAPL zone")
        for zone in zones:
            try:
                zone.read()
            except OSError as error:
                # The kernel lets only root read it since the side channel of 2020.
                raise UnsupportedFieldError(f"{zone.path}: {error.strerror}") from error
        return zones


class _Zone:
    """One counter of microjoules that wraps around."""

    def __init__(self, path: Path, field: str) -> None:
        self.path = path / "energy_uj"
        self.field = field
        try:
            self._range = int((path / "max_energy_range_uj").read_text(encoding="ascii"))
        except (OSError, ValueError):
            self._range = 0
        self._last: int | None = None
        self._total = 0

    def read(self) -> float:
        """Joules since the first read."""
        now = int(self.path.read_text(encoding="ascii"))
        if self._last is not None:
            grown = now - self._last
            if grown < 0:
                grown += self._range
            self._total += max(grown, 0)
        self._last = now
        return self._total / 1e6
