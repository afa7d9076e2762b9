"""Builds a bundle that installs Assay on an x86_64 Linux GPU host without network.

Run by `make bundle`. The bundle has parts in dist/bundle: `assay-bundle` holds Assay's wheel,
the wheels of the packages that the host lacks, install.sh, the GPU tests with run_gpu_tests.sh, measure_gpu.sh,
tune_vllm.sh and record_vllm_grid.py;
`assay-bundle-nvrtc` holds the CUDA compiler library, for hosts without one; `assay-bundle-numpy`
holds NumPy and SciPy, for hosts whose packages were not listed and that have none; `assay-bundle-telemetry` and
`assay-bundle-loop-1`, `assay-bundle-serve` and so on hold the packages of the extras telemetry, loop and serve.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from email.parser import Parser
from pathlib import Path

import bundled_tests
from build_wheel import build_wheel
from host_packages import (
    UNUSED,
    Packages,
    Pin,
    canonical,
    extra_requirements,
    installation_steps,
    left_out,
    read_host_packages,
    requirement_name,
    resolve,
)
from target_compiler import MissingCompiler, target_compiler

ROOT = Path(__file__).resolve().parent.parent
DESTINATION = ROOT / "dist" / "bundle"
FIRST_PART = "assay-bundle"
COMPILER_PART = "assay-bundle-nvrtc"
ASSUMED_PART = "assay-bundle-numpy"
FIRST_PART_LIMIT = 40_000_000
PART_LIMIT = 55_000_000
"""Bytes of wheels in a part of an extra, unless one wheel alone has more."""

EXTRAS = {
    "telemetry": "the extra telemetry: samples of GPUs and host",
    "loop": "the extra loop: tables of traces and telemetry",
    "serve": "the extra serve: the OpenAI-compatible server",
}
"""Extras that are parts of their own, and why a host wants them."""

# glibc 2.x: what the dependencies may ask for, and what Assay's own wheel may.
DEPENDENCY_GLIBC = 28
NEWEST_GLIBC = 36

CUDA_COMPILER = "nvidia-cuda-nvrtc>=13,<14"

Entry = dict[str, str | int]


class BundleError(Exception):
    """Why the bundle could not be built, with a hint on the next line."""


def say(text: str) -> None:
    """Prints one line of progress, apart from the data on standard output."""
    print(text, file=sys.stderr, flush=True)


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> None:
    """Runs a command in the repository."""
    subprocess.run([*command], cwd=ROOT, env=environment, check=True, stdout=sys.stderr)


def commit() -> str:
    """The commit that the bundle is built from, recorded in results measured with it."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def make_wheel(folder: Path) -> None:
    """Builds Assay's release wheel for the host and checks its platform tag."""
    check_tag(build_wheel(folder, target_compiler()).name)


def check_tag(wheel: str) -> None:
    """Raises if the host could not install the wheel."""
    tag = re.search(r"-abi3-manylinux_2_(\d+)_x86_64\.", wheel)
    if tag is None or int(tag.group(1)) > NEWEST_GLIBC:
        raise BundleError(
            f"expected an x86_64 abi3 wheel for glibc 2.{NEWEST_GLIBC} or older, got {wheel}\n"
            "hint: build on a machine with an older glibc"
        )


def download(requirements: Iterable[str], python_version: str, folder: Path) -> None:
    """Downloads the wheel for the host that meets each requirement."""
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(DEPENDENCY_GLIBC, 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
        *("--only-binary=:all:", "--python-version", python_version, "--dest", folder),
        *(f"--platform={platform}" for platform in platforms),
        *requirements,
    )


def read_metadata(wheel: Path) -> tuple[str, str, list[str]]:
    """Name, version and requirements that a wheel states."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", n))
        stated = Parser().parsestr(archive.read(name).decode("utf-8"))
    return canonical(stated["Name"]), stated["Version"], stated.get_all("Requires-Dist", [])


def describe(wheel: Path, why: str) -> Entry:
    """One wheel's entry in the manifest."""
    name, version, _ = read_metadata(wheel)
    content = wheel.read_bytes()
    return {
        "name": name,
        "version": version,
        "file": wheel.name,
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "why": why,
    }


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes a text file, one line each."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def check_size(size: int, entries: Iterable[Entry], limit: int = FIRST_PART_LIMIT) -> None:
    """Raises if the first part is too large, with the largest wheels."""
    if size <= limit:
        return
    largest = sorted(((int(entry["size"]), entry["name"]) for entry in entries), reverse=True)
    named = ", ".join(f"{name} {bytes_ / 1e6:.1f} MB" for bytes_, name in largest[:3])
    raise BundleError(
        f"{FIRST_PART} would be {size / 1e6:.1f} MB, expected at most {limit / 1e6:.0f} MB; "
        f"largest: {named}\n"
        "hint: list what the host has: --host-packages FILE, from pip list --format=freeze"
    )


def make_first_part(
    folder: Path, python_version: str, pins: list[Pin], left: Mapping[str, str]
) -> tuple[list[Entry], list[Entry]]:
    """Fills the first part; returns manifest entries of its wheels and of what is left out."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    make_wheel(wheels)
    carried = [pin for pin in pins if pin.name not in left]
    say(f"packages: {len(carried)} to download, {len(left)} left out")
    download((f"{pin.name}=={pin.version}" for pin in carried), python_version, wheels)
    names = {pin.name for pin in carried}
    tools = [name for name in bundled_tests.PACKAGES if name not in names]
    download(tools, python_version, wheels)
    bundled_tests.add_tests(ROOT, folder)
    bundled_tests.add_contract_suite(ROOT, folder)

    metadata = {wheel: read_metadata(wheel) for wheel in sorted(wheels.glob("*.whl"))}
    resolved, alone = installation_steps({n: stated for n, _, stated in metadata.values()})
    write_lines(folder / "requirements.txt", resolved)
    write_lines(folder / "alone.txt", alone)
    write_lines(folder / "python-version", [python_version])
    write_lines(folder / "commit", [commit()])
    shutil.copy(ROOT / "scripts" / "install.sh", folder)

    why = {pin.name: f"required by {pin.required_by}" for pin in carried} | {"assay": "Assay"}
    why |= dict.fromkeys(tools, "runs the GPU tests")
    entries = [describe(wheel, why[name]) for wheel, (name, _, _) in metadata.items()]
    absent: list[Entry] = [
        {"name": pin.name, "version": pin.version, "why": left[pin.name]}
        for pin in pins
        if pin.name in left
    ]
    absent += [{"name": name, "why": reason} for name, reason in UNUSED.items()]
    check_size(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), entries)
    return entries, absent


def make_part(
    folder: Path, python_version: str, requirements: Iterable[str], why: str
) -> list[Entry]:
    """Fills a part of wheels only; returns its manifest entries."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    download(requirements, python_version, wheels)
    return [describe(wheel, why) for wheel in sorted(wheels.glob("*.whl"))]


def split(sizes: Mapping[Path, int], limit: int = PART_LIMIT) -> list[list[Path]]:
    """Packs wheels into as few parts of at most `limit` bytes as first-fit decreasing finds."""
    parts: list[list[Path]] = []
    for wheel in sorted(sizes, key=lambda path: (-sizes[path], path.name)):
        for part in parts:
            if sum(sizes[path] for path in part) + sizes[wheel] <= limit:
                part.append(wheel)
                break
        else:
            parts.append([wheel])
    return parts


def make_extra_parts(
    staging: Path, extra: str, python_version: str, pins: Iterable[Pin]
) -> dict[str, list[Entry]]:
    """Fills the parts of an extra with the wheels of these packages; returns manifest entries."""
    everything = staging / f".{extra}"
    everything.mkdir()
    download((f"{pin.name}=={pin.version}" for pin in pins), python_version, everything)
    parts = split({wheel: wheel.stat().st_size for wheel in everything.glob("*.whl")})
    requirements = extra_requirements(ROOT, extra)
    made: dict[str, list[Entry]] = {}
    for number, wheels in enumerate(parts, 1):
        name = f"{FIRST_PART}-{extra}" + (f"-{number}" if len(parts) > 1 else "")
        folder = staging / name / "wheels"
        folder.mkdir(parents=True)
        moved = [wheel.rename(folder / wheel.name) for wheel in wheels]
        made[name] = [describe(wheel, EXTRAS[extra]) for wheel in sorted(moved)]
        # The ranges, not the versions carried: what the host has is kept where it suffices.
        carried = {entry["name"] for entry in made[name]}
        stated = [
            requirement for requirement in requirements if requirement_name(requirement) in carried
        ]
        write_lines(folder.parent / "requirements.txt", stated)
    everything.rmdir()
    return made


def replace(new: Path, destination: Path, work: Path) -> None:
    """Replaces the previous folder by the finished one."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    if destination.exists():
        destination.rename(work / "before")
    new.rename(destination)


def make_bundle(python_version: str, host: Packages | None) -> None:
    """Builds the parts and the manifest, then moves them into place at once."""
    DESTINATION.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=DESTINATION.parent) as name:
        work = Path(name)
        staging = work / "staging"
        pins = resolve(ROOT, python_version, DEPENDENCY_GLIBC, host or {}, work)
        left = left_out(pins, host)
        entries, absent = make_first_part(staging / FIRST_PART, python_version, pins, left)
        parts = {FIRST_PART: entries}
        folder = staging / COMPILER_PART
        why = "compiles CUDA C++ at run time"
        parts[COMPILER_PART] = make_part(folder, python_version, [CUDA_COMPILER], why)
        # The range, not the version carried: a host keeps the compiler that its PyTorch came with.
        write_lines(folder / "requirements.txt", [CUDA_COMPILER])
        if host is None:
            assumed = [f"{pin.name}=={pin.version}" for pin in pins if pin.name in left]
            why = "for a host that has none"
            parts[ASSUMED_PART] = make_part(staging / ASSUMED_PART, python_version, assumed, why)
        carried = {pin.name for pin in pins}
        for extra in EXTRAS:
            resolved = resolve(ROOT, python_version, DEPENDENCY_GLIBC, host or {}, work, extra)
            kept = left_out(resolved, host)
            wanted = [pin for pin in resolved if pin.name not in carried | kept.keys()]
            parts |= make_extra_parts(staging, extra, python_version, wanted)
        manifest = {
            "host": {"architecture": "x86_64", "system": "Linux", "python": python_version},
            "host_packages": "assumed" if host is None else "listed",
            "parts": parts,
            "left_out": absent,
        }
        text = json.dumps(manifest, indent=2) + "\n"
        (staging / FIRST_PART / "MANIFEST.json").write_text(text, encoding="utf-8")
        replace(staging, DESTINATION, work)
    for part, listed in parts.items():
        size = sum(int(entry["size"]) for entry in listed)
        say(f"{DESTINATION.relative_to(ROOT) / part}: {len(listed)} wheels, {size / 1e6:.1f} MB")
    for entry in absent:
        say(f"left out: {entry['name']} ({entry['why']})")


def main(arguments: list[str] | None = None) -> int:
    """Reads the command line and makes the bundle."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--host-packages",
        type=Path,
        metavar="FILE",
        help="what the host has, from `pip list --format=freeze` there;\n"
        "without it NumPy and SciPy are a part of their own",
    )
    parser.add_argument("--python-version", default="3.12", help="the host's (default: 3.12)")
    options = parser.parse_args(arguments)
    try:
        host = None
        if options.host_packages is not None:
            host = read_host_packages(options.host_packages.read_text(encoding="utf-8"))
        make_bundle(options.python_version, host)
    except (BundleError, MissingCompiler, OSError) as error:
        say(f"error: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        line = " ".join(str(word) for word in error.cmd)
        say(f"error: exit status {error.returncode} from: {line}\nhint: see its output above")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
