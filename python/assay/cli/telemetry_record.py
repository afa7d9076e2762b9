"""`assay telemetry record`: samples of the machine's state into sinks."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from assay.cli import options
from assay.cli.output import BAD, FAINT, GOOD, Canvas, Line, Part, Report, facts, table, working
from assay.observe.telemetry import State, telemetry

Rate = Annotated[
    float,
    typer.Option(
        "--rate",
        metavar="HZ",
        help="Samples a second, 50 at most; above 2 only the fast fields are read.",
    ),
]
Endpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--endpoint",
        metavar="URL",
        help="A server's Prometheus metrics, such as http://127.0.0.1:8000/metrics; may be "
        "repeated. Without it, servers on this machine's usual ports are looked for.",
    ),
]


def telemetry_record_command(
    sink: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            metavar="SINK",
            help="parquet[:FOLDER] (the default), jsonl:PATH, prometheus:[HOST:]PORT, otlp[:URL], "
            "s3://BUCKET/PREFIX, or a class of yours as module:Class. May be repeated.",
        ),
    ] = None,
    rate: Rate = 1.0,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", metavar="SECONDS", min=0.0, help="Time to record; until ctrl-c without."
        ),
    ] = None,
    endpoint: Endpoints = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="NAME",
            help="Name of the recording; time and a few letters if not given.",
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="NAME", help="What is running.")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="NAME", help="Phase of the workload.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Record what the machine is like: GPUs, host, engines.

    Sources find themselves. Ends with ctrl-c, SIGTERM or --duration, and then says what the
    recording cost, which fields were missing and what each sink has acknowledged.
    """
    state = telemetry(sink, rate=rate, run=run, workload=workload, endpoints=endpoint)
    state.phase(phase)
    with until_signal() as stop, working(f"recording {state.run}") as say, state:
        begun_s, begun_cpu_s = time.monotonic(), time.process_time()
        say(f"recording {state.run} at {rate:g} Hz; ctrl-c ends it")
        _wait(state, stop, None if duration is None else begun_s + duration, say)
        wall_s = time.monotonic() - begun_s
        process_s = time.process_time() - begun_cpu_s
    data = _data(state, process_s / wall_s if wall_s > 0 else 0.0)
    return Report(data, lambda canvas: _text(data, canvas), as_json, notes=state.notes())


@contextmanager
def until_signal() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set instead of ending the program."""
    stop = threading.Event()

    def end(number: int, frame: object) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {one: signal.signal(one, end) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _wait(state: State, stop: threading.Event, end_s: float | None, say: Any) -> None:
    while not stop.is_set():
        left_s = 5.0 if end_s is None else end_s - time.monotonic()
        if left_s <= 0:
            return
        stop.wait(min(left_s, 5.0))
        say(f"recording {state.run}: {state.samples:,} samples")


def _data(state: State, process_share: float) -> dict[str, Any]:
    cost = state.cost()
    return {
        "run": state.run,
        "rate_hz": state.header.rate_hz,
        "fast_only": state.header.fast_only,
        "samples": state.samples,
        "missed_ticks": sum(state.missed.values()),
        "devices": [
            {"source": source, "device": device, "name": sample.reading.name}
            for (source, device), sample in sorted(state.latest.items())
        ],
        "sinks": [asdict(one) for one in state.sinks],
        "missing": [asdict(one) for one in state.missing],
        "wall_seconds": cost["wall_seconds"],
        "cpu_seconds": cost["cpu_seconds"],
        "core_share": cost["core_share"],
        "process_core_share": process_share,
        "cpu_seconds_by_field": state.costs(),
    }


def _text(data: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    per_second = data["cpu_seconds"] / max(data["wall_seconds"], 1e-9)
    yield from facts(
        [
            ("run", data["run"]),
            (
                "samples",
                f"{data['samples']:,} in {data['wall_seconds']:.1f} s at {data['rate_hz']:g} Hz"
                + (" (fast fields only)" if data["fast_only"] else ""),
            ),
            ("missed ticks", f"{data['missed_ticks']:,}" if data["missed_ticks"] else ""),
            ("cost", f"{per_second * 1e3:.2f} ms of CPU a second: {per_second:.2%} of a core"),
        ],
        canvas,
    )
    yield ""
    yield from table(
        ("source", "device", "name"),
        [(one["source"], one["device"], one["name"]) for one in data["devices"]],
        canvas,
    )
    yield ""
    for sink in data["sinks"]:
        lost = sink["dropped"] + sink["rejected"] + sink["backlog"]
        line: list[Part] = [
            f"sink {sink['name']}: ",
            (f"{sink['acknowledged']:,} acknowledged", GOOD),
        ]
        if lost:
            line += [", ", (f"{lost:,} lost", BAD)]
        yield tuple(line)
    for one in data["missing"]:
        yield ((f"missing: {one['field']} of {one['source']}: {one['reason']}", FAINT),)
