"""Limits and throttling of this process's control group, version 1 or 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from assay.observe.telemetry.sample import Value
from assay.observe.telemetry.sources.source import UnsupportedFieldError

Values = Mapping[str, Value | None]

_UNLIMITED: Final = 1 << 60
"""Version 1 writes the largest page-aligned integer for no limit."""


class Cgroup:
    """Files of the group; a limit is the tightest of the group and its ancestors."""

    cpu_fields = ("cgroup_cpu_seconds", "cgroup_throttled_seconds", "cgroup_throttled_periods")

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: dict[str, list[Path]] = {}

    def cpu(self) -> Values:
        """CPU time and what the quota held back; without a quota nothing is held."""
        values: dict[str, Value | None] = {}
        if folder := self._first("cpu.stat"):
            stat = _pairs(folder / "cpu.stat")
            if "usage_usec" in stat:
                values["cgroup_cpu_seconds"] = stat["usage_usec"] / 1e6
            if "throttled_usec" in stat:
                values["cgroup_throttled_seconds"] = stat["throttled_usec"] / 1e6
            elif "throttled_time" in stat:
                values["cgroup_throttled_seconds"] = stat["throttled_time"] / 1e9
            if "nr_throttled" in stat:
                values["cgroup_throttled_periods"] = stat["nr_throttled"]
        if "cgroup_cpu_seconds" not in values and (folder := self._first("cpuacct.usage")):
            values["cgroup_cpu_seconds"] = _number(folder / "cpuacct.usage") / 1e9
        if not values:
            raise UnsupportedFieldError("no cgroup with the cpu controller is visible")
        return values

    def memory(self) -> Values:
        """Memory in use."""
        for name in ("memory.current", "memory.usage_in_bytes"):
            if folder := self._first(name):
                return {"cgroup_memory_used_bytes": _number(folder / name)}
        raise UnsupportedFieldError("no cgroup with the memory controller is visible")

    def limits(self) -> Values:
        """Cores and bytes that may be used; None without a limit."""
        cores = [limit for path in self._all("cpu.max") if (limit := _quota_v2(path))]
        for path in self._all("cpu.cfs_quota_us"):
            quota = _number(path)
            if quota > 0:
                cores.append(quota / _number(path.with_name("cpu.cfs_period_us")))
        sizes = [
            limit
            for name in ("memory.max", "memory.limit_in_bytes")
            for path in self._all(name)
            if (limit := _size(path)) is not None
        ]
        return {
            "cgroup_cpu_limit": min(cores, default=None),
            "cgroup_memory_limit_bytes": min(sizes, default=None),
        }

    def _first(self, name: str) -> Path | None:
        return next((path.parent for path in self._all(name)), None)

    def _all(self, name: str) -> list[Path]:
        """The files of that name, the group's own first, then its ancestors'."""
        if name not in self._folders:
            self._folders[name] = [folder for folder in self._groups() if (folder / name).is_file()]
        return [folder / name for folder in self._folders[name]]

    def _groups(self) -> Iterator[Path]:
        """Folders of the group in every hierarchy, from the inside out."""
        try:
            lines = (self._root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        mounts = self._mounts()
        for line in lines:
            _, controllers, path = line.split(":", 2)
            for mount, options in mounts:
                if controllers and not set(controllers.split(",")) & options:
                    continue
                if not controllers and "cgroup2" not in options:
                    continue
                inner = mount / path.lstrip("/")
                # In a container the path may be the host's, whose folders are not visible.
                while not inner.is_dir() and inner != mount:
                    inner = inner.parent
                while True:
                    yield inner
                    if inner == mount:
                        break
                    inner = inner.parent

    def _mounts(self) -> list[tuple[Path, set[str]]]:
        try:
            lines = (self._root / "proc/self/mounts").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        mounts = []
        for line in lines:
            words = line.split()
            if len(words) >= 4 and words[2] in ("cgroup", "cgroup2"):
                folder = self._root / words[1].lstrip("/")
                mounts.append((folder, {words[2], *words[3].split(",")}))
        return mounts


def _pairs(path: Path) -> dict[str, int]:
    pairs = {}
    for line in path.read_text(encoding="ascii").splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdigit():
            pairs[words[0]] = int(words[1])
    return pairs


def _number(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def _quota_v2(path: Path) -> float | None:
    quota, period = path.read_text(encoding="ascii").split()
    return None if quota == "max" else int(quota) / int(period)


def _size(path: Path) -> int | None:
    text = path.read_text(encoding="ascii").strip()
    if text == "max" or int(text) >= _UNLIMITED:
        return None
    return int(text)
