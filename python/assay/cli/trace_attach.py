"""`assay trace attach`: trace any CUDA program, or a slice of a live server."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli import options
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, count, facts, report_of, show, working, wrapped
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.observe.attach.tracing import AttachedTrace

_KINDS = "kernel, memcpy, memset, sync, api, nvtx, overhead, graph"


def trace_attach_command(
    command: Annotated[
        list[str] | None, argument("-- COMMAND...", "The program to run traced, after --.")
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "--out FOLDER",
            "Where the trace is stored; in the folder of stored traces if not given.",
        ),
    ] = None,
    delay_s: Annotated[
        float, option("--delay-s SECONDS", "Record only after this time.", min=0.0)
    ] = 0.0,
    duration_s: Annotated[
        float | None,
        option("--duration-s SECONDS", "Record this long; to the end if not given.", min=0.01),
    ] = None,
    arm_file: Annotated[
        Path | None,
        option("--arm-file FILE", "Record once this file exists; the delay counts from then on."),
    ] = None,
    record: Annotated[
        str,
        option(
            "--record KINDS", f"What to record, joined by commas: {_KINDS}. Calls (api) cost most."
        ),
    ] = "kernel,memcpy,memset,nvtx",
    period_ms: Annotated[
        int,
        option(
            "--period-ms MS",
            "How often events are written to disk. After a kill -9, all that ended two "
            "periods before is kept.",
            min=10,
            max=500,
        ),
    ] = 250,
    url: Annotated[
        str | None,
        option(
            "--url URL", "Trace a running server through its own profiler (/start_profile) instead."
        ),
    ] = None,
    delay_steps: Annotated[
        int, option("--delay-steps N", "With --url: steps to wait before recording.", min=0)
    ] = 0,
    steps: Annotated[int | None, option("--steps N", "With --url: steps to record.", min=1)] = None,
    trace_folder: Annotated[
        Path | None,
        option(
            "--trace-folder FOLDER",
            "With --url: where the server writes its traces, if this machine can read it.",
        ),
    ] = None,
    timeout_s: Annotated[
        float,
        option(
            "--timeout-s SECONDS",
            "With --url: how long steps and the server's trace may take.",
            min=0.1,
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
    from assay.observe.attach import tracing
    from assay.observe.attach.program import Schedule

    answer: AttachedTrace
    if url is not None:
        with working("asking the server") as progress:
            answer = tracing.attach_server(
                url, out, steps=steps, duration_s=duration_s, delay_steps=delay_steps,
                delay_s=delay_s, trace_folder=trace_folder, timeout_s=timeout_s,
                progress=progress,
            )  # fmt: skip
    else:
        if delay_steps or steps is not None:
            raise InputError(
                "--steps: expected it with --url", "a program is recorded by time: --duration-s"
            )
        kinds = [kind.strip() for kind in record.split(",") if kind.strip()]
        with working("running the program") as progress:
            answer = tracing.attach_program(
                command or [], out, schedule=Schedule(delay_s, duration_s, arm_file), record=kinds,
                period_ms=period_ms, output=sys.stderr if as_json else None, progress=progress,
            )  # fmt: skip
    show(report_of(answer, lambda canvas: _text(answer, canvas), as_json))
    return answer.exit_code


def _text(answer: "AttachedTrace", canvas: Canvas) -> Iterator[Line]:
    kinds = ", ".join(count(number, kind) for kind, number in answer.kinds.items())
    yield from facts(
        [
            ("trace", answer.trace or "not stored"),
            ("events", f"{answer.events:,}" + (f" ({kinds})" if kinds else "")),
            ("processes", str(len(answer.processes) or "")),
            ("server", getattr(answer, "server", "")),
            ("dropped", f"{answer.dropped:,}"),
            ("exit code", str(answer.exit_code)),
        ],
        canvas,
    )
    for sentence in answer.degradations:
        yield from wrapped(f"degraded: {sentence}", canvas)
