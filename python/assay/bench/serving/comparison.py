"""Servers one after the other on one machine, under the same loads.

The rival comes first: its saturation sets the rates.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay import json_records, paths
from assay.answers import Answer, Progress, silent
from assay.bench.harness import session
from assay.bench.serving.adapters import write_adapters
from assay.bench.serving.floor import Ceilings, request_floor_s
from assay.bench.serving.measuring import Point, at_rate, saturated
from assay.bench.serving.scenarios import Scenario, scenarios
from assay.bench.serving.servers import RunningServer, ServerCommand, own_server, rival_server
from assay.errors import AssayError, NoDataError
from assay.interruption import interrupted_by_sigterm
from assay.load.workloads.texts import CountTokens
from assay.runtime.fingerprint import machine
from assay.runtime.hardware import Device

RATES: Final = (0.25, 0.5, 0.8, 1.2)
"""Rates in shares of the reference server's saturation."""
QUICK_REQUESTS: Final = 24
SEEDS: Final = 1_000
"""Windows have different prompts: no prefix cache of an earlier one helps."""
CEILINGS_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Started:
    """A server that was measured."""

    name: str
    command: str
    start_s: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ServingComparison(Answer):
    """Every window of every server."""

    model: str
    device: str
    quick: bool
    started: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str | None]
    servers: Sequence[Started]
    points: Sequence[Point]
    floors_s: Mapping[str, float]
    """Device seconds of a request at least, by scenario; empty where no ceiling was measured."""

    def to_json(self) -> dict[str, Any]:
        """In the schema of the file."""
        return {
            "schema": 1,
            "suite": "serving",
            "model": self.model,
            "device": self.device,
            "quick": self.quick,
            "started": self.started,
            "machine": self.machine,
            "versions": self.versions,
            "servers": [
                {
                    "name": server.name,
                    "command": server.command,
                    "start_s": server.start_s,
                    "notes": server.notes,
                }
                for server in self.servers
            ],
            "floors_s": dict(self.floors_s),
            "summary": self.summary(),
            "notes": list(self.notes),
            "points": [point.to_data() for point in self.points],
        }

    def summary(self) -> list[dict[str, Any]]:
        """Saturated throughput over whole windows, filling and emptying included, and its floor."""
        rows = []
        for point in self.points:
            if point.load != "saturated":
                continue
            rate = point.figures.get("request_throughput")
            floor_s = self.floors_s.get(point.scenario)
            rows.append(
                {
                    "scenario": point.scenario,
                    "server": point.server,
                    "output_throughput": point.figures.get("output_throughput"),
                    "share_of_floor": None if not rate or not floor_s else rate * floor_s,
                    "idle_share": point.figures.get("idle_share"),
                }
            )
        return rows

    def save(self, path: Path) -> None:
        """Write the whole file or none of it, one window a line."""
        text = json_records.dumps(self.to_json(), depth=2)
        paths.write_atomically(path, f"{text}\n".encode())


@interrupted_by_sigterm()
def compare_servers(
    model: str,
    device: str,
    *,
    rival: str | None = None,
    cases: Sequence[str] = (),
    quick: bool = False,
    logs: Path | None = None,
    save: Path | None = None,
    progress: Progress = silent,
) -> ServingComparison:
    """Measure `assay serve`, and a rival before it, under every scenario.

    `save` is written after each window; `logs` gets what the servers print.
    """
    chosen = scenarios(tuple(cases))
    place = Device(device)
    source, count = _source(model, rival, progress)
    folder = logs or paths.scratch() / "serving"
    folder.mkdir(parents=True, exist_ok=True)
    starts = _starts(source, device, rival, chosen, folder)
    floors, notes = _floors(source, device, chosen, is_gpu=place.capabilities.is_gpu, say=progress)
    about = session.versions(place), machine(place).to_data()
    begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    servers: list[Started] = []
    points: list[Point] = []

    def so_far() -> ServingComparison:
        versions, facts = about
        said = [note for server in servers for note in server.notes]
        return ServingComparison(
            model, device, quick, begun, facts, versions, tuple(servers), tuple(points), floors,
            notes=(*notes, *said),
        )  # fmt: skip

    for command, asked in starts:
        progress(f"starting {command.name}")
        with RunningServer(command, folder / f"{command.name}.log") as server:
            servers.append(_started(command, server))
            for scenario in asked:
                for point in _windows(server, scenario, count, points, quick, progress):
                    points.append(point)
                    if save is not None:
                        so_far().save(save)
    return so_far()


def _starts(
    source: str, device: str, rival: str | None, chosen: Sequence[Scenario], folder: Path
) -> list[tuple[ServerCommand, list[Scenario]]]:
    """Every server and what it is asked; those with adapters are started besides, after the others."""
    starts = []
    for uses_adapters in (False, True):
        asked = [scenario for scenario in chosen if scenario.uses_adapters == uses_adapters]
        if asked:
            adapters = write_adapters(folder / "adapters", source) if uses_adapters else {}
            if rival is not None:
                starts.append((rival_server(rival, source, adapters), asked))
            starts.append((own_server(source, device, adapters=adapters), asked))
    return starts


def _windows(
    server: RunningServer,
    scenario: Scenario,
    count: CountTokens,
    points: Sequence[Point],
    quick: bool,
    progress: Progress,
) -> Any:
    """The windows of one scenario on one server."""
    requests = QUICK_REQUESTS if quick else scenario.requests
    name = server.command.name
    seed = SEEDS * len(scenario.name)
    progress(f"{name}: {scenario.name} saturated")
    own = saturated(server, scenario, count, requests, seed)
    yield own
    if not own.figures.get("completed"):
        raise NoDataError(f"{name}: expected answers of {scenario.name}, got none: {own.notes[-1]}")
    if not scenario.at_rates:
        return
    # The first server that was measured sets the rates of all.
    first = next(
        (point for point in points if (point.scenario, point.load) == (scenario.name, "saturated")),
        own,
    )
    rate = first.figures["request_throughput"]
    for number, share in enumerate(RATES, 1):
        progress(f"{name}: {scenario.name} at {share:.0%} of {rate:.3g} requests/s")
        yield at_rate(server, scenario, count, requests, seed + number, share * rate, share)


def _started(command: ServerCommand, server: RunningServer) -> Started:
    words = [Path(command.arguments[0]).name, *command.arguments[1:]]
    return Started(command.name, " ".join(words), server.start_s, command.notes)


def _source(model: str, rival: str | None, progress: Progress) -> tuple[str, CountTokens]:
    """What servers load, and how many tokens a text has for them."""
    from assay.engine.loading import open_model
    from assay.engine.loading.dummy_checkpoint import write_checkpoint
    from assay.engine.loading.dummy_weights import SHAPES

    source = model
    if model in SHAPES and rival is not None:
        folder = paths.scratch() / "checkpoints" / model
        progress(f"writing a random checkpoint of {model}")
        write_checkpoint(folder, model)
        source = str(folder)
    tokenizer = open_model(source).tokenizer
    return source, lambda text: len(tokenizer.encode(text))


def _floors(
    source: str, device: str, chosen: Sequence[Scenario], *, is_gpu: bool, say: Progress
) -> tuple[dict[str, float], list[str]]:
    """The floor of a request of each scenario, from ceilings measured now, and what is missing."""
    if not is_gpu:
        return {}, ["no floor: it is counted for GPUs"]
    say("measuring the ceilings")
    words = ["bench", "ceilings", "--device", device, "--json", "-q"]
    words += ["--case", "matmul bf16", "--case", "read 4 GiB"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "assay", *words],
            capture_output=True,
            timeout=CEILINGS_SECONDS,
            check=True,
        )
        values = {figure["name"]: _figure(figure) for figure in json.loads(done.stdout)["figures"]}
        ceilings = Ceilings(
            max(value for name, value in values.items() if name.startswith("matmul")) * 1e12,
            max(value for name, value in values.items() if name.startswith("read")) * 1e9,
        )
        from assay.planner import model_spec

        spec = model_spec(source)
        return {scenario.name: request_floor_s(spec, scenario, ceilings) for scenario in chosen}, []
    except (subprocess.SubprocessError, AssayError, ValueError, KeyError) as error:
        return {}, [f"no floor: {type(error).__name__}: {error}"]


def _figure(figure: Mapping[str, Any]) -> float:
    return float(figure["value"])
