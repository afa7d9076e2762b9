"""Installs a built wheel into empty environments and tries it: `make check-wheel` runs it.

python scripts/check_wheel.py WHEEL [--python 3.11 --python 3.12 ...]

For each interpreter a new environment gets the wheel with the extras that its commands need, and nothing of this
repository; then doctor, explain, ask, a dry run and the pages answer from an empty home. Prints what each took.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")
EXTRAS = "loop,telemetry,serve,ui"
SECONDS = 900
COMMANDS = (
    ("doctor",),
    ("explain", "econ.cost.per_token", "--preset", "dense_training_cost_fixture"),
    ("ask", "does Llama 3.1 70B in FP8 fit on one H100?"),
    ("run", "--dry-run", "--model", "synthetic", "--budget", "3m"),
)
EXPECTED = {"explain": "$30.00", "ask": "fits on 1 x h100_sxm"}
"""What stands in the output of a command."""


class WheelError(Exception):
    """What of a wheel does not work."""


def run(words: Sequence[str], environment: dict[str, str], folder: Path) -> str:
    """Run a program to its end; returns its output."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise WheelError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def empty_environment(home: Path) -> dict[str, str]:
    """The environment of somebody who has just come: a home, a PATH, and where packages come from."""
    kept = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
    prefixes = ("UV_", "PIP_", "HTTP", "http", "HTTPS", "https", "NO_PROXY", "no_proxy")
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name in kept or name.startswith(prefixes)
        },
        "HOME": str(home),
        "NO_COLOR": "1",
        "BROWSER": "true",
    }


def pages(assay: str, environment: dict[str, str], folder: Path) -> None:
    """Start the pages, ask for the first one, and end them."""
    process = subprocess.Popen(
        [assay, "ui", "--no-open", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                with urllib.request.urlopen(address[0], timeout=60) as answer:
                    if b"<html" not in answer.read():
                        raise WheelError(f"{address[0]}: expected a page")
                return
        raise WheelError(f"assay ui printed no address: {''.join(lines)[-2000:]}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def try_wheel(wheel: Path, version: str, uv: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Install and run; yields what was done, and the seconds that it took."""
    environment = empty_environment(folder / "home")
    (folder / "home").mkdir()
    work = folder / "work"
    work.mkdir()
    python, assay = (str(folder / "env" / "bin" / name) for name in ("python", "assay"))

    def timed(name: str, *words: str) -> tuple[str, float, str]:
        started = time.monotonic()
        text = run(words, environment, work)
        return name, time.monotonic() - started, text

    with_tools = {**environment, "HOME": os.environ.get("HOME", str(folder))}
    started = time.monotonic()
    run((uv, "venv", "-q", "--python", version, str(folder / "env")), with_tools, work)
    run((uv, "pip", "install", "-q", "--python", python, f"{wheel}[{EXTRAS}]"), with_tools, work)
    yield "install", time.monotonic() - started
    for words in COMMANDS:
        name, seconds, text = timed(words[0], assay, *words)
        if (expected := EXPECTED.get(name, "")) not in text:
            raise WheelError(f'assay {name}: expected "{expected}", got\n{text[-2000:]}')
        yield name, seconds
    started = time.monotonic()
    pages(assay, environment, work)
    yield "ui", time.monotonic() - started


def main(arguments: Sequence[str]) -> int:
    """Try a wheel; the exit code."""
    parser = argparse.ArgumentParser(description="Installs a wheel into empty environments.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--python", action="append", help=f"of {', '.join(VERSIONS)}; all if not given"
    )
    options = parser.parse_args(arguments)
    wheel: Path = options.wheel.resolve()
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None or not wheel.is_file():
        print(f"error: expected uv and a wheel, got {uv} and {wheel}", file=sys.stderr)
        print("hint: make wheel builds one; make setup installs uv", file=sys.stderr)
        return 2
    failed = False
    for version in options.python or VERSIONS:
        with tempfile.TemporaryDirectory(prefix="assay-wheel-") as name:
            try:
                for what, seconds in try_wheel(wheel, version, uv, Path(name)):
                    print(f"Python {version}  {what:8} {seconds:7.1f} s", flush=True)
            except (WheelError, subprocess.TimeoutExpired) as error:
                failed = True
                print(f"Python {version}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
