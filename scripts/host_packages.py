"""Selects the packages that a bundle contains for its host."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Without a package list, the host is assumed to have PyTorch and therefore these; they are the largest
# packages, so they are a separate part.
ASSUMED = ("numpy", "scipy")

# Packages that a dependency requires and Assay never imports, with the reason; and which dependency.
UNUSED = {"matplotlib": "SALib needs it only to plot, and Assay draws nothing"}
REQUIRES_UNUSED = {"salib"}

Packages = dict[str, str]


@dataclass(frozen=True)
class Pin:
    """One resolved package: its version and the packages that require it."""

    name: str
    version: str
    required_by: str


def canonical(name: str) -> str:
    """The normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(requirement: str) -> str:
    """The package that a requirement such as `numpy>=1.26; python_version < "3.14"` is about."""
    return canonical(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])


def read_host_packages(text: str) -> Packages:
    """Names and versions from `pip list --format=freeze`; lines without a version say nothing."""
    listed = re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", text, re.MULTILINE)
    return {canonical(name): version for name, version in listed}


def parse_pins(text: str) -> list[Pin]:
    """Packages from a resolution with one-line annotations: `name==version  # via a, b`."""
    resolved = re.findall(r"^([\w.-]+)==(\S+)\s+# via (.*)$", text, re.MULTILINE)
    return [
        Pin(canonical(name), version, via.replace(" (pyproject.toml)", ""))
        for name, version, via in resolved
    ]


def resolution_command(
    python_version: str, glibc: int, unused: Path, pins: Path, extra: str | None = None
) -> list[str]:
    """The command that resolves pyproject.toml's dependencies for the host into `pins`."""
    return [
        *(sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet"),
        *("--python-version", python_version, "--only-binary", ":all:"),
        *("--python-platform", f"x86_64-manylinux_2_{glibc}"),
        *("--annotation-style", "line", "--no-header"),
        *("--excludes", str(unused), "--output-file", str(pins)),
        *(() if extra is None else ("--extra", extra)),
    ]


def resolve(
    root: Path,
    python_version: str,
    glibc: int,
    host: Packages,
    folder: Path,
    extra: str | None = None,
) -> list[Pin]:
    """Resolves Assay's dependencies for the host, with those of an extra, where one is named.

    Versions that the host has are preferred.

    Raises:
        subprocess.CalledProcessError: no versions satisfy the requirements.
    """
    unused = folder / "unused.txt"
    unused.write_text("".join(f"{name}\n" for name in UNUSED), encoding="utf-8")
    # The resolver prefers the versions in its output file.
    pins = folder / "pins.txt"
    pins.write_text("".join(f"{n}=={v}\n" for n, v in host.items()), encoding="utf-8")
    command = resolution_command(python_version, glibc, unused, pins, extra)
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    return parse_pins(pins.read_text(encoding="utf-8"))


def extra_requirements(root: Path, extra: str) -> list[str]:
    """What pyproject.toml states for an extra."""
    stated = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    requirements: list[str] = stated["project"]["optional-dependencies"][extra]
    return requirements


def left_out(pins: Iterable[Pin], host: Packages | None) -> dict[str, str]:
    """The resolved packages that the host has, or is assumed to have, with the reason."""
    if host is None:
        why = "in a separate part: hosts with PyTorch have it"
        return {pin.name: why for pin in pins if pin.name in ASSUMED}
    return {
        pin.name: f"on the host: {pin.name} {pin.version}"
        for pin in pins
        if host.get(pin.name) == pin.version
    }


def installation_steps(stated: Mapping[str, list[str]]) -> tuple[list[str], list[str]]:
    """Splits requirements into those to resolve and those to install without dependencies.

    A package that requires an unused one cannot be resolved: it is installed with --no-deps, and
    its other requirements are listed instead. `stated` gives the requirements of every wheel by
    name. Both lists are without Assay itself.
    """
    required = {
        requirement
        for name in REQUIRES_UNUSED | {"assay"}
        for requirement in stated.get(name, [])
        if "extra ==" not in requirement and requirement_name(requirement) not in UNUSED
    }
    alone = {r for r in required if requirement_name(r) in REQUIRES_UNUSED}
    return sorted(required - alone), sorted(alone)
