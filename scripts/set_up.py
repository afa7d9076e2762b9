"""Makes .venv, installs the packages and builds the extension; does nothing when nothing changed.

Run by make, with the set of packages that the target needs: `run` for the product, `dev` for tests
and lints besides. Nothing is ever uninstalled. A stamp in .venv remembers what each step was made
from, so that only the steps whose inputs changed are taken again.
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "set-up.json"
EXTENSION = ROOT / "python" / "assay" / "_native.abi3.so"
INJECTED_LIBRARY = ROOT / "python" / "assay" / "libassay_inject.so"

INSTALLER = "uv>=0.9"
SETS = {
    "run": ("loop", "telemetry", "ui"),
    "dev": ("loop", "telemetry", "ui", "export", "fleet", "serve", "symbolic", "dev"),
}
"""Extras of each set of packages; a later set holds the earlier ones."""

TOOLS = {
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


def requirements(packages: str) -> list[str]:
    """What pyproject.toml names for a set of packages, and what builds the extension."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = stated["project"]["optional-dependencies"]
    named = [*stated["project"]["dependencies"], *stated["build-system"]["requires"]]
    return named + [line for extra in SETS[packages] for line in extras[extra]]


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
        packages: digest(line.encode() for line in requirements(packages)),
        "extension": digest(
            part
            for path in native_sources()
            for part in (str(path.relative_to(ROOT)).encode(), path.read_bytes())
        ),
    }


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
    for tool, hint in TOOLS.items():
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


def install_packages(packages: str) -> None:
    """Installs a set of packages with uv, which is quick, else with pip."""
    wanted = requirements(packages)
    run(PYTHON, "-m", "pip", "install", "--quiet", INSTALLER)
    try:
        run(PYTHON, "-m", "uv", "pip", "install", "--quiet", "--python", PYTHON, *wanted)
    except SetUpError:
        # uv does not read pip's configuration, where a mirror or a proxy may be named.
        say("      uv could not install them; trying pip")
        run(PYTHON, "-m", "pip", "install", "--quiet", *wanted)


def start_compiling() -> subprocess.Popen[bytes]:
    """Starts what the extension is made of, so that packages are downloaded meanwhile.

    The binding itself is left to maturin, whose settings of the interpreter it is built with.
    """
    crates = ("assay-cpu", "assay-cuda", "assay-formats", "assay-kv-cache", "assay-tape")
    command = ["cargo", "build", *(word for crate in crates for word in ("--package", crate))]
    return subprocess.Popen(command, cwd=ROOT, env=environment_variables(), stdout=sys.stderr)


def build_extension() -> None:
    """Builds the extension into the source tree and installs the package as editable.

    The library that is injected into traced programs is built beside it.
    """
    run(PYTHON, "-m", "maturin", "develop", "--uv")
    run(PYTHON, ROOT / "scripts" / "inject_library.py")


def steps(packages: str) -> list[Step]:
    """What is to be done, in order: the key in the stamp, a title, the work."""
    return [
        ("environment", "Python environment in .venv", make_environment),
        (packages, f'packages of the set "{packages}"', lambda: install_packages(packages)),
        ("extension", "native extension", build_extension),
    ]


def set_up(packages: str) -> None:
    """Takes the steps whose inputs changed since they were last taken."""
    wanted, done = wanted_stamp(packages), found_stamp()
    if all(done.get(key) == wanted[key] for key in wanted):
        return
    check_tools()
    if done.get("environment") != wanted["environment"]:
        done = {}
    ahead: subprocess.Popen[bytes] | None = None
    plan = steps(packages)
    try:
        for number, (key, title, step) in enumerate(plan, start=1):
            if done.get(key) == wanted[key]:
                say(f"[{number}/{len(plan)}] {title}: up to date")
                continue
            say(f"[{number}/{len(plan)}] {title} ...")
            started = time.monotonic()
            if key == packages and done.get("extension") != wanted["extension"]:
                ahead = start_compiling()
            if key == "extension" and ahead is not None:
                # maturin takes what is built, or says what is wrong.
                ahead.wait()
            step()
            done[key] = wanted[key]
            STAMP.write_text(json.dumps(done, indent=2) + "\n", encoding="utf-8")
            say(f"[{number}/{len(plan)}] {title}: done in {time.monotonic() - started:.0f} s")
    finally:
        if ahead is not None and ahead.poll() is None:
            ahead.terminate()
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
