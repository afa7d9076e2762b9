"""The fingerprint of the machine and device that a measurement belongs to."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from assay.runtime.cuda import probe
from assay.runtime.hardware import Device
from assay.runtime.survey import processor

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_SUFFIXES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware properties that determine performance, as far as they can be queried."""

    processor: str
    usable_cores: int
    features: tuple[str, ...]
    cache_bytes: int | None
    """The device's last-level cache; None where it is unknown."""
    memory_gib: int
    """Rounded: the memory that the operating system reserves differs between versions."""
    system: str
    device: str
    device_description: str

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for equal machines and devices."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_data(self) -> dict[str, Any]:
        """The properties as a dict, with the fingerprint."""
        return {"fingerprint": self.fingerprint, **asdict(self)}


def machine(device: Device) -> Machine:
    """This machine and one of its devices."""
    found = processor()
    return Machine(
        processor=found["name"],
        usable_cores=found["usable_cores"],
        features=tuple(found["features"]),
        cache_bytes=cache_bytes(device),
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        system=f"{platform.system()} {platform.machine()}",
        device=device.name,
        device_description=device.description,
    )


def cache_bytes(device: Device) -> int | None:
    """The size of the device's last-level cache; None where it is unknown."""
    if device.host_memory:
        return last_level_cache_bytes()
    if not device.capabilities.is_gpu:
        return None
    return probe().gpus[device.ordinal].l2_bytes


def last_level_cache_bytes(folder: Path = _CACHES) -> int | None:
    """The largest cache of CPU 0, from sysfs."""
    sizes = []
    for path in folder.glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text[:-1].isdigit() and text[-1:] in _SUFFIXES:
            sizes.append(int(text[:-1]) * _SUFFIXES[text[-1]])
    return max(sizes, default=None)
