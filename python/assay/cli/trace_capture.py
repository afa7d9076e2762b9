"""`assay trace capture`: run a model, and store a trace of every step."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from assay.cli import options, sampling
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Report, count, facts, report_of, size, working
from assay.errors import InputError


def trace_capture_command(
    model: sampling.Model,
    prompt: Annotated[str | None, option("--prompt TEXT", "Complete this text.")] = None,
    batch: Annotated[int, option("--batch COUNT", "Requests at once.")] = 1,
    context: Annotated[
        int, option("--context TOKENS", "Prompt tokens of each request, without --prompt.")
    ] = 128,
    steps: Annotated[int, option("--steps COUNT", "Decode steps to capture at most.")] = 64,
    warmup: Annotated[int, option("--warmup COUNT", "Decode steps before the capture begins.")] = 0,
    device: sampling.Device = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    out: Annotated[
        Path | None, option("--out FOLDER", "Where to store the trace; must not exist.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Run a model, and store a trace of every step: kernels, copies, waits, host sections.

    The load is the prompt of --prompt, or synthetic prompts of random tokens. Each event has its
    step, phase, layer and operation. The trace is a folder that assay trace show, summary, steps,
    diff and export read.
    """
    for name, given in (("batch", batch), ("context", context), ("steps", steps)):
        if given < 1:
            raise InputError(f"--{name}: expected at least 1, got {given}")
    if warmup < 0:
        raise InputError(f"--warmup: expected at least 0, got {warmup}")
    from assay.observe.capture.running import capture_trace, new_capture

    # Refuses a path that exists before a model is loaded.
    capture = new_capture(out)
    with (
        sampling.load(model, device, kv_tokens, knob) as engine,
        working(f"capturing {engine.files.name}", log=True) as progress,
    ):
        sampling.show_notes(engine)
        captured = capture_trace(
            engine, capture, prompt=prompt, batch=batch, context=context, steps=steps,
            warmup=warmup, progress=progress,
        )  # fmt: skip
    overhead = captured.overhead

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"stored {captured.path}"
        cost = overhead.get("reason", "")
        if overhead.get("measured"):
            cost = f"{overhead['upper_bound']:.2%} at most, measured here"
        yield from facts(
            (
                ("model", f"{captured.model} on {captured.device}"),
                ("steps", count(captured.steps, "step")),
                ("size", size(captured.bytes)),
                ("dropped", str(captured.dropped)),
                ("overhead", cost),
                *(("degradation", line) for line in captured.degradations),
            ),
            canvas,
        )

    return report_of(captured, text, as_json)
