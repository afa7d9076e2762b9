"""Eight users of servers that take turns, as on a CPU: `assay bench serving --case users`.

All servers run from the start and are idle while another is asked. Their windows alternate, so that other work on
the machine affects all alike, and the ratios are those of windows side by side. The rival has the settings that
suit the number of users, and is started once for each of those whose best value depends on model and machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.answers import Answer, Progress, silent
from assay.bench.harness import session
from assay.bench.serving.measuring import saturated
from assay.bench.serving.scenarios import Scenario, fixed_lengths
from assay.bench.serving.servers import RunningServer, ServerCommand, own_server, rival_server
from assay.errors import InputError, NoDataError
from assay.interruption import interrupted_by_sigterm
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device

CASE: Final = "users"
USERS: Final = 8
ROUNDS: Final = 5
SCENARIO: Final = Scenario(CASE, 200, 128, fixed_lengths(200, 128), at_rates=False, requests=24)
CONTEXT: Final = 1024
"""Tokens of a user's slot in llama.cpp."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One window of one server."""

    server: str
    round: int
    figures: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second."""
        return self.figures["output_throughput"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our output tokens a second over a server's: the median of the rounds, the least and the most."""

    server: str
    tokens_per_s: float
    median: float
    least: float
    most: float


@dataclass(frozen=True)
class UsersComparison(Answer):
    """Every window, and the ratios."""

    model: str
    device: str
    quick: bool
    machine: Mapping[str, Any]
    versions: Mapping[str, str | None]
    commands: Mapping[str, str]
    turns: Sequence[Turn]

    def ratios(self) -> list[Ratio]:
        """Beside each server, the fastest rival first."""
        by_server: dict[str, list[float]] = {}
        for turn in self.turns:
            by_server.setdefault(turn.server, []).append(turn.tokens_per_s)
        own = by_server["assay"]
        rows = []
        for server, rates in by_server.items():
            ratios = sorted(ours / theirs for ours, theirs in zip(own, rates, strict=True))
            middle = statistics.median(ratios)
            rows.append(Ratio(server, statistics.median(rates), middle, ratios[0], ratios[-1]))
        return sorted(rows, key=lambda row: (row.server == "assay", -row.tokens_per_s))

    def to_json(self) -> dict[str, Any]:
        """In the schema of the file."""
        return {
            "schema": 1,
            "suite": f"serving, {CASE}",
            "model": self.model,
            "device": self.device,
            "quick": self.quick,
            "machine": self.machine,
            "versions": self.versions,
            "commands": dict(self.commands),
            "ratios": [dataclasses.asdict(row) for row in self.ratios()],
            "notes": list(self.notes),
            "turns": [dataclasses.asdict(turn) for turn in self.turns],
        }


@interrupted_by_sigterm()
def compare_users(
    model: str,
    device: str,
    *,
    rival: str | None,
    quick: bool = False,
    logs: Path | None = None,
    progress: Progress = silent,
) -> UsersComparison:
    """Alternate windows of `USERS` users on `assay serve` and the rival."""
    from assay.engine.loading import open_model

    files = open_model(model)
    tokenizer = files.tokenizer
    place = Device(device)
    folder = logs or paths.scratch() / "serving"
    folder.mkdir(parents=True, exist_ok=True)
    commands = [own_server(model, device), *_rivals(rival, model, files.path)]
    rounds, requests = (1, USERS) if quick else (ROUNDS, SCENARIO.requests)
    turns: list[Turn] = []
    with contextlib.ExitStack() as stack:
        servers = []
        for command in commands:
            progress(f"starting {command.name}")
            log = folder / f"{command.name.replace(' ', '_')}.log"
            servers.append(stack.enter_context(RunningServer(command, log)))
        for number in range(rounds + 1):
            # Who begins changes; the first round warms up.
            for server in servers if number % 2 else reversed(servers):
                progress(f"round {number} of {rounds}: {server.command.name}")
                turn = _turn(server, number, requests, lambda text: len(tokenizer.encode(text)))
                turns += [turn] if number else []
    return UsersComparison(
        model, device, quick, machine(place).to_data(), session.versions(place),
        {command.name: " ".join(command.arguments[1:]) for command in commands}, tuple(turns),
        notes=tuple(dict.fromkeys(note for turn in turns for note in turn.notes)),
    )  # fmt: skip


def _turn(server: RunningServer, number: int, requests: int, count: Any) -> Turn:
    point = saturated(server, SCENARIO, count, requests, seed=1_000 * number, at_once=USERS)
    name = server.command.name
    if point.errors or not point.figures.get("completed"):
        raise NoDataError(f"{name}: expected {requests} answers, got errors: {point.notes[-1]}")
    return Turn(name, number, point.figures, point.notes)


def _rivals(rival: str | None, model: str, path: Path | None) -> list[ServerCommand]:
    if rival is None:
        return []
    if rival != "llama.cpp":
        return [rival_server(rival, model)]
    if path is None or path.suffix != ".gguf":
        raise InputError(f"llama.cpp: expected a GGUF file as the model, got {model}")
    plain = rival_server(rival, str(path))
    shared = (
        *("--threads", str(_cores()), "--parallel", str(USERS)),
        *("--ctx-size", str(USERS * CONTEXT), "--cache-ram", "0"),
    )
    return [
        dataclasses.replace(
            plain,
            name=f"llama.cpp --flash-attn {choice}",
            arguments=(*plain.arguments, *shared, "--flash-attn", choice),
        )
        for choice in ("on", "off")
    ]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
