"""Runs every command and program of the documents, or says why it is not run; `make documents` runs it.

Commands of a document run one after the other in a folder that has the files which they name, with a scratch folder of
their own and the machine's downloaded models. What serves is started, waited for and ended; where a command names
localhost:8000, a server of SmolLM2 answers. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS / folder) for folder in ("documents", "engine", "diagnose")]

from document_blocks import Block, all_blocks  # noqa: E402
from document_files import write_files, write_run, write_sounds  # noqa: E402
from document_rules import EXIT_CODES, FIRST, IMPLIED_MODELS, MINUTES, NETWORK, PROGRAMS, reason  # noqa: E402

from assay import paths  # noqa: E402
from assay.engine.loading.sources import SOURCES  # noqa: E402

SECONDS = 900
"""The longest that a command may take, on a machine with other work too; with --minutes four times as long."""
ENDING_S = 180
"""The longest that a server may take to end."""
SERVES = re.compile(r"^assay (?:serve|ui|telemetry (?:watch$|watch --json|record))")
"""Commands that go on until they are ended."""
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):8000")


class Outcome(NamedTuple):
    """A command or program, where it stands, and how it ended."""

    place: str
    command: str
    seconds: float
    problem: str
    """Empty where it succeeded."""
    not_run: str
    """Why it was not run; empty where it was."""


class Bench:
    """A folder to run commands in, its environment, and a server for those that ask one."""

    def __init__(self, folder: Path, root: Path, files: Path, seconds: float) -> None:
        self.seconds = seconds
        self.work = folder / "work"
        shutil.copytree(files, self.work, symlinks=True)
        scratch = folder / "scratch"
        scratch.mkdir()
        self.models = paths.scratch() / "models"
        if self.models.is_dir():
            (scratch / "models").symlink_to(self.models)
        write_sounds(self.work, self.models)
        self.run_name = write_run(scratch, root)
        programs = folder / "bin"
        programs.mkdir()
        assay = programs / "assay"
        assay.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m assay "$@"\n')
        assay.chmod(0o755)
        (programs / "python").symlink_to(sys.executable)
        self.environment = os.environ | {
            "ASSAY_SCRATCH": str(scratch),
            "ASSAY_CONFIG": "",
            "NO_COLOR": "1",
            "BROWSER": "true",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(root / "python"),
        }
        self.port: int | None = None

    def missing_model(self, command: str) -> str | None:
        """A model that a command names or implies and that is not downloaded."""
        named = [
            name for name in SOURCES if re.search(rf"(?<![\w./-]){re.escape(name)}\b", command)
        ]
        for pattern, models in IMPLIED_MODELS.items():
            named += models if re.search(pattern, command) else ()
        return next((name for name in named if not (self.models / name).exists()), None)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """A server, started by the first command that asks one."""
        process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = ["serve", "smollm2", "--port", str(self.port), "--enable-sleep-mode"]
        words += ["--chat-template", "examples/chat_templates/chatml_tools.jinja"]
        log = self.work.parent / "server.log"
        try:
            with log.open("wb") as said:
                process = subprocess.Popen(
                    [sys.executable, "-m", "assay", *words],
                    env=self.environment,
                    cwd=self.work,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                )
            self._wait(process, log)
            yield
        finally:
            if process is not None:
                process.send_signal(signal.SIGTERM)
                process.wait(ENDING_S)

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> None:
        # A machine that is busy with other work takes minutes.
        end = time.monotonic() + 600
        while time.monotonic() < end and process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.5)
        said = log.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"the server for the documents did not start: {said[-1]}")

    def run(self, words: list[str], expected: int = 0) -> str:
        """Run to the end; returns what went wrong."""
        try:
            done = subprocess.run(
                words,
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.seconds,
            )
        except subprocess.TimeoutExpired:
            return f"took more than {self.seconds:.0f} s"
        if done.returncode == expected:
            return ""
        return f"exit code {done.returncode}, expected {expected}: {done.stderr[-600:]}"

    def serve(self, command: str) -> str:
        """Start what serves, wait for its first output, and end it; returns what went wrong."""
        if command.startswith(("assay serve", "assay ui")):
            command = re.sub(r" --port \d+", "", command) + " --port 0"
        if command.startswith("assay ui"):
            command += " --no-open"
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            end = time.monotonic() + self.seconds
            ready = re.compile(r"http://127\.0\.0\.1:\d+|\S")
            pattern = ready if "serve" not in command else re.compile(r"http://127\.0\.0\.1:\d+")
            while time.monotonic() < end and process.poll() is None:
                output.seek(0)
                if pattern.search(output.read()):
                    break
                time.sleep(0.3)
            time.sleep(1)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                code = process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "did not end when it was told to"
            output.seek(0)
            return (
                ""
                if code in (0, 130, 143, -signal.SIGTERM)
                else f"exit code {code}: {output.read()[-600:]}"
            )

    def addressed(self, text: str) -> str:
        """A text that names this server, and the stored run."""
        text = ADDRESS.sub(f"127.0.0.1:{self.port}", text)
        return re.sub(r"\b(?:RUN|ID)\b", self.run_name, re.sub(r"\bTRACE\b", "trace.json.gz", text))


def outcomes(blocks: list[Block], root: Path, minutes: bool) -> Iterator[Outcome]:
    """Run the blocks document by document; with `minutes` also what takes long."""
    with tempfile.TemporaryDirectory() as name:
        files = Path(name) / "files"
        files.mkdir()
        write_files(files, root, all_blocks(root))
        for document in dict.fromkeys(block.document for block in blocks):
            own = [block for block in blocks if block.document == document]
            asked = [
                command for block in own for command in block.commands if not reason(block, command)
            ]
            programs = [block.text for block in own if block.language == "py"]
            bench = Bench(Path(name) / document, root, files, SECONDS * (4 if minutes else 1))
            for command in FIRST.get(document, ()):
                if problem := bench.run(["bash", "-c", command]):
                    yield Outcome(document, command, 0, problem, "")
            with bench.serving() if any(map(ADDRESS.search, asked + programs)) else nullcontext():
                yield from _document(bench, own, minutes)


def _document(bench: Bench, blocks: list[Block], minutes: bool) -> Iterator[Outcome]:
    for block in blocks:
        for command in block.commands:
            why = reason(block, command)
            if minutes and why == MINUTES:
                why = None
            if why is None and (model := bench.missing_model(command)):
                why = f"{NETWORK}: assay pull {model}"
            if why is not None:
                yield Outcome(block.place, command, 0, "", why)
                continue
            started = time.monotonic()
            addressed = bench.addressed(command)
            if command.startswith("export "):
                name, _, value = command.removeprefix("export ").partition("=")
                bench.environment[name] = value
                problem = ""
            elif SERVES.match(command):
                problem = bench.serve(addressed)
            else:
                words = ["bash", "-o", "pipefail", "-c", addressed]
                problem = bench.run(words, EXIT_CODES.get(command, 0))
            yield Outcome(block.place, command, time.monotonic() - started, problem, "")
    # Programs that need a server or a model; the others run in tests/test_examples.py.
    programs = [block for block in blocks if block.language == "py"]
    if programs:
        started = time.monotonic()
        text = bench.addressed("\n".join(block.text for block in programs))
        why = PROGRAMS.get(programs[0].document, "")
        why = "" if minutes and why == MINUTES else why
        problem = "" if why else bench.run([sys.executable, "-c", text])
        seconds = time.monotonic() - started
        yield Outcome(programs[0].place, "python", seconds, problem, why)


def main() -> int:
    """Run the documents that are named, or all; the exit status."""
    parser = argparse.ArgumentParser(description="Run the commands of the documents.")
    parser.add_argument("documents", nargs="*", help="such as README.md; all if not given")
    parser.add_argument("--minutes", action="store_true", help="run what takes minutes, too")
    parser.add_argument("--json", type=Path, help="a file for the outcomes")
    options = parser.parse_args()
    root = _TESTS.parent
    blocks = all_blocks(root)
    if unknown := set(options.documents) - {block.document for block in blocks}:
        parser.error(f"no code blocks in {', '.join(sorted(unknown))}")
    chosen = [b for b in blocks if not options.documents or b.document in options.documents]
    kept = []
    for outcome in outcomes(chosen, root, options.minutes):
        kept.append(outcome)
        state = "not run" if outcome.not_run else "FAILED" if outcome.problem else "ok"
        print(f"{state:8}{outcome.seconds:7.1f} s  {outcome.place}  {outcome.command}", flush=True)
        if outcome.problem or outcome.not_run:
            print(f"          {outcome.problem or outcome.not_run}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps([outcome._asdict() for outcome in kept], indent=1))
    failed = sum(bool(outcome.problem) for outcome in kept)
    reasons = Counter(outcome.not_run.partition(":")[0] for outcome in kept if outcome.not_run)
    ran = len(kept) - sum(reasons.values())
    print(f"{len(chosen)} blocks: {ran} commands and programs ran, {failed} failed")
    for why, count in reasons.most_common():
        print(f"  {count} not run: {why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
