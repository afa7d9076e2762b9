"""The fake server behind the engine protocol: restarted for each change, with the old settings if it fails."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from assay.improve.engines import process
from assay.improve.engines.process import ServerRecord
from assay.improve.engines.protocol import (
    EngineDescription,
    EngineKnob,
    EngineLostError,
    ProbeAnswer,
    TrialFailedError,
    Undo,
)
from assay.improve.journal.journaled_engine import RUN_VARIABLE
from assay.improve.workloads.measurement import Measurement, RequestRecord, Setting
from assay.improve.workloads.workload import Window, Workload

SERVER = Path(__file__).with_name("fake_server.py")
START = {"threads": 1, "batch": 8, "cache": "f16"}
ANSWER_S = 3.0
"""A request that takes longer has hung."""


class ProcessEngine:
    """Drives fake_server.py; `run` is the id that its servers carry."""

    def __init__(self, port: int, state: Path, logs: Path, run: str) -> None:
        self.port, self.state, self.logs, self.run = port, state, logs, run
        self.on_start: Callable[[ServerRecord], None] = lambda record: None
        self._record: ServerRecord | None = None
        self._process: Any = None

    def record_for(self, settings: Mapping[str, Setting]) -> ServerRecord:
        words = [f"--{name}={value}" for name, value in settings.items()]
        argv = [sys.executable, "-S", "-E", str(SERVER), f"--port={self.port}"]
        return ServerRecord(
            (*argv, f"--state={self.state}", *words),
            environment={RUN_VARIABLE: self.run},
            health_url=f"http://127.0.0.1:{self.port}/health",
            start_timeout_s=20.0,
            log=str(self.logs / "server.log"),
        )

    def start(self, settings: Mapping[str, Setting], timeout_s: float = 6.0) -> None:
        self.stop()
        self._record, self._process = process.start(self.record_for(settings))
        self.on_start(self._record)

        def is_decided() -> bool:
            return self._process.poll() is not None or self._is_healthy()

        process.wait_until(is_decided, timeout_s)
        if self._process.poll() is not None:
            raise EngineLostError("the server ended at start", failure="crash")
        if not self._is_healthy():
            raise EngineLostError("the server does not answer", failure="timeout")

    def stop(self) -> None:
        if self._record is not None:
            process.stop(self._record, 2.0, self._process)
            self._record = None

    def describe(self) -> EngineDescription:
        return EngineDescription("fake", "1", "fake", "cpu", {})

    def knobs(self) -> Mapping[str, EngineKnob]:
        return {name: EngineKnob(name, name, value, hot=False) for name, value in START.items()}

    def settings(self) -> Mapping[str, Setting]:
        found: dict[str, Setting] = self._get("/props")["settings"]
        return found

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        try:
            before = dict(self.settings())
        except EngineLostError:
            # It crashed: what it runs next is what is asked for, on top of the start.
            before = dict(START)
        try:
            self.start({**before, **changes})
        except EngineLostError as error:
            self.start(before)
            raise TrialFailedError(error.message, failure=error.failure) from None
        return lambda: self.start(before)

    def measure(self, workload: Workload, window: Window) -> Measurement:
        begun = time.monotonic()
        records = []
        for number in range(window.requests or 1):
            sent = time.monotonic() - begun
            body = {"prompt": "one two", "max_tokens": 4}
            answer = self._get("/v1/completions", body)
            end = time.monotonic() - begun
            text = answer["choices"][0]["text"]
            records.append(RequestRecord(number, sent, end, end, 2, 4, digest=text))
        seconds = time.monotonic() - begun
        tokens = sum(one.output_tokens for one in records)
        return Measurement(
            workload.name,
            time.time(),
            seconds,
            tuple(records),
            {"output_throughput": tokens / seconds},
            "stable",
            self.settings(),
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        answers = []
        for prompt in prompts:
            body = {"prompt": prompt, "max_tokens": max_tokens, "logprobs": 2}
            found = self._get("/v1/completions", body)["choices"][0]["logprobs"]
            answers.append(
                ProbeAnswer(
                    (),
                    tuple(found["tokens"]),
                    tuple(found["token_logprobs"]),
                    (2.9,) * len(found["tokens"]),
                )
            )
        return answers

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        return None

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        return " ".join(self.record_for(settings).argv)

    def close(self) -> None:
        self.stop()

    def _is_healthy(self) -> bool:
        try:
            return self._get("/health") == {"status": "ok"}
        except EngineLostError:
            return False

    def _get(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.load(answer)
        except (OSError, HTTPException) as error:
            how = "hang" if isinstance(error, TimeoutError) else "crash"
            raise EngineLostError(f"the server does not answer: {error}", failure=how) from None


def stored_configuration(state: Path) -> dict[str, Any] | None:
    """The configuration of the server that serves now, by its own account; None where none does."""
    try:
        data = json.loads((state / "configuration.json").read_text())
    except OSError:
        return None
    found = process.identify(data["pid"])
    if found is None or not process.is_running(found):
        return None
    settings: dict[str, Any] = data["settings"]
    return settings
