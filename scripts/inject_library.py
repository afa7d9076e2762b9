"""Builds the library that the CUDA driver loads into traced programs, beside the extension.

maturin builds one library, the extension. This one has no Python in it and is a crate of its own
(crates/assay-inject), built with the same profile so that both share their dependencies. Run by
scripts/set_up.py, by scripts/bundle.py, and by scripts/build_backend.py when pip builds a wheel.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "python" / "assay" / "libassay_inject.so"


def build(
    profile: str = "dev",
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Builds the library and returns its path in the target folder."""
    command = [
        *("cargo", "rustc", "--quiet", "--package", "assay-inject", "--lib"),
        *("--crate-type", "cdylib", "--profile", profile),
        *("--message-format", "json-render-diagnostics", *arguments),
    ]
    built = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    messages = (json.loads(line) for line in built.stdout.splitlines() if line.startswith(b"{"))
    libraries = [
        name
        for message in messages
        if message.get("target", {}).get("name") == "assay_inject"
        for name in message.get("filenames", [])
        if name.endswith(".so")
    ]
    return Path(libraries[-1])


def place(library: Path) -> None:
    """Puts the library into the package, whole or not at all."""
    staging = LIBRARY.with_name(f".{LIBRARY.name}.{os.getpid()}")
    shutil.copyfile(library, staging)
    # A library that others may write is not injected.
    staging.chmod(0o755)
    staging.replace(LIBRARY)


@contextmanager
def placed(library: Path) -> Iterator[None]:
    """Puts a library for another machine into the package while a wheel is built."""
    kept = LIBRARY.read_bytes() if LIBRARY.exists() else None
    place(library)
    try:
        yield
    finally:
        LIBRARY.unlink()
        if kept is not None:
            LIBRARY.write_bytes(kept)
            LIBRARY.chmod(0o755)


def main(profile: str = "dev") -> int:
    """Builds it for this machine."""
    if sys.platform != "linux":
        return 0
    try:
        place(build(profile))
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
