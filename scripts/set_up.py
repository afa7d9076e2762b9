"""Makes .venv, installs the packages and builds the extension; does nothing when nothing changed.

Run by `make setup`. A stamp in .venv remembers what each step was made from, so that only the
steps whose inputs changed are taken again.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "set-up.json"
EXTENSION = ROOT / "python" / "assay" / "_native.abi3.so"
INJECTED_LIBRARY = ROOT / "python" / "assay" / "libassay_inject.so"

TOOLS = {
    "cargo": "install Rust 1.89 or later, for example from https://rustup.rs",
    "cc": "install a C compiler, for example the package gcc; Rust links with it",
}


class SetUpError(Exception):
    """A step that could not be taken, with a hint on the next line."""


def say(text: str) -> None:
    """Prints one line of progress, apart from the data on standard output."""
    print(text, file=sys.stderr, flush=True)


def run(*command: str | Path) -> None:
    """Runs a command in the repository, as if .venv were activated."""
    environment = os.environ | {
        "VIRTUAL_ENV": str(ENVIRONMENT),
        "PATH": f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    # What the tools report is progress too.
    finished = subprocess.run([*command], cwd=ROOT, env=environment, stdout=sys.stderr)
    if finished.returncode != 0:
        line = " ".join(str(word) for word in command)
        raise SetUpError(
            f"exit status {finished.returncode} from: {line}\nhint: see its output above"
        )


def requirements() -> list[str]:
    """The run-time and development requirements that pyproject.toml names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named: list[str] = project["dependencies"] + project["optional-dependencies"]["dev"]
    return named


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


def wanted_stamp() -> dict[str, str]:
    """What an up-to-date environment would have been made from, step by step."""
    return {
        # Scripts in .venv/bin hold absolute paths: a moved checkout needs a new one.
        "environment": str(ROOT),
        "packages": digest(line.encode() for line in requirements()),
        "extension": digest(
            part
            for path in native_sources()
            for part in (str(path.relative_to(ROOT)).encode(), path.read_bytes())
        ),
    }


def found_stamp() -> dict[str, str]:
    """What the environment on disk was made from; empty where nothing usable is there."""
    try:
        found: dict[str, str] = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not PYTHON.exists():
        return {}
    built = [EXTENSION, *([INJECTED_LIBRARY] if sys.platform == "linux" else [])]
    if not all(path.exists() for path in built):
        found.pop("extension", None)
    return found


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


def install_packages() -> None:
    """Installs the requirements with uv, which is quick, else with pip."""
    wanted = requirements()
    run(PYTHON, "-m", "pip", "install", "--quiet", *(w for w in wanted if re.match(r"uv\b", w)))
    try:
        # uv leaves bytecode to the first import, which may be forbidden to write it.
        options = ("--quiet", "--compile-bytecode", "--python", PYTHON)
        run(PYTHON, "-m", "uv", "pip", "install", *options, *wanted)
    except SetUpError:
        # uv does not read pip's configuration, where a mirror or a proxy may be named.
        say("      uv could not install them; trying pip")
        run(PYTHON, "-m", "pip", "install", "--quiet", *wanted)


def build_extension() -> None:
    """Builds the extension into the source tree and installs the package as editable.

    The library that is injected into traced programs is built beside it.
    """
    run(PYTHON, "-m", "maturin", "develop", "--uv")
    run(PYTHON, ROOT / "scripts" / "inject_library.py")


STEPS: list[tuple[str, str, Callable[[], None]]] = [
    ("environment", "Python environment in .venv", make_environment),
    ("packages", "packages named in pyproject.toml", install_packages),
    ("extension", "native extension", build_extension),
]


def set_up() -> None:
    """Takes the steps whose inputs changed since they were last taken."""
    wanted, done = wanted_stamp(), found_stamp()
    if done == wanted:
        return
    check_tools()
    if done.get("environment") != wanted["environment"]:
        done = {}
    for number, (key, title, step) in enumerate(STEPS, start=1):
        if done.get(key) == wanted[key]:
            say(f"[{number}/{len(STEPS)}] {title}: up to date")
            continue
        say(f"[{number}/{len(STEPS)}] {title} ...")
        started = time.monotonic()
        step()
        done[key] = wanted[key]
        STAMP.write_text(json.dumps(done, indent=2) + "\n", encoding="utf-8")
        say(f"[{number}/{len(STEPS)}] {title}: done in {time.monotonic() - started:.0f} s")


def main() -> int:
    """Sets up under a lock, so that two makes at once do not write over each other."""
    lock_path = ROOT / "build" / "set-up.lock"
    lock_path.parent.mkdir(exist_ok=True)
    with lock_path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            set_up()
        except SetUpError as error:
            say(f"error: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
