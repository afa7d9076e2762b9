"""The machine's CUDA driver, libraries and GPUs, and the warning when they are missing."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay._native import cuda_compile, cuda_cublaslt, cuda_probe, cuda_sources

if TYPE_CHECKING:
    from assay._native import CudaLibrary

FALLING_BACK: Final = "Falling back to CPU backend"

_DRIVER: Final = Path("/proc/driver/nvidia/version")
_LOGGER: Final = logging.getLogger("assay")


@dataclass(frozen=True, slots=True)
class Library:
    """A CUDA library: its path, or the message and hint where it was not found."""

    path: str | None
    version: tuple[int, int] | None
    missing: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU's properties, from the driver."""

    name: str
    capability: int
    """major times ten plus minor"""
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int
    shared_bytes: int
    usable: bool
    """whether its compute capability is supported"""


@dataclass(frozen=True, slots=True)
class CudaUnavailable:
    """Why no GPU can be used."""

    code: str
    sentence: str
    hint: str


@dataclass(frozen=True, slots=True)
class Findings:
    """Driver, compiler and GPUs; probed once per process."""

    driver: Library
    compiler: Library
    gpus: tuple[Gpu, ...]
    missing: CudaUnavailable | None
    newer_compiler: str | None = None
    """The hint where NVRTC has a newer major version than the driver."""


def library_folders() -> list[str]:
    """Folders of installed wheels with NVIDIA's libraries."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    found: list[str] = []
    for location in spec.submodule_search_locations:
        found += [str(folder) for folder in sorted(Path(location).glob("*/lib")) if folder.is_dir()]
    return found


@functools.cache
def probe() -> Findings:
    """Probe driver, devices and compiler; the result is cached."""
    found = cuda_probe(library_folders())
    missing = found.get("missing")
    return Findings(
        driver=_library(found["driver"]),
        compiler=_library(found["compiler"]),
        gpus=tuple(Gpu(**facts) for facts in found["devices"]),
        missing=None if missing is None else CudaUnavailable(*missing),
        newer_compiler=found.get("newer_compiler"),
    )


@functools.cache
def cublaslt() -> Library:
    """cuBLASLt, NVIDIA's GEMM library; the first call loads it."""
    probe()
    return _library(cuda_cublaslt())


def _library(found: CudaLibrary) -> Library:
    return Library(found.get("path"), found.get("version"), found.get("missing"), found.get("hint"))


def versions() -> dict[str, str | None]:
    """Versions that a GPU measurement depends on: the driver, CUDA and its libraries."""
    found = probe()
    text = _DRIVER.read_text(encoding="utf-8") if _DRIVER.exists() else ""
    number = re.search(r"\b\d+\.\d+(\.\d+)?\b", text)
    return {
        "driver": number[0] if number else None,
        "CUDA": _text(found.driver.version),
        "NVRTC": _text(found.compiler.version),
        "cuBLASLt": _text(cublaslt().version),
    }


def _text(version: tuple[int, int] | None) -> str | None:
    return None if version is None else f"{version[0]}.{version[1]}"


def allows_tf32() -> bool:
    """Whether `ASSAY_ALLOW_TF32=1` allows TF32 in single-precision GEMMs."""
    return os.environ.get("ASSAY_ALLOW_TF32") == "1"


def names() -> tuple[str, ...]:
    """The names of usable GPUs, such as `cuda:0`."""
    found = probe()
    if found.driver.missing or found.compiler.missing:
        return ()
    return tuple(f"cuda:{number}" for number, gpu in enumerate(found.gpus) if gpu.usable)


@functools.cache
def warn_fallback() -> None:
    """Warn, once per process, that the CPU is used and what is missing."""
    missing = probe().missing
    if missing is not None:
        _LOGGER.warning("%s. %s. hint: %s", missing.sentence, FALLING_BACK, missing.hint)


def headers() -> list[tuple[str, str]]:
    """The headers that kernels can include, by name."""
    return [(name, text) for name, text in cuda_sources() if name.endswith(".cuh")]


def compile(text: str, architecture: str, name: str, options: Sequence[str] = ()) -> bytes:
    """A cubin of a source for an architecture such as `sm_90a`; needs NVRTC but no GPU."""
    # Adds the wheels' folders to the search path of NVRTC.
    probe()
    return cuda_compile(text, architecture, name=name, options=list(options), headers=headers())
