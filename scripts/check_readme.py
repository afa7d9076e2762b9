"""Does what README.md says, as a stranger would: from a tarball without git, in an empty home.

python scripts/check_readme.py [--all] [--keep FOLDER]

`make check-readme` runs it. The last commit is unpacked; `make demo-cost` and `make run` set it up and run, models that
README.md names are downloaded, and every command and program of README.md runs, or says why not
(tests/documents/document_rules.py). --all adds `make test` and what takes minutes. Python, Rust, a C compiler and
make are there, and nothing else of the one who runs it. Prints what each step took, and ends with 1 if one failed.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("smollm2", "kokoro", "whisper-tiny.en", "moonshine-tiny", "silero-vad", "speech-samples")
"""What the commands of README.md need, by `assay pull`."""


def unpack(root: Path, folder: Path) -> Path:
    """The last commit as a folder without git."""
    command = ["git", "-C", str(root), "archive", "--prefix=assay/", "HEAD"]
    packed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "assay"


def environment(home: Path) -> dict[str, str]:
    """An empty home; compilers and where packages come from stay."""
    before = Path(os.environ.get("HOME", "/"))
    kept = ("PATH", "LANG", "TERM", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
    prefixes = (
        "UV_",
        "PIP_",
        "CARGO_",
        "RUSTUP_",
        "NPM_CONFIG_",
        "HTTP",
        "http",
        "NO_PROXY",
        "no_proxy",
    )
    stated = {
        name: value
        for name, value in os.environ.items()
        if name in kept or (name.startswith(prefixes) and name != "CARGO_TARGET_DIR")
    }
    tools = {"CARGO_HOME": str(before / ".cargo"), "RUSTUP_HOME": str(before / ".rustup")}
    # A version manager of Pythons finds its own by this.
    if (before / ".pyenv").is_dir():
        tools["PYENV_ROOT"] = str(before / ".pyenv")
    return {**tools, **stated, "HOME": str(home), "NO_COLOR": "1"}


def steps(*, everything: bool) -> list[tuple[str, list[str]]]:
    """What is done, in order: a name, and a command in the folder."""
    assay, python = ".venv/bin/assay", ".venv/bin/python"
    runner = [python, "tests/documents/run_documents.py", "README.md"]
    listed = [
        ("make demo-cost", ["make", "demo-cost"]),
        ("make run", ["make", "run"]),
        *((f"assay pull {name}", [assay, "pull", name]) for name in MODELS),
        ("commands of README.md", [*runner, *(["--minutes"] if everything else [])]),
        ("programs of README.md", [python, "-c", PROGRAMS]),
    ]
    return [*listed, ("make test", ["make", "test"])] if everything else listed


PROGRAMS = """
import re
for text in re.findall(r"^```python\\n(.*?)^```", open("README.md").read(), re.M | re.S):
    exec(compile(text, "README.md", "exec"), {})
"""


def main(arguments: Sequence[str]) -> int:
    """Run all steps; the exit code."""
    parser = argparse.ArgumentParser(description="Does what README.md says, in an empty home.")
    parser.add_argument("--all", action="store_true", help="add make test and what takes minutes")
    parser.add_argument("--keep", type=Path, help="unpack here, and leave it")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="assay-readme-") as name:
        folder: Path = (options.keep or Path(name)).resolve()
        home = folder / "home"
        home.mkdir(parents=True)
        root = unpack(ROOT, folder)
        times: list[tuple[str, float, int]] = []
        for title, command in steps(everything=options.all):
            print(f"== {title}", flush=True)
            started = time.monotonic()
            done = subprocess.run(
                command, cwd=root, env=environment(home), stdin=subprocess.DEVNULL
            )
            times.append((title, time.monotonic() - started, done.returncode))
    print()
    for title, seconds, code in times:
        print(f"{seconds:8.1f} s  {'ok' if code == 0 else f'FAILED ({code})':12} {title}")
    print(f"{sum(seconds for _, seconds, _ in times):8.1f} s  in all")
    # A step that the system has killed had too little memory, as a rule.
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"{largest:8.1f} GB in the largest process")
    return 1 if any(code for _, _, code in times) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
