"""Surveys the machine: devices, drivers, libraries, CPU and folders."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay._native import build_info, kernel_levels
from assay.errors import AssayError

_FEATURES: Final = (
    "sse4_2", "f16c", "fma", "avx", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2",
)  # fmt: skip
"""Instruction sets that kernels may use, by their names in /proc/cpuinfo."""

_CPUINFO: Final = Path("/proc/cpuinfo")
_UNUSED_EXTRAS: Final = ("dev",)
"""Extras for developing Assay, which its users do not need."""


@dataclass(frozen=True, slots=True)
class DeviceFinding:
    """A device, and whether a small operation on it returned the right result."""

    name: str
    description: str
    memory_bytes: int
    works: bool
    problem: str | None
    hint: str | None = None
    """The remedy for a device that cannot be used, such as an unsupported GPU."""


@dataclass(frozen=True, slots=True)
class DriverFinding:
    """An accelerator driver or library."""

    name: str
    found: bool
    version: str | None
    devices: int
    detail: str


@dataclass(frozen=True, slots=True)
class LibraryFinding:
    """A Python package that Assay uses."""

    name: str
    wanted: str
    found: str | None
    extra: str | None
    """The extra that installs it; None for a required dependency."""


@dataclass(frozen=True, slots=True)
class FolderFinding:
    """A folder that Assay writes to."""

    name: str
    path: str
    set_by: str
    exists: bool
    writable: bool
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class MissingComponent:
    """Something missing, what it is needed for, and how to install it."""

    what: str
    needed_for: str
    how: str
    required: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """The findings about this machine."""

    program: dict[str, Any]
    processor: dict[str, Any]
    devices: list[DeviceFinding]
    drivers: list[DriverFinding]
    libraries: list[LibraryFinding]
    places: list[FolderFinding]
    missing: list[MissingComponent] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        """The findings as dicts and lists."""
        return asdict(self)


def survey() -> Survey:
    """Survey the machine."""
    found = Survey(
        program=_program(),
        processor=processor(),
        devices=_devices(),
        drivers=cuda_drivers(),
        libraries=libraries(),
        places=_folders(),
    )
    found.missing.extend(_missing(found))
    return found


def _program() -> dict[str, Any]:
    info = build_info()
    checks = " with checks" if info["debug_assertions"] else ""
    # Kernels for every CPU have the portable level among them.
    kernels = "" if kernel_levels()[0] == "portable" else ", kernels for this CPU alone"
    return {
        "version": info["version"],
        "build": f"{info['os']} {info['arch']}{checks}{kernels}",
        "python": platform.python_version(),
        "interpreter": sys.executable,
    }


def processor() -> dict[str, Any]:
    """The CPU's name, cores and instruction sets, and the instruction set that kernels use."""
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.exists() else ""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    usable = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return {
        "name": fields.get("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 1,
        "usable_cores": len(usable),
        "features": [feature for feature in _FEATURES if feature in flags],
        "kernels": kernel_levels()[-1],
    }


def _devices() -> list[DeviceFinding]:
    from assay.runtime import cuda
    from assay.runtime.device_names import NAMES
    from assay.runtime.hardware import device

    findings: list[DeviceFinding] = []
    for name in (*NAMES, *cuda.names()):
        try:
            found = device(name)
        except AssayError as error:
            findings.append(DeviceFinding(name, "", 0, False, error.message, error.hint))
            continue
        described = found.description
        if found.capabilities.is_gpu:
            capability = cuda.probe().gpus[found.ordinal].capability
            described += f", compute capability {capability // 10}.{capability % 10}"
        problem = _smoke_test(name)
        findings.append(
            DeviceFinding(name, described, found.memory_bytes, problem is None, problem)
        )
    return findings


def _smoke_test(name: str) -> str | None:
    """The problem with adding two small arrays, or None."""
    from assay.runtime import device, interop

    try:
        total = (interop.asarray([0, 1, 2, 3], None, device(name), None) + 1).tolist()
    except AssayError as error:
        return error.message
    return None if total == [1, 2, 3, 4] else f"expected [1, 2, 3, 4], got {total}"


def cuda_drivers() -> list[DriverFinding]:
    """The CUDA driver, NVRTC and cuBLASLt, as the runtime found them."""
    from assay.runtime.cuda import Library, cublaslt, probe

    found = probe()

    def finding(name: str, library: Library, devices: int) -> DriverFinding:
        version = ".".join(map(str, library.version)) if library.version else None
        detail = library.missing or str(library.path)
        return DriverFinding(name, library.path is not None, version, devices, detail)

    return [
        finding("CUDA", found.driver, len(found.gpus)),
        finding("NVRTC", found.compiler, 0),
        finding("cuBLASLt", cublaslt(), 0),
    ]


def libraries() -> list[LibraryFinding]:
    """The distribution's dependencies, with their installed versions."""
    findings: list[LibraryFinding] = []
    try:
        requirements = metadata.requires("assay") or []
    except metadata.PackageNotFoundError:
        # A source tree on the path of Python: what it depends on is stated nowhere.
        return [LibraryFinding("assay", "", None, None)]
    for requirement in requirements:
        text, _, condition = requirement.partition(";")
        match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(.*)", text)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", condition)
        if match is None or (extra is not None and extra[1] in _UNUSED_EXTRAS):
            continue
        try:
            version: str | None = metadata.version(match[1])
        except metadata.PackageNotFoundError:
            version = None
        wanted = match[2].strip().strip("()")
        findings.append(LibraryFinding(match[1], wanted, version, extra[1] if extra else None))
    return findings


def _folders() -> list[FolderFinding]:
    scratch = paths.scratch()
    if "ASSAY_SCRATCH" in os.environ:
        set_by = "ASSAY_SCRATCH"
    else:
        set_by = "XDG_CACHE_HOME" if "XDG_CACHE_HOME" in os.environ else "default"
    findings = [_folder("scratch", scratch, set_by)]
    store = os.environ.get("ASSAY_STORE")
    if store and "://" not in store:
        findings.append(_folder("store", Path(store), "ASSAY_STORE"))
    elif store:
        # Access to a remote store is checked at the first write.
        findings.append(FolderFinding("store", store, "ASSAY_STORE", False, False, None))
    return findings


def _folder(name: str, path: Path, set_by: str) -> FolderFinding:
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    free = shutil.disk_usage(nearest).free if nearest.exists() else None
    return FolderFinding(name, str(path), set_by, path.exists(), writable, free)


def _missing_cuda() -> list[MissingComponent]:
    """Why GPUs cannot be used, in the runtime's messages."""
    from assay.runtime.cuda import probe

    found = probe()
    messages = [
        (one.missing, one.hint or "") for one in (found.driver, found.compiler) if one.missing
    ]
    if found.missing is not None and found.missing.sentence not in [one for one, _ in messages]:
        messages.append((found.missing.sentence, found.missing.hint))
    if found.newer_compiler is not None:
        messages.append(("NVRTC of a version that the driver supports", found.newer_compiler))
    purpose = "running on a GPU; cpu and sim need none"
    return [
        MissingComponent(sentence, purpose, hint, required=False) for sentence, hint in messages
    ]


def _missing(found: Survey) -> list[MissingComponent]:
    missing: list[MissingComponent] = []
    for device in found.devices:
        if not device.works:
            # A hint explains an unsupported GPU; a wrong result means a broken installation.
            wrong = f"reinstall Assay; it said: {device.problem}"
            missing.append(
                MissingComponent(
                    f"device {device.name}",
                    "arrays",
                    f"{device.problem}: {device.hint}" if device.hint else wrong,
                    required=device.hint is None,
                )
            )
    missing.extend(_missing_cuda())
    for library in found.libraries:
        if library.found is None:
            target = "assay" if library.extra is None else f"assay[{library.extra}]"
            missing.append(
                MissingComponent(
                    library.name,
                    "Assay itself" if library.extra is None else f"the extra {library.extra}",
                    f'pip install "{target}"',
                    required=library.extra is None,
                )
            )
    for folder in found.places:
        if not folder.writable and "://" not in folder.path:
            missing.append(
                MissingComponent(
                    f"a {folder.name} folder that can be written",
                    "caches and runs",
                    f"set ASSAY_{folder.name.upper()} to a folder of yours, not {folder.path}",
                    required=True,
                )
            )
    return missing
