"""Programs from their start to the first token that they print, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from assay.bench.rivals.decoder import cores

LOOK_SECONDS: Final = 0.005
"""How often the memory of a process is looked at."""

_START_LLAMA_CPP: Final = (
    "import sys, llama_cpp\n"
    "path, prompt, threads = sys.argv[1:]\n"
    "model = llama_cpp.Llama(path, n_threads=int(threads), n_threads_batch=int(threads),"
    " verbose=False)\n"
    "answer = model(prompt, max_tokens=1, temperature=0.0)\n"
    "print(answer['choices'][0]['text'], flush=True)\n"
)


class Start(NamedTuple):
    """A process that ran to its end."""

    seconds: float
    """Until it wrote its first byte."""
    text: str
    """All that it wrote."""
    anonymous_bytes: float
    """The most memory that no file holds until that byte; zero where it was not watched."""


def commands(source: str, path: Path | None, prompt: str, device: str) -> dict[str, list[str]]:
    """Command lines that print the first token of a prompt's continuation, by contestant."""
    options = ["--prompt", prompt, "--max-tokens", "1", "--greedy", "--device", device]
    found = {"assay": [sys.executable, "-m", "assay", "generate", source, *options]}
    if path is not None:
        arguments = [str(path), prompt, str(cores())]
        found["llama.cpp"] = [sys.executable, "-c", _START_LLAMA_CPP, *arguments]
    return found


def start(command: Sequence[str], *, watches_memory: bool = False) -> Start:
    """Run a process; what it takes is the time to its first byte of output."""
    # Installed programs start from compiled modules: the first start may keep what it compiles.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        # Reading one byte reads no more, so that the rest is left for `communicate`.
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=kept,
    ) as process:
        assert process.stdout is not None
        watch = _Watch(process.pid) if watches_memory else None
        first = process.stdout.read(1)
        seconds = time.perf_counter() - begun
        most = watch.end() if watch is not None else 0.0
        rest, talk = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {talk.decode()[-500:]}")
    return Start(seconds, (first + rest).decode(), most)


class _Watch:
    """Looks at the memory of a process in a thread of its own, until told to end."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._most = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory")
        self._thread.start()

    def end(self) -> float:
        """Stop looking, and say what was most."""
        self._ended.set()
        self._thread.join()
        return self._most

    def _look(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._most = max(self._most, anonymous_bytes(self._process))


def anonymous_bytes(process: int) -> float:
    """Memory of a process that no file holds, as the kernel counts it; zero once it has ended."""
    try:
        with open(f"/proc/{process}/status", encoding="ascii") as lines:
            found = [line for line in lines if line.startswith("RssAnon:")]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return float(found[0].split()[1]) * 1024 if found else 0.0
