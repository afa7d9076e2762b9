"""Servers that are measured: each by its own command, in a process group of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from assay.errors import InputError, NoDataError, unknown_name
from assay.http_client import FAILURES, Address, answered, is_success, read_body
from assay.improve.engines.vllm import free_port

START_SECONDS: Final = 600.0
"""Time until a server answers: loading, compiling and capturing included."""
STOP_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.25

VLLM_ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How a server is started; `{port}` in its arguments is the port."""

    name: str
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    """What should stand beside its results."""


def own_server(
    model: str, device: str, options: Sequence[str] = (), adapters: Mapping[str, Path] | None = None
) -> ServerCommand:
    """`assay serve` at its defaults, besides the device."""
    loras = [f"--lora={name}={folder}" for name, folder in (adapters or {}).items()]
    arguments = (
        *(sys.executable, "-m", "assay", "serve", model, "--device", device),
        *("--port", "{port}", "--no-access-log", *options, *loras),
    )
    return ServerCommand("assay", arguments)


def rival_server(
    name: str, model: str, adapters: Mapping[str, Path] | None = None
) -> ServerCommand:
    """A rival by its own command at its defaults: `vllm serve` or `llama-server`."""
    if name == "vllm":
        return _vllm(model, adapters or {})
    if name == "llama.cpp":
        if adapters:
            raise InputError(
                "llama.cpp: expected a case that its server can be asked, got one of LoRA adapters",
                "its requests do not choose one by name",
            )
        return _llama_cpp(model)
    raise unknown_name("rival", name, ("vllm", "llama.cpp"))


def _vllm(model: str, adapters: Mapping[str, Path]) -> ServerCommand:
    beside = Path(sys.executable).parent / "vllm"
    program = str(beside) if beside.exists() else shutil.which("vllm")
    if program is None:
        raise InputError("vllm: expected to be installed, got none", "pip install vllm")
    environment, notes = dict(VLLM_ENVIRONMENT), []
    if importlib.util.find_spec("flashinfer") is None:
        environment["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
        notes.append("vLLM samples by its own kernels: the host has no FlashInfer")
    arguments = [program, "serve", model, "--port", "{port}"]
    if adapters:
        # Without these it would load them one after the other.
        arguments += ["--enable-lora", "--max-loras", str(len(adapters)), "--max-lora-rank", "16"]
        arguments += ["--lora-modules", *(f"{name}={path}" for name, path in adapters.items())]
    return ServerCommand("vllm", tuple(arguments), tuple(environment.items()), tuple(notes))


def _llama_cpp(model: str) -> ServerCommand:
    options = ("--model", model, "--port", "{port}")
    if program := shutil.which("llama-server"):
        return ServerCommand("llama.cpp", (program, *options))
    if importlib.util.find_spec("xllamacpp") is None:
        raise InputError(
            "llama.cpp: expected llama-server on PATH or the package xllamacpp, got neither",
            "pip install 'assay[llama-cpp]'",
        )
    own = (sys.executable, "-m", "assay.improve.engines.llama_cpp_server")
    note = "llama.cpp's server from the package xllamacpp"
    return ServerCommand("llama.cpp", (*own, *options), notes=(note,))


class RunningServer:
    """A server between its start and its end; leaving the block ends all of its processes."""

    def __init__(self, command: ServerCommand, log: Path, seconds: float = START_SECONDS) -> None:
        self.command = command
        self._log = log
        self._limit_s = seconds
        self.port = free_port()
        self.start_s = 0.0
        """Seconds until it answered."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def _address(self) -> Address:
        return Address("http", "127.0.0.1", self.port, "", "", None)

    def __enter__(self) -> Self:
        arguments = [text.replace("{port}", str(self.port)) for text in self.command.arguments]
        begun = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                arguments,
                env={**os.environ, **dict(self.command.environment)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(begun)
        except BaseException:
            self._stop()
            raise
        self.start_s = time.monotonic() - begun
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def counters(self) -> dict[str, float]:
        """Counters that it exposes to Prometheus, the labels of one name added up."""
        sums: dict[str, float] = {}
        try:
            with answered(self._address, "GET", "/metrics", timeout_s=10.0) as answer:
                text = read_body(answer).decode() if is_success(answer) else ""
        except FAILURES:
            return sums
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if line.startswith("#") or not name:
                continue
            try:
                name = name.partition("{")[0]
                sums[name] = sums.get(name, 0.0) + float(value)
            except ValueError:
                continue
        return sums

    def _wait(self, begun: float) -> None:
        assert self._process is not None
        while time.monotonic() - begun < self._limit_s:
            if (status := self._process.poll()) is not None:
                raise NoDataError(f"{self.command.name}: ended with {status}: {self._last_words()}")
            try:
                with answered(self._address, "GET", "/v1/models", timeout_s=5.0) as answer:
                    if is_success(answer):
                        return
            except FAILURES:
                pass
            time.sleep(POLL_SECONDS)
        raise NoDataError(
            f"{self.command.name}: expected an answer within {self._limit_s:g} s, got none: "
            f"{self._last_words()}"
        )

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        process.wait()
