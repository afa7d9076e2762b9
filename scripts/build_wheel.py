"""Builds what a release has into dist/release: a wheel, a source distribution, a bill of materials, their hashes.

python scripts/build_wheel.py [--out FOLDER] [--skip-sdist]

`make wheel` runs it. Time stamps are those of the last commit (or SOURCE_DATE_EPOCH), folders of this machine are
not named, so that the same sources, compiler and packages give the same bytes. The tag of the wheel says which C
library it needs, which is what the machine has that builds it: .github/workflows/release.yml builds on an old one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import generate_sbom
import inject_library
import wheel_documents
from target_compiler import Compiler, build_environment, target_compiler

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "dist" / "release"
MOST_BYTES = 15_000_000
SBOM = "assay.cdx.json"
EARLIEST = 315_532_800
"""The first second that a ZIP file can name."""
_NEEDED = re.compile(rb"GLIBC_2\.(\d+)")


class ReleaseError(Exception):
    """Why there is no release, with a hint on the next line."""


def commit_time(root: Path) -> int:
    """Seconds of the last commit; where there is no repository, the earliest time there is."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    answer = subprocess.run(command, capture_output=True, text=True)
    return int(answer.stdout) if answer.returncode == 0 and answer.stdout.strip() else EARLIEST


def reproducible(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """The environment of a build that names neither the time nor the folders of this machine."""
    target = Path(environment.get("CARGO_TARGET_DIR", root / "target"))
    flags = [environment.get("RUSTFLAGS", "")]
    flags += [f"--remap-path-prefix={root}=assay", f"--remap-path-prefix={target}=target"]
    stamp = environment.get("SOURCE_DATE_EPOCH") or str(commit_time(root))
    return {**environment, "SOURCE_DATE_EPOCH": stamp, "RUSTFLAGS": " ".join(filter(None, flags))}


def build_wheel(folder: Path, compiler: Compiler, *arguments: str | Path) -> Path:
    """Builds the release wheel with both libraries and the documentation."""
    environment = reproducible(build_environment(compiler), ROOT)
    # The interpreter argument applies to wheels only.
    target = compiler.arguments if compiler.arguments[:1] == ("--target",) else ()
    library = inject_library.build("release", target, environment)
    with inject_library.placed(library), wheel_documents.placed():
        subprocess.run(
            [
                *(sys.executable, "-m", "maturin", "build", "--release", "--out", folder),
                *(*compiler.arguments, *arguments),
            ],
            cwd=ROOT,
            env=environment,
            check=True,
            stdout=sys.stderr,
        )
    [wheel] = folder.glob("assay-*.whl")
    return wheel


def build_sdist(folder: Path) -> Path:
    """Builds the source distribution."""
    subprocess.run(
        [sys.executable, "-m", "maturin", "sdist", "--out", folder],
        cwd=ROOT,
        env=reproducible(os.environ, ROOT),
        check=True,
        stdout=sys.stderr,
    )
    [sdist] = folder.glob("assay-*.tar.gz")
    return sdist


def needed_glibc(wheel: Path) -> dict[str, int]:
    """For each library of a wheel, the newest C library (2.x) whose symbols it names."""
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if name.endswith(".so")]
        return {
            name: max(map(int, _NEEDED.findall(archive.read(name))), default=0)
            for name in libraries
        }


def check(wheel: Path) -> str:
    """What a wheel has; raises where it is too large, or needs more than its tag says."""
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise ReleaseError(
            f"{wheel.name}: expected at most {MOST_BYTES / 1e6:.0f} MB, got {size / 1e6:.1f} MB\n"
            "hint: unzip -v lists what is large"
        )
    needed = needed_glibc(wheel)
    if len(needed) < 2:
        raise ReleaseError(
            f"{wheel.name}: expected two libraries, got {', '.join(needed) or 'none'}"
        )
    tag = re.search(r"-manylinux_2_(\d+)_", wheel.name)
    newest = max(needed.values())
    if tag is not None and newest > int(tag[1]):
        raise ReleaseError(f"{wheel.name}: a library needs glibc 2.{newest}\nhint: {needed}")
    return f"{size / 1e6:.1f} MB, glibc 2.{newest} or later"


def sha256(path: Path) -> str:
    """The hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Builds a release; the exit code."""
    parser = argparse.ArgumentParser(description="Builds a release.")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder")
    parser.add_argument("--skip-sdist", action="store_true", help="no source distribution")
    options = parser.parse_args(arguments)
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=out) as name:
            staging = Path(name)
            generate_sbom.write(ROOT, staging / SBOM)
            wheel = build_wheel(staging, target_compiler(), "--sbom-include", staging / SBOM)
            print(f"{wheel.name}: {check(wheel)}")
            made = [wheel, staging / SBOM]
            if not options.skip_sdist:
                made.append(build_sdist(staging))
            lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(made)]
            for path in made:
                path.replace(out / path.name)
        (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    except (ReleaseError, generate_sbom.SbomError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    print("".join(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
