"""What of CUDA this machine has, where its libraries are, and saying once what is missing."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay import _native

FALLING_BACK: Final = "Falling back to CPU backend"

_DRIVER: Final = Path("/proc/driver/nvidia/version")
_LOGGER: Final = logging.getLogger("assay")


@dataclass(frozen=True, slots=True)
class Library:
    """A library of CUDA: where it was found, or what to say and do where it was not."""

    path: str | None
    version: tuple[int, int] | None
    missing: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the driver says about a GPU."""

    name: str
    capability: int
    """major times ten plus minor"""
    memory_bytes: int
    multiprocessors: int
    l2_bytes: int
    shared_bytes: int
    usable: bool
    """whether it is new enough for the kernels"""


@dataclass(frozen=True, slots=True)
class Missing:
    """What keeps the first GPU from being used."""

    code: str
    sentence: str
    hint: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found, looked for once in a process."""

    driver: Library
    compiler: Library
    gpus: tuple[Gpu, ...]
    missing: Missing | None
    newer_compiler: str | None = None
    """What to do where NVRTC is of a newer major than the driver."""


def library_folders() -> list[str]:
    """Folders of the installed wheels that hold NVIDIA's libraries."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return []
    found: list[str] = []
    for location in spec.submodule_search_locations:
        found += [str(folder) for folder in sorted(Path(location).glob("*/lib")) if folder.is_dir()]
    return found


@functools.cache
def probe() -> Findings:
    """Look for driver, devices and compiler; the first call looks."""
    found = _native.cuda_probe(library_folders())
    missing = found.get("missing")
    return Findings(
        driver=_library(found["driver"]),
        compiler=_library(found["compiler"]),
        gpus=tuple(Gpu(**facts) for facts in found["devices"]),
        missing=None if missing is None else Missing(*missing),
        newer_compiler=found.get("newer_compiler"),
    )


@functools.cache
def products() -> Library:
    """NVIDIA's library of matrix products, cuBLASLt; the first call opens it."""
    probe()
    return _library(_native.cuda_products())


def _library(told: _native.CudaLibrary) -> Library:
    return Library(told.get("path"), told.get("version"), told.get("missing"), told.get("hint"))


def versions() -> dict[str, str | None]:
    """Versions of what a figure of a GPU depends on: the driver's own, CUDA's and its libraries'."""
    found = probe()
    told = _DRIVER.read_text(encoding="utf-8") if _DRIVER.exists() else ""
    number = re.search(r"\b\d+\.\d+(\.\d+)?\b", told)
    return {
        "driver": number[0] if number else None,
        "CUDA": _text(found.driver.version),
        "NVRTC": _text(found.compiler.version),
        "cuBLASLt": _text(products().version),
    }


def _text(version: tuple[int, int] | None) -> str | None:
    return None if version is None else f"{version[0]}.{version[1]}"


def allows_tf32() -> bool:
    """Whether `ASSAY_ALLOW_TF32=1` lets products of single precision round what they read."""
    return os.environ.get("ASSAY_ALLOW_TF32") == "1"


def names() -> tuple[str, ...]:
    """The GPUs that can be used, such as `cuda:0`."""
    found = probe()
    if found.driver.missing or found.compiler.missing:
        return ()
    return tuple(f"cuda:{number}" for number, gpu in enumerate(found.gpus) if gpu.usable)


@functools.cache
def tell_fallback() -> None:
    """Say, once in a process, what is missing and that the processor is used instead."""
    missing = probe().missing
    if missing is not None:
        _LOGGER.warning("%s. %s. hint: %s", missing.sentence, FALLING_BACK, missing.hint)


def headers() -> list[tuple[str, str]]:
    """What kernels can include, by name: number formats, reductions and instructions."""
    return [(name, text) for name, text in _native.cuda_sources() if name.endswith(".cuh")]


def compile(text: str, architecture: str, name: str, options: Sequence[str] = ()) -> bytes:
    """Machine code of a source for an architecture such as `sm_90a`; needs NVRTC and no GPU."""
    # So that NVRTC is looked for where the wheels are.
    probe()
    return _native.cuda_compile(
        text, architecture, name=name, options=list(options), headers=headers()
    )
