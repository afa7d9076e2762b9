"""Time and memory of a process from its start to the first token that it prints."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from assay.bench.rivals.decoder import usable_cores

POLL_SECONDS: Final = 0.005
"""Interval at which the memory of a process is sampled."""

_START_LLAMA_CPP: Final = (
    "import sys, llama_cpp\n"
    "path, prompt, threads = sys.argv[1:]\n"
    "model = llama_cpp.Llama(path, n_threads=int(threads), n_threads_batch=int(threads),"
    " verbose=False)\n"
    "answer = model(prompt, max_tokens=1, temperature=0.0)\n"
    "print(answer['choices'][0]['text'], flush=True)\n"
)


class ProcessStart(NamedTuple):
    """A process that ran to completion."""

    seconds: float
    """Until it wrote its first byte."""
    text: str
    """Its whole output."""
    anonymous_bytes: float
    """Peak anonymous memory until that byte; zero where it was not monitored."""


def commands(source: str, path: Path | None, prompt: str, device: str) -> dict[str, list[str]]:
    """Command lines that print the first token of a continuation, by subject."""
    options = ["--prompt", prompt, "--max-tokens", "1", "--greedy", "--device", device]
    by_subject = {"assay": [sys.executable, "-m", "assay", "generate", source, *options]}
    if path is not None:
        arguments = [str(path), prompt, str(usable_cores())]
        by_subject["llama.cpp"] = [sys.executable, "-c", _START_LLAMA_CPP, *arguments]
    return by_subject


def run_to_first_byte(command: Sequence[str], *, monitor_memory: bool = False) -> ProcessStart:
    """Run a process and measure the time to its first byte of output."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        # Unbuffered: reading one byte leaves the rest for `communicate`.
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        monitor = _MemoryMonitor(process.pid) if monitor_memory else None
        first = process.stdout.read(1)
        seconds = time.perf_counter() - begun
        peak = monitor.stop() if monitor is not None else 0.0
        rest, errors = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(
            f"{command[0]} ended with {process.returncode}: {errors.decode()[-500:]}"
        )
    return ProcessStart(seconds, (first + rest).decode(), peak)


def environment() -> dict[str, str]:
    """The environment of a measured process.

    Installed programs start from compiled modules: the first start may write them.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class _MemoryMonitor:
    """Samples the memory of a process in a background thread."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._peak = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory")
        self._thread.start()

    def stop(self) -> float:
        """Stop sampling and return the peak."""
        self._ended.set()
        self._thread.join()
        return self._peak

    def _sample(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self._peak = max(self._peak, anonymous_bytes(self._process))


def anonymous_bytes(process: int) -> float:
    """Anonymous resident memory of a process (RssAnon); zero once it has ended."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as lines:
            sizes = [line for line in lines if line.startswith("RssAnon:")]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return float(sizes[0].split()[1]) * 1024 if sizes else 0.0
