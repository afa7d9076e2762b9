"""Writes a software bill of materials (CycloneDX 1.6, JSON): the crates in the libraries, the packages that they need.

python scripts/generate_sbom.py FILE

Crates, their licenses and checksums are those of Cargo.lock, as `cargo metadata` reads it; Python packages are what
pyproject.toml requires of an installation without extras, and what those require, in the versions installed here.
The same sources and packages give the same bytes.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("assay-python", "assay-inject")
"""Crates that a wheel holds, built."""
EXPRESSION = re.compile(r"[\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+|[()])*")

Component = dict[str, Any]


class SbomError(Exception):
    """What is missing to write it."""


def cargo_metadata(root: Path) -> dict[str, Any]:
    """All packages of the lock file, and how they depend on each other on this platform."""
    triple = f"{platform.machine()}-unknown-linux-gnu"
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        triple,
    ]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if answer.returncode != 0:
        raise SbomError(f"cargo metadata failed: {answer.stderr.strip()}")
    data: dict[str, Any] = json.loads(answer.stdout)
    return data


def crates(data: Mapping[str, Any], lock: Mapping[str, Any]) -> list[Component]:
    """The crates that are linked into the libraries of a wheel, without those of tests and builds."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    sums = {(row["name"], row["version"]): row.get("checksum") for row in lock["package"]}
    waiting = [key for key, package in packages.items() if package["name"] in LIBRARIES]
    linked: set[str] = set()
    while waiting:
        key = waiting.pop()
        if key in linked:
            continue
        linked.add(key)
        waiting += [
            dependency["pkg"]
            for dependency in nodes[key]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
    components = []
    for package in (packages[key] for key in linked):
        name, version = package["name"], package["version"]
        component = _component(f"pkg:cargo/{name}@{version}", name, version, package["license"])
        if checksum := sums.get((name, version)):
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(component)
    return components


def packages(requirements: Iterable[str]) -> list[Component]:
    """The Python packages that an installation needs, and what those need."""
    waiting, seen = list(requirements), set()
    components = []
    while waiting:
        requirement = Requirement(waiting.pop())
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen.add(name)
        try:
            stated = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            raise SbomError(f"expected {name} to be installed\nhint: make setup") from None
        version = stated["Version"]
        fields = ("License-Expression", "License")
        license_text = next((stated[name] for name in fields if name in stated), "")
        components.append(_component(f"pkg:pypi/{name}@{version}", name, version, license_text))
        waiting += metadata.requires(name) or []
    return components


def _component(purl: str, name: str, version: str, license_text: str | None) -> Component:
    component: Component = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    expression = (license_text or "").replace("/", " OR ")
    if EXPRESSION.fullmatch(expression):
        component["licenses"] = [{"expression": expression}]
    elif license_text:
        # Some packages state their whole license here: its first line names it.
        component["licenses"] = [{"license": {"name": license_text.strip().splitlines()[0]}}]
    return component


def bill(root: Path) -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    lock = tomllib.loads((root / "Cargo.lock").read_text("utf-8"))
    components = crates(cargo_metadata(root), lock) + packages(project["dependencies"])
    components.sort(key=lambda component: component["bom-ref"])
    own = _component(
        f"pkg:pypi/assay@{project['version']}", "assay", project["version"], project["license"]
    )
    own["type"] = "application"
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }
    # A name of its own for each content, and the same for the same.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{serial}"}


def write(root: Path, path: Path) -> int:
    """Writes the bill; returns how many components it has."""
    document = bill(root)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return len(document["components"])


def main(arguments: Sequence[str]) -> int:
    """Writes the bill; the exit code."""
    if len(arguments) != 1:
        print("error: expected the file to write", file=sys.stderr)
        return 2
    try:
        print(f"{write(ROOT, Path(arguments[0]))} components in {arguments[0]}")
    except SbomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
