"""`assay trace attach`: trace any CUDA program, or a slice of a live server."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli import options
from assay.cli.output import Canvas, Line, Report, count, facts, show, working, wrapped
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.observe.trace import Trace

_KINDS = "kernel, memcpy, memset, sync, api, nvtx, overhead, graph"


def trace_attach_command(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="The program to run traced, after --."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where the trace is stored; in the folder of stored traces if not given.",
        ),
    ] = None,
    delay_s: Annotated[
        float,
        typer.Option("--delay-s", metavar="SECONDS", min=0.0, help="Record only after this time."),
    ] = 0.0,
    duration_s: Annotated[
        float | None,
        typer.Option(
            "--duration-s",
            metavar="SECONDS",
            min=0.01,
            help="Record this long; to the end if not given.",
        ),
    ] = None,
    arm_file: Annotated[
        Path | None,
        typer.Option(
            "--arm-file",
            metavar="FILE",
            help="Record once this file exists; the delay counts from then on.",
        ),
    ] = None,
    record: Annotated[
        str,
        typer.Option(
            "--record",
            metavar="KINDS",
            help=f"What to record, joined by commas: {_KINDS}. Calls (api) cost most.",
        ),
    ] = "kernel,memcpy,memset,nvtx",
    period_ms: Annotated[
        int,
        typer.Option(
            "--period-ms",
            metavar="MS",
            min=10,
            max=500,
            help="How often events are written to disk. After a kill -9, all that ended two "
            "periods before is kept.",
        ),
    ] = 250,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Trace a running server through its own profiler (/start_profile) instead.",
        ),
    ] = None,
    delay_steps: Annotated[
        int,
        typer.Option(
            "--delay-steps", metavar="N", min=0, help="With --url: steps to wait before recording."
        ),
    ] = 0,
    steps: Annotated[
        int | None,
        typer.Option("--steps", metavar="N", min=1, help="With --url: steps to record."),
    ] = None,
    trace_folder: Annotated[
        Path | None,
        typer.Option(
            "--trace-folder",
            metavar="FOLDER",
            help="With --url: where the server writes its traces, if this machine can read it.",
        ),
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout-s",
            metavar="SECONDS",
            min=0.1,
            help="With --url: how long steps and the server's trace may take.",
        ),
    ] = 120.0,
    as_json: options.Json = False,
) -> int:
    """Trace a CUDA program, its children included, or a slice of a live server.

    The CUDA driver loads a small library into every process of the program. It records nothing
    until it is told to, and then every kernel, copy and fill with CUPTI, kernels of replayed
    graphs one by one. Signals go to the program, and its exit code is kept; with --json its
    standard output goes to standard error.

    Another profiler in the program (PyTorch's, Nsight) keeps CUPTI for itself: the trace then has
    no events of that process and says so.
    """
    if (url is None) == (not command):
        raise InputError(
            "expected a command or --url, got " + ("neither" if url is None else "both"),
            "assay trace attach -- python train.py, or assay trace attach --url "
            "http://localhost:8000 --steps 20",
        )
    if url is not None:
        return _attach_server(
            url, out, delay_s, duration_s, delay_steps, steps, trace_folder, timeout_s, as_json
        )
    if delay_steps or steps is not None:
        raise InputError(
            "--steps: expected it with --url", "a program is recorded by time: --duration-s"
        )
    return _attach_program(
        command or [], out, delay_s, duration_s, arm_file, record, period_ms, as_json
    )


def _attach_program(
    command: list[str],
    out: Path | None,
    delay_s: float,
    duration_s: float | None,
    arm_file: Path | None,
    record: str,
    period_ms: int,
    as_json: bool,
) -> int:
    from assay.observe import store
    from assay.observe.attach import injection, merging, program

    out = _new_path(out, "attach")
    kinds = [kind.strip() for kind in record.split(",") if kind.strip()]
    if unknown := [kind for kind in kinds if kind not in injection.ACTIVITIES]:
        raise InputError(f'--record: expected kinds of {_KINDS}, got "{unknown[0]}"')
    schedule = program.Schedule(delay_s, duration_s, arm_file)
    with (
        working("running the program") as progress,
        injection.TraceFolder(store.folder(), kinds, period_ms) as folder,
    ):
        output = sys.stderr if as_json else None
        run = program.run(command, folder, schedule, output=output, progress=progress)
        progress("merging the shards")
        trace = merging.merge(folder.shards(), run=shlex.join(command)[:500])
        if run.armed_ns is None:
            trace.header.degradations.append("the program ended before recording started")
        trace.header.metadata["attach"] = {
            "command": command,
            "record": kinds,
            "period_ms": period_ms,
            "armed_ns": run.armed_ns,
            "disarmed_ns": run.disarmed_ns,
            "exit_code": run.exit_code,
        }
        trace.save(out)
    data = {**_summary(trace, out), "exit_code": run.exit_code}
    show(Report(data, lambda canvas: _text(data, canvas), as_json))
    return run.exit_code


def _attach_server(
    url: str,
    out: Path | None,
    delay_s: float,
    duration_s: float | None,
    delay_steps: int,
    steps: int | None,
    trace_folder: Path | None,
    timeout_s: float,
    as_json: bool,
) -> int:
    from assay.observe.attach import server

    if (steps is None) == (duration_s is None):
        raise InputError(
            "--url: expected --steps or --duration-s", "--steps 20 records twenty engine steps"
        )
    out = _new_path(out, "attach")
    wanted = server.Slice(delay_steps, steps, delay_s, duration_s)
    with working("asking the server") as progress:
        recorded = server.record(url, wanted, trace_folder, timeout_s, progress=progress)
        trace = recorded.trace
        if trace is not None:
            progress("storing the trace")
            trace.save(out)
    data = {
        **(_nothing() if trace is None else _summary(trace, out)),
        "exit_code": int(trace is None),
        "server": recorded.server,
        "steps_seen": recorded.steps,
        "files": recorded.files,
    }
    report = Report(data, lambda canvas: _text(data, canvas), as_json, notes=recorded.notes)
    show(report)
    return int(data["exit_code"])


def _new_path(out: Path | None, label: str) -> Path:
    from assay.observe import store

    if out is None:
        return store.new_path(label)
    if out.exists():
        raise InputError(f"{out}: exists already", "name another folder, or remove it")
    return out


def _summary(trace: "Trace", out: Path) -> dict[str, Any]:
    kinds = trace.events["kind"].cast(str).value_counts().rows() if len(trace.events) else []
    return {
        "trace": str(out),
        "events": len(trace.events),
        "kinds": dict(sorted(kinds)),
        "processes": trace.header.processes,
        "clock": trace.header.clock,
        "dropped": trace.header.dropped,
        "degradations": trace.header.degradations,
        "repairs": trace.header.repairs,
    }


def _nothing() -> dict[str, Any]:
    return {
        "trace": None, "events": 0, "kinds": {}, "processes": {}, "clock": None, "dropped": 0,
        "degradations": [], "repairs": {},
    }  # fmt: skip


def _text(data: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    kinds = ", ".join(count(number, kind) for kind, number in data["kinds"].items())
    yield from facts(
        [
            ("trace", data["trace"] or "not stored"),
            ("events", f"{data['events']:,}" + (f" ({kinds})" if kinds else "")),
            ("processes", str(len(data["processes"]) or "")),
            ("server", data.get("server") or ""),
            ("dropped", f"{data['dropped']:,}"),
            ("exit code", str(data["exit_code"])),
        ],
        canvas,
    )
    for sentence in data["degradations"]:
        yield from wrapped(f"degraded: {sentence}", canvas)
