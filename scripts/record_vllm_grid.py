"""Measure some settings of vLLM side by side, apart from any run: what could `assay run` have found?

    python scripts/record_vllm_grid.py MODEL grid.json --run "batch --input-tokens 1024 --concurrency 64"

Servers of up to four settings run at once, vLLM's defaults among them each time and twice the first time. They
are measured in turns under each workload. The file has every block, and is written after each; what is printed
is the gain over the defaults beside a point, with the standard error of its rounds. What the two defaults differ by
is noise. Blocks that were not measured are named in the file and printed: a server that does not start lacks its own,
one that is lost later all that would have come after it.
"""

from __future__ import annotations

import argparse
import math
import shlex
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay import json_records, paths
from assay.errors import AssayError
from assay.improve.engines.opening import open_engine
from assay.improve.engines.protocol import Engine, Room, TrialFailedError
from assay.improve.experiments.blocks import requests_for
from assay.improve.loop.progress import Silent
from assay.load.workloads.counting import count_of
from assay.load.workloads.measurement import Setting
from assay.load.workloads.workload import Window, Workload
from assay.runs.subject import workload_for
from assay.runs.subject_options import SubjectOptions

Point = Mapping[str, Setting]
Place = tuple[int, str, str, int]
"""Wave, workload, point and round of a block."""

POINTS: Final[tuple[Point, ...]] = (
    {"max_num_batched_tokens": 16384},
    {"max_num_batched_tokens": 4096},
    {"performance_mode": "throughput"},
    {"enable_prefix_caching": False},
    {"api_server_count": 2},
)
"""Beside the defaults; two waves of four servers."""
ROUNDS: Final = 4
BLOCK_S: Final = 2.0
AGAIN: Final = "the defaults again"


def main() -> None:
    """Record the grid."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--run", action="append", required=True, help="a workload with its options")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    engine = open_engine("vllm", model=options.model)
    try:
        gpu = "cuda" in engine.describe().capabilities
        count = count_of(engine.measure)
        workloads = [
            workload_for(_asked(text), Silent(), gpu=gpu, count=count) for text in options.run
        ]
        lost = _record(engine, workloads, options.rounds, options.out, Path(options.model).name)
    finally:
        engine.close()
    if lost is not None:
        print(f"error: {lost.message}", file=sys.stderr)
        if lost.hint:
            print(f"hint: {lost.hint}", file=sys.stderr)
        sys.exit(lost.exit_code)


def _asked(text: str) -> SubjectOptions:
    """The words of `assay run` that say what a workload is."""
    parser = argparse.ArgumentParser(prog="--run")
    parser.add_argument("workload")
    parser.add_argument("--input-tokens")
    parser.add_argument("--output-tokens")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--slo")
    return SubjectOptions(
        engine="vllm", budget_s=480.0, **vars(parser.parse_args(shlex.split(text)))
    )


def _record(
    engine: Engine, workloads: Sequence[Workload], rounds: int, out: Path, model: str
) -> AssayError | None:
    """Measure all blocks, the file written after each; the error that ended it before."""
    residents = engine.residents()
    assert residents is not None
    room = residents.room(max(map(_tokens_at_once, workloads)))
    _say(room.sentence)
    all_waves = list(waves(POINTS, max(room.servers, 2)))
    planned = list(_planned(all_waves, room, workloads, rounds))
    visits: list[dict[str, Any]] = []
    lost: AssayError | None = None
    try:
        for visit in _visits(engine, all_waves, room, workloads, rounds):
            visits.append(visit)
            data = {"format": 1, "model": model, "visits": visits}
            if missing := _missing(planned, visits):
                data["missing"] = missing
            paths.write_atomically(out, (json_records.dumps(data, 2) + "\n").encode())
    except AssayError as error:
        lost = error
    for line in table(visits):
        print(line)
    for row in _missing(planned, visits):
        print(
            "{workload:8} {point:40} not measured: {rounds} of {of} rounds".format(**row, of=rounds)
        )
    return lost


def _planned(
    all_waves: Sequence[Sequence[Point]], room: Room, workloads: Sequence[Workload], rounds: int
) -> Iterator[Place]:
    """Every block that is to be measured."""
    for number, wave in enumerate(all_waves):
        names = ["defaults", *(_name(point) for point in wave if point), *_again(number, room)]
        for workload in workloads:
            for name in names:
                for place in range(rounds):
                    yield number, workload.name, name, place


def _again(number: int, room: Room) -> list[str]:
    """The second start of the defaults, in the first wave where three servers fit."""
    return [AGAIN] if number == 0 and room.servers > 2 else []


def _missing(planned: Sequence[Place], visits: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Blocks that are not measured, or not yet: how many rounds of each point."""
    measured = {(v["wave"], v["workload"], v["point"], v["round"]) for v in visits}
    counts = Counter(place[:3] for place in planned if place not in measured)
    return [
        {"wave": wave, "workload": workload, "point": point, "rounds": count}
        for (wave, workload, point), count in counts.items()
    ]


def _visits(
    engine: Engine,
    all_waves: Sequence[Sequence[Point]],
    room: Room,
    workloads: Sequence[Workload],
    rounds: int,
) -> Iterator[dict[str, Any]]:
    """Every block of every point, wave after wave."""
    residents = engine.residents()
    assert residents is not None
    for number, wave in enumerate(all_waves):
        _say(f"starting {len(wave)} servers")
        residents.start(wave, room)
        servers = {"defaults": {}, **{_name(point): point for point in wave if point}}
        for workload in workloads:
            requests = requests_for(engine, workload, BLOCK_S)
            for place in range(-1, rounds):
                order = list(servers)[:: 1 if place % 2 else -1]
                for name in [*order, *_again(number, room)]:
                    measured = _measured(engine, name, servers, workload, requests, max(place, 0))
                    if measured is None:
                        servers.pop(name)
                    elif place >= 0:
                        found = {"wave": number, "workload": workload.name, "point": name}
                        yield {**found, "round": place, "value": measured}


def waves(points: Sequence[Point], servers: int) -> Iterator[list[Point]]:
    """Points with the defaults beside them, which run twice the first time where three servers fit.

    >>> [len(wave) for wave in waves(POINTS, 4)], [len(wave) for wave in waves(POINTS, 2)]
    ([4, 4], [2, 2, 2, 2, 2])
    """
    left = list(points)
    held: list[Point] = [{}, {}] if servers > 2 else [{}]
    while left:
        count = servers - len(held)
        yield [*held, *left[:count]]
        left, held = left[count:], [{}]


def _measured(
    engine: Engine,
    name: str,
    servers: Mapping[str, Point],
    workload: Workload,
    requests: int,
    place: int,
) -> float | None:
    """The figure of a block; None where the server of these settings does not run."""
    window = Window(requests=requests, offset=place * requests % len(workload.requests))
    residents = engine.residents()
    assert residents is not None
    if name == AGAIN:
        twin = residents.twin({})
        assert twin is not None
        return twin.measure(workload, window).figures[workload.objective.metric]
    try:
        undo = engine.configure(servers[name])
    except TrialFailedError as error:
        _say(f"{name}: {error.message}")
        return None
    try:
        return engine.measure(workload, window).figures[workload.objective.metric]
    finally:
        undo()


def table(visits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each point and workload: its gain over the defaults of its wave, and the error of that."""
    values = {(v["wave"], v["workload"], v["point"], v["round"]): v["value"] for v in visits}
    for wave, workload, point in dict.fromkeys(
        (v["wave"], v["workload"], v["point"]) for v in visits
    ):
        if point == "defaults":
            continue
        logs = [
            math.log(value / values[wave, workload, "defaults", place])
            for (*of, place), value in values.items()
            if of == [wave, workload, point] and (wave, workload, "defaults", place) in values
        ]
        if not logs:
            continue
        error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        yield f"{workload:8} {point:40} {math.expm1(statistics.fmean(logs)):+7.2%} +- {error:.2%}"


def _tokens_at_once(workload: Workload) -> float:
    longest = max(
        (request.prompt_tokens or len(request.prompt) / 4) + request.max_tokens
        for request in workload.requests
    )
    return longest * (workload.concurrency or len(workload.requests))


def _name(point: Point) -> str:
    return " ".join(f"{knob}={value}" for knob, value in point.items())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
