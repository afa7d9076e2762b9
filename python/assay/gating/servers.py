"""Servers of a gate: every visit to a side starts one, and none is left running."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.errors import AssayError, InputError
from assay.gating.sides import Side
from assay.improve.engines import adapter as adapters, detection, process
from assay.improve.engines.adapter import Adapter
from assay.improve.engines.command import CommandTemplate
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.process import ServerRecord
from assay.improve.engines.protocol import Engine, EngineDescription
from assay.improve.engines.vllm import free_port, is_free
from assay.improve.experiments.result import Arm

REMOVE_S: Final = 60.0
"""How long docker may take to remove a container."""


class Servers:
    """Starts the sides of a comparison afresh for each visit, one at a time."""

    def __init__(
        self,
        sides: Mapping[Arm, Side],
        logs: Path,
        *,
        port: int | None = None,
        start_timeout_s: float | None = None,
        on_start: Callable[[ServerRecord], None] = lambda record: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Servers on `port`, or on free ones; `on_start` sees each before it is waited for."""
        self.sides = dict(sides)
        self.started = 0
        self.start_s: dict[Arm, list[float]] = {"control": [], "treatment": []}
        """How long each start took until it answered."""
        self.descriptions: dict[Arm, EngineDescription] = {}
        """What the first start of each side said of itself."""
        self._logs, self._port, self._start_timeout_s = logs, port, start_timeout_s
        self._on_start, self._say = on_start, say

    def only(self, arm: Arm) -> Servers:
        """One side in the place of both: A/A."""
        return self.of({"control": self.sides[arm], "treatment": self.sides[arm]})

    def of(self, sides: Mapping[Arm, Side]) -> Servers:
        """The same port and limits for other sides."""
        other = Servers(
            sides,
            self._logs,
            port=self._port,
            start_timeout_s=self._start_timeout_s,
            on_start=self._on_start,
            say=self._say,
        )
        other.started = self.started
        return other

    @contextmanager
    def open(self, arm: Arm) -> Iterator[Engine]:
        """A new server of a side, stopped at the end of the block; errors name the side."""
        side = self.sides[arm]
        port = free_port() if self._port is None else self._port
        name = f"assay-gate-{secrets.token_hex(4)}"
        command = f"{side.started_on(port, name)} {{settings}}"
        self.started += 1
        records: list[ServerRecord] = []

        def started(record: ServerRecord) -> None:
            records.append(record)
            self._on_start(record)

        try:
            self._say(f"starting {side.shown}")
            engine = HttpEngine(
                f"http://127.0.0.1:{port}",
                command,
                adapter=self._adapter(command),
                folder=self._logs / f"{self.started:03d}-{side.label}",
                cwd=side.folder,
                on_start=started,
                say=self._say,
            )
            self.start_s[arm].append(engine.server.start_seconds or 0.0)
            with closing(engine):
                self._describe(arm, engine)
                yield engine
        except AssayError as error:
            error.message = f"{side.shown}: {error.message}"
            error.args = (error.message,)
            raise
        finally:
            for record in records:
                process.stop(record)
            if side.runtime:
                # A client that had to be killed leaves its container behind.
                with suppress(InputError):
                    process.output_of((side.runtime, "rm", "--force", name), REMOVE_S)

    def _describe(self, arm: Arm, engine: HttpEngine) -> None:
        if arm not in self.descriptions:
            self.descriptions[arm] = engine.describe()

    def _adapter(self, command: str) -> Adapter:
        """What is known of the kind of server; its command is left as it is."""
        words = CommandTemplate.parse(command).words
        known = adapters.load(detection.of_command(words) or "openai")
        return replace(
            known,
            knobs={},
            always=(),
            environment={},
            # Where the cache cannot be emptied the server is not restarted: blocks ask for other
            # requests each, and both sides for the same ones.
            capabilities=tuple(word for word in known.capabilities if word != "prefix-cache"),
            start_timeout_s=self._start_timeout_s or known.start_timeout_s,
        )


def require_free(port: int) -> None:
    """Refuse a port that somebody listens on, before anything is started."""
    if not 0 < port < 1 << 16:
        raise InputError(f"--port: expected a port from 1 to 65535, got {port}")
    if not is_free(port):
        pid = process.listener(port)
        who = "a process of another user" if pid is None else f"process {pid}"
        raise InputError(
            f"--port {port}: expected a free port, got one that {who} listens on",
            "stop it, or leave --port out: a free one is taken",
        )
