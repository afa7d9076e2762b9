"""Finds how this machine compiles for the bundle's target, or says what it lacks."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TARGET = "x86_64-unknown-linux-gnu"
LINKER = "x86_64-linux-gnu-gcc"

# Debian 12's own compiler can link its standard library for another architecture;
# cargo and maturin still come from where they come from otherwise.
DEBIAN_RUSTC = Path("/usr/bin/rustc")


class MissingCompiler(Exception):
    """What must be installed before this machine can compile for the target."""


@dataclass(frozen=True)
class Compiler:
    """Arguments and environment with which maturin compiles for the target."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def has_standard_library(rustc: str) -> bool:
    """Tells whether this compiler has Rust's standard library for the target."""
    try:
        sysroot = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True)
    except OSError:
        return False
    folder = Path(sysroot.stdout.strip()) / "lib" / "rustlib" / TARGET / "lib"
    return sysroot.returncode == 0 and any(folder.glob("libstd-*"))


def knows_amd64() -> bool:
    """Tells whether dpkg would install packages of the target's architecture."""
    try:
        command = ["dpkg", "--print-foreign-architectures"]
        return "amd64" in subprocess.run(command, capture_output=True, text=True).stdout.split()
    except OSError:
        return False


def install_hint(*, rustc: bool, library: bool, linker: bool, amd64: bool) -> str:
    """The commands that add what is missing, given what is there."""
    packages = []
    if not library:
        packages += [] if rustc else ["rustc-web"]
        packages += ["libstd-rust-web-dev:amd64"]
    if not linker:
        packages += ["gcc-x86-64-linux-gnu"]
    commands = []
    if not library and not amd64:
        commands += ["dpkg --add-architecture amd64", "apt-get update"]
    commands += ["apt-get install " + " ".join(packages)]
    return "on Debian 12, as root: " + " && ".join(commands)


def cross_compiler() -> Compiler:
    """The compiler for the target on a machine of another architecture."""
    rustc = next(
        (path for path in ("rustc", str(DEBIAN_RUSTC)) if has_standard_library(path)), None
    )
    linker = shutil.which(LINKER)
    if rustc is None or linker is None:
        lacking = [TARGET + " standard library"] * (rustc is None) + [LINKER] * (linker is None)
        hint = install_hint(
            rustc=DEBIAN_RUSTC.exists(),
            library=rustc is not None,
            linker=linker is not None,
            amd64=knows_amd64(),
        )
        raise MissingCompiler(
            f"this {platform.machine()} machine cannot compile for x86_64: "
            f"no {' and no '.join(lacking)}\nhint: {hint}"
        )
    return Compiler(
        arguments=("--target", TARGET),
        environment={
            "RUSTC": rustc,
            f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER": linker,
        },
    )


def target_compiler() -> Compiler:
    """The compiler for the target on this machine."""
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        return Compiler(arguments=("--interpreter", sys.executable), environment={})
    return cross_compiler()


def build_environment(compiler: Compiler) -> dict[str, str]:
    """This process's environment with the compiler's settings over it."""
    # Panic messages name source files: let them not name this machine's folders.
    cargo_home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    flags = f"{os.environ.get('RUSTFLAGS', '')} --remap-path-prefix={cargo_home}=cargo".strip()
    return os.environ | {"RUSTFLAGS": flags} | dict(compiler.environment)
