"""Which machine and device a measurement belongs to."""

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
    """What decides how fast a machine is, as far as it can be asked."""

    processor: str
    usable_cores: int
    features: tuple[str, ...]
    cache_bytes: int | None
    """The device's last-level cache; None where nobody tells."""
    memory_gib: int
    """Rounded: what the kernel keeps for itself differs from one version to the next."""
    system: str
    device: str
    device_description: str

    @property
    def fingerprint(self) -> str:
        """The same for the same machine and device, different for others."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_data(self) -> dict[str, Any]:
        """As plain data, with the fingerprint."""
        return {"fingerprint": self.fingerprint, **asdict(self)}


def machine(device: Device) -> Machine:
    """This machine, with one of its devices."""
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
    """Bytes of the cache that lies before the device's memory; None where nobody tells."""
    if device.host_memory:
        return last_level_cache_bytes()
    if not device.capabilities.is_gpu:
        return None
    return probe().gpus[device.ordinal].l2_bytes


def last_level_cache_bytes(folder: Path = _CACHES) -> int | None:
    """Bytes of the largest cache of a processor core, from the operating system's description."""
    sizes = []
    for path in folder.glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text[:-1].isdigit() and text[-1:] in _SUFFIXES:
            sizes.append(int(text[:-1]) * _SUFFIXES[text[-1]])
    return max(sizes, default=None)
