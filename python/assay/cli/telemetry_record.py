"""`assay telemetry record`: samples of the machine's state into sinks."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, working

if TYPE_CHECKING:
    from assay.observe.telemetry.recording import Recording

Rate = Annotated[
    float,
    option("--rate HZ", "Samples a second, 50 at most; above 2 only the fast fields are read."),
]
Endpoints = Annotated[
    list[str] | None,
    option(
        "--endpoint URL",
        "A server's Prometheus metrics, such as http://127.0.0.1:8000/metrics; may be "
        "repeated. Without it, servers on this machine's usual ports are looked for.",
    ),
]


def telemetry_record_command(
    sink: Annotated[
        list[str] | None,
        option(
            "--sink SINK",
            "parquet[:FOLDER] (the default), jsonl:PATH, prometheus:[HOST:]PORT, otlp[:URL], "
            "s3://BUCKET/PREFIX, or a class of yours as module:Class. May be repeated.",
        ),
    ] = None,
    rate: Rate = 1.0,
    duration: Annotated[
        float | None, option("--duration SECONDS", "Time to record; until ctrl-c without.", min=0.0)
    ] = None,
    endpoint: Endpoints = None,
    run: Annotated[
        str | None,
        option("--run NAME", "Name of the recording; time and a few letters if not given."),
    ] = None,
    workload: Annotated[str | None, option("--workload NAME", "What is running.")] = None,
    phase: Annotated[str | None, option("--phase NAME", "Phase of the workload.")] = None,
    as_json: options.Json = False,
) -> Report:
    """Record what the machine is like: GPUs, host, engines.

    Sources find themselves. Ends with ctrl-c, SIGTERM or --duration, and then says what the
    recording cost, which fields were missing and what each sink has acknowledged.
    """
    from assay.observe.telemetry.recording import record_telemetry

    with until_signal() as stop, working("recording") as progress:
        recording = record_telemetry(
            sink, rate=rate, duration_s=duration, stop=stop, endpoints=endpoint, run=run,
            workload=workload, phase=phase, progress=progress,
        )  # fmt: skip
    return report_of(recording, lambda canvas: _text(recording, canvas), as_json)


@contextmanager
def until_signal() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set instead of ending the program."""
    stop = threading.Event()

    def end(number: int, frame: object) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _text(recording: "Recording", canvas: Canvas) -> Iterator[Line]:
    per_second = recording.cpu_seconds / max(recording.wall_seconds, 1e-9)
    yield from facts(
        [
            ("run", recording.run),
            (
                "samples",
                f"{recording.samples:,} in {recording.wall_seconds:.1f} s at {recording.rate_hz:g} Hz"
                + (" (fast fields only)" if recording.fast_only else ""),
            ),
            ("missed ticks", f"{recording.missed_ticks:,}" if recording.missed_ticks else ""),
            ("cost", f"{per_second * 1e3:.2f} ms of CPU a second: {per_second:.2%} of a core"),
        ],
        canvas,
    )
    yield ""
    yield from table(
        ("source", "device", "name"),
        [(device["source"], device["device"], device["name"]) for device in recording.devices],
        canvas,
    )
    yield ""
    for sink in recording.sinks:
        lost = sink["dropped"] + sink["rejected"] + sink["backlog"]
        line: list[Part] = [
            f"sink {sink['name']}: ",
            (f"{sink['acknowledged']:,} acknowledged", styles.GOOD),
        ]
        if lost:
            line += [", ", (f"{lost:,} lost", styles.BAD)]
        yield tuple(line)
    for gap in recording.missing:
        yield ((f"missing: {gap['field']} of {gap['source']}: {gap['reason']}", styles.FAINT),)
