"""Fleets of real processes: fake servers, agents on their nodes, a controller."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from injection import FOLDER, START, free_port, servers_of, start_server, stored_configuration

from assay.improve.loop.progress import Silent
from assay.load.workloads.workload import PlannedRequest, ServiceLevel, Workload
from assay.runs.fleet import FleetOptions, FleetOutcome, promote_fleet

CHANGED = {**START, "threads": 4}
BUDGET_S = 120.0
"""Enough for a busy machine; windows are short whatever it is."""


@dataclass(frozen=True)
class Servers:
    """Servers that somebody had before the promotion."""

    ports: Sequence[int]
    folder: Path

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    @property
    def restart(self) -> str:
        program = f"{sys.executable} -S -E {FOLDER / 'fake_server.py'}"
        return f"{program} --port {{port}} --state {self.folder}/{{port}} {{settings}}"

    def settings(self) -> list[dict[str, object] | None]:
        """What each server that serves was started with; None where none or several do."""
        states = [self.folder / str(port) for port in self.ports]
        return [
            stored_configuration(state) if len(servers_of(state)) == 1 else None for state in states
        ]

    def options(self, **more: Any) -> FleetOptions:
        given: dict[str, Any] = {
            "urls": self.urls,
            "restart": self.restart,
            "changes": ("threads=4",),
            "adapter": str(FOLDER / "fake.yaml"),
            "budget_s": BUDGET_S,
            **more,
        }
        return FleetOptions(**given)


@contextmanager
def servers(folder: Path, count: int) -> Iterator[Servers]:
    """Start so many; whatever runs in the end is ended."""
    ports = [free_port() for _ in range(count)]
    processes = []
    for port in ports:
        state = folder / str(port)
        state.mkdir(exist_ok=True)
        processes.append(start_server(state, port))
    try:
        yield Servers(ports, folder)
    finally:
        for port in ports:
            for pid in servers_of(folder / str(port)):
                os.kill(pid, signal.SIGKILL)
        for process in processes:
            process.wait(60.0)


def workload(slo: ServiceLevel | None = None) -> Workload:
    """A few short requests."""
    requests = tuple(PlannedRequest(number, f"one two {number}", 4) for number in range(8))
    return Workload("fake", "a few", requests, concurrency=2, slo=slo or ServiceLevel())


def promote(
    options: FleetOptions, slo: ServiceLevel | None = None, progress: Silent | None = None
) -> FleetOutcome:
    """Run a promotion in this process."""
    return promote_fleet(options, workload(slo), progress or Silent())
