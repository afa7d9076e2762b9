"""Makes .venv, installs the packages and builds the extension; does nothing when nothing changed.

Run by make, with the set of packages that the target needs: `run` for the product, `dev` for tests
and lints besides. The extension of `run` is built quickly: without checks, with kernels for this CPU
alone. Nothing is ever uninstalled. A stamp in .venv remembers what each step was made
from, so that only the steps whose inputs changed are taken again.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "set-up.json"
EXTENSION = ROOT / "python" / "assay" / "_native.abi3.so"
INJECTED_LIBRARY = ROOT / "python" / "assay" / "libassay_inject.so"

INSTALLER = "uv>=0.9"
SETS = {
    "run": ("loop", "telemetry", "ui"),
    "dev": ("loop", "telemetry", "ui", "export", "store", "serve", "mcp", "symbolic", "dev"),
}
"""Extras of each set of packages; a later set holds the earlier ones."""

PROFILES = {"run": "quick", "dev": "dev"}
"""How the extension is built for each set: quickly, or as tests need it, which serves both."""
QUICK = " built quickly"
"""What the stamp of the first ends with."""

PROGRAMS = {
    "cargo": "install Rust 1.89 or later, for example from https://rustup.rs",
    "cc": "install a C compiler, for example the package gcc; Rust links with it",
}


Step = tuple[str, str, Callable[[], None]]


class SetUpError(Exception):
    """A step that could not be taken, with a hint on the next line."""


def say(text: str) -> None:
    """Prints one line of progress, apart from the data on standard output."""
    print(text, file=sys.stderr, flush=True)


def environment_variables() -> dict[str, str]:
    """This process's environment, as if .venv were activated."""
    return os.environ | {
        "VIRTUAL_ENV": str(ENVIRONMENT),
        "PATH": f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def run(*command: str | Path) -> None:
    """Runs a command in the repository."""
    # What the tools report is progress too.
    finished = subprocess.run([*command], cwd=ROOT, env=environment_variables(), stdout=sys.stderr)
    if finished.returncode != 0:
        line = " ".join(str(word) for word in command)
        raise SetUpError(
            f"exit status {finished.returncode} from: {line}\nhint: see its output above"
        )


def stated() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(packages: str) -> list[str]:
    """What pyproject.toml names for a set of packages."""
    project = stated()["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in SETS[packages] for line in extras[extra])]


def tools() -> list[str]:
    """What installs the packages and builds the extension."""
    return [INSTALLER, *stated()["build-system"]["requires"]]


def native_sources() -> Iterator[Path]:
    """Every file that the extension or its installed metadata is made from."""
    yield from (ROOT / name for name in ("pyproject.toml", "Cargo.toml", "Cargo.lock"))
    yield from sorted(path for path in (ROOT / "crates").rglob("*") if path.is_file())


def digest(parts: Iterator[bytes]) -> str:
    """One hash over all parts, in order."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()


def wanted_stamp(packages: str) -> dict[str, str]:
    """What an up-to-date environment would have been made from, step by step."""
    return {
        # Scripts in .venv/bin hold absolute paths: a moved checkout needs a new one.
        "environment": str(ROOT),
        "tools": digest(line.encode() for line in tools()),
        packages: digest(line.encode() for line in requirements(packages)),
        "extension": digest(
            part
            for path in native_sources()
            for part in (str(path.relative_to(ROOT)).encode(), path.read_bytes())
        )
        + (QUICK if packages == "run" else ""),
    }


def is_done(key: str, done: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether a step needs not be taken; one built for tests serves the product."""
    return done.get(key) in (wanted[key], wanted[key].removesuffix(QUICK))


def found_stamp() -> dict[str, str]:
    """What the environment on disk was made from; empty where nothing usable is there."""
    try:
        stamp: dict[str, str] = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not PYTHON.exists():
        return {}
    built = [EXTENSION, *([INJECTED_LIBRARY] if sys.platform == "linux" else [])]
    if not all(path.exists() for path in built):
        stamp.pop("extension", None)
    return stamp


def check_tools() -> None:
    """Refuses to start what could not be finished."""
    for tool, hint in PROGRAMS.items():
        if shutil.which(tool) is None:
            raise SetUpError(
                f"{tool} is needed to build the extension and is not on PATH\nhint: {hint}"
            )


def make_environment() -> None:
    """Makes .venv, or keeps one that works where it stands."""
    probe = [str(PYTHON), "-c", "import pip, sys; assert sys.version_info >= (3, 11)"]
    moved = found_stamp().get("environment", str(ROOT)) != str(ROOT)
    works = PYTHON.exists() and subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0
    if moved or not works:
        run(sys.executable, "-m", "venv", "--clear", ENVIRONMENT)


def install_tools() -> None:
    """Installs what the later steps are taken with."""
    run(PYTHON, "-m", "pip", "install", "--quiet", *tools())


def install_packages(packages: str) -> None:
    """Installs a set of packages with uv, which is quick, else with pip."""
    wanted = requirements(packages)
    try:
        run(PYTHON, "-m", "uv", "pip", "install", "--quiet", "--python", PYTHON, *wanted)
    except SetUpError:
        # uv does not read pip's configuration, where a mirror or a proxy may be named.
        say("      uv could not install them; trying pip")
        run(PYTHON, "-m", "pip", "install", "--quiet", *wanted)


def building(packages: str) -> list[str | Path]:
    """The command that builds the extension for a set of packages into the source tree."""
    # Kernels for every CPU are a default.
    quick = ["--no-default-features"] if packages == "run" else []
    return [
        *(PYTHON, "-m", "maturin", "develop", "--profile", PROFILES[packages]),
        *("--features", "extension-module", *quick),
    ]


def start_compiling(packages: str) -> subprocess.Popen[bytes]:
    """Starts to build the extension, so that packages are downloaded meanwhile."""
    return subprocess.Popen(
        [*building(packages), "--skip-install"],
        cwd=ROOT,
        env=environment_variables(),
        stdout=sys.stderr,
        # Stopped with all that it started.
        process_group=0,
    )


def build_extension(packages: str) -> None:
    """Builds the extension and installs the package as editable.

    The library that is injected into traced programs is built beside it.
    """
    run(*building(packages), "--uv")
    run(PYTHON, ROOT / "scripts" / "inject_library.py", PROFILES[packages])


def steps(packages: str) -> list[Step]:
    """What is to be done, in order: the key in the stamp, a title, the work."""
    return [
        ("environment", "Python environment in .venv", make_environment),
        ("tools", "uv and maturin", install_tools),
        (packages, f'packages of the set "{packages}"', lambda: install_packages(packages)),
        ("extension", "native extension", lambda: build_extension(packages)),
    ]


def set_up(packages: str) -> None:
    """Takes the steps whose inputs changed since they were last taken."""
    wanted, done = wanted_stamp(packages), found_stamp()
    if all(is_done(key, done, wanted) for key in wanted):
        return
    check_tools()
    if done.get("environment") != wanted["environment"]:
        done = {}
    ahead: subprocess.Popen[bytes] | None = None
    plan = steps(packages)
    try:
        for number, (key, title, step) in enumerate(plan, start=1):
            if is_done(key, done, wanted):
                say(f"[{number}/{len(plan)}] {title}: up to date")
                continue
            say(f"[{number}/{len(plan)}] {title} ...")
            started = time.monotonic()
            if key == packages and not is_done("extension", done, wanted):
                ahead = start_compiling(packages)
            if key == "extension" and ahead is not None:
                # maturin takes what is built, or says what is wrong.
                ahead.wait()
            step()
            done[key] = wanted[key]
            STAMP.write_text(json.dumps(done, indent=2) + "\n", encoding="utf-8")
            say(f"[{number}/{len(plan)}] {title}: done in {time.monotonic() - started:.0f} s")
    finally:
        if ahead is not None and ahead.poll() is None:
            os.killpg(ahead.pid, signal.SIGTERM)
            ahead.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Sets up under a lock, so that two makes at once do not write over each other."""
    parser = argparse.ArgumentParser(description="Makes .venv and builds the extension.")
    parser.add_argument("packages", choices=SETS, nargs="?", default="dev")
    packages = parser.parse_args(arguments).packages
    lock_path = ROOT / "build" / "set-up.lock"
    lock_path.parent.mkdir(exist_ok=True)
    with lock_path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            set_up(packages)
        except SetUpError as error:
            say(f"error: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
