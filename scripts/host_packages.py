"""Decides which packages a bundle must carry for its host, and which it may leave out."""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Without a list of its packages, the host is taken to run PyTorch beside these: most do, and they are
# larger than all else, so they travel apart.
ASSUMED = ("numpy", "scipy")

# Packages that a dependency asks for and Assay never reaches, with the reason; and who asks.
UNUSED = {"matplotlib": "SALib needs it only to plot, and Assay draws nothing"}
ASKS_FOR_UNUSED = {"salib"}

Packages = dict[str, str]


@dataclass(frozen=True)
class Pin:
    """One package of the resolution: its version and who asked for it."""

    name: str
    version: str
    required_by: str


def canonical(name: str) -> str:
    """The one spelling of a package's name that indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(requirement: str) -> str:
    """The package that a requirement such as `numpy>=1.26; python_version < "3.14"` is about."""
    return canonical(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])


def read_host_packages(text: str) -> Packages:
    """Names and versions from `pip list --format=freeze`; lines without a version say nothing."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==(\S+)", text, re.MULTILINE)
    return {canonical(name): version for name, version in found}


def parse_pins(text: str) -> list[Pin]:
    """Packages from a resolution with one-line annotations: `name==version  # via a, b`."""
    found = re.findall(r"^([\w.-]+)==(\S+)\s+# via (.*)$", text, re.MULTILINE)
    return [
        Pin(canonical(name), version, via.replace(" (pyproject.toml)", ""))
        for name, version, via in found
    ]


def resolution_command(python_version: str, glibc: int, unused: Path, pins: Path) -> list[str]:
    """The command that resolves pyproject.toml's dependencies for the host into `pins`."""
    return [
        *(sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet"),
        *("--python-version", python_version, "--only-binary", ":all:"),
        *("--python-platform", f"x86_64-manylinux_2_{glibc}"),
        *("--annotation-style", "line", "--no-header"),
        *("--excludes", str(unused), "--output-file", str(pins)),
    ]


def resolve(root: Path, python_version: str, glibc: int, host: Packages, folder: Path) -> list[Pin]:
    """Resolves Assay's dependencies for the host, keeping the host's versions where they will do.

    Raises:
        subprocess.CalledProcessError: no versions satisfy the requirements.
    """
    unused = folder / "unused.txt"
    unused.write_text("".join(f"{name}\n" for name in UNUSED), encoding="utf-8")
    # The resolver prefers the versions that it finds in the file it is to write.
    pins = folder / "pins.txt"
    pins.write_text("".join(f"{n}=={v}\n" for n, v in host.items()), encoding="utf-8")
    command = resolution_command(python_version, glibc, unused, pins)
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    return parse_pins(pins.read_text(encoding="utf-8"))


def left_out(pins: Iterable[Pin], host: Packages | None) -> dict[str, str]:
    """The resolved packages that the host has, or is taken to have, with the reason."""
    if host is None:
        why = "in a part of its own: hosts that run PyTorch have it"
        return {pin.name: why for pin in pins if pin.name in ASSUMED}
    return {
        pin.name: f"on the host: {pin.name} {pin.version}"
        for pin in pins
        if host.get(pin.name) == pin.version
    }


def installation_steps(stated: Mapping[str, list[str]]) -> tuple[list[str], list[str]]:
    """Parts what the host's installer resolves from what it installs without its dependencies.

    A package that asks for an unused one cannot be resolved: it is installed alone, and its other
    requirements stand in its place. `stated` gives the requirements of every wheel by its name.
    Returns the requirements to resolve and those to install alone, both without Assay itself.
    """
    asked = {
        requirement
        for name in ASKS_FOR_UNUSED | {"assay"}
        for requirement in stated.get(name, [])
        if "extra ==" not in requirement and requirement_name(requirement) not in UNUSED
    }
    alone = {r for r in asked if requirement_name(r) in ASKS_FOR_UNUSED}
    return sorted(asked - alone), sorted(alone)
