"""`assay trace capture`: run a model, and store a trace of every step."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli import options, sampling
from assay.cli.output import Canvas, Line, Report, count, facts, size, working
from assay.errors import InputError
from assay.observe import store

if TYPE_CHECKING:
    from assay.engine import Engine
    from assay.observe.capture import Capture


def trace_capture_command(
    model: sampling.Model,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", metavar="TEXT", help="Complete this text."),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", metavar="COUNT", help="Requests at once.")] = 1,
    context: Annotated[
        int,
        typer.Option(
            "--context", metavar="TOKENS", help="Prompt tokens of each request, without --prompt."
        ),
    ] = 128,
    steps: Annotated[
        int, typer.Option("--steps", metavar="COUNT", help="Decode steps to capture at most.")
    ] = 64,
    warmup: Annotated[
        int,
        typer.Option("--warmup", metavar="COUNT", help="Decode steps before the capture begins."),
    ] = 0,
    device: sampling.Device = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where to store the trace; must not exist."),
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
    from assay.observe.capture import Capture

    # Refuses a path that exists before a model is loaded.
    capture = Capture(out or store.new_path("capture"))
    with (
        sampling.load(model, device, kv_tokens, knob) as engine,
        working(f"capturing {engine.files.name}", log=True) as progress,
    ):
        sampling.show_notes(engine)
        data = _run(engine, capture, prompt, batch, context, steps, warmup, progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        yield f"stored {data['path']}"
        yield from facts(
            (
                ("model", f"{data['model']} on {data['device']}"),
                ("steps", count(data["steps"], "step")),
                ("size", size(data["bytes"])),
                ("dropped", str(data["dropped"])),
                ("overhead", data["overhead_text"]),
                *(("degradation", line) for line in data["degradations"]),
            ),
            canvas,
        )

    return Report({k: v for k, v in data.items() if k != "overhead_text"}, text, as_json)


def _run(
    engine: "Engine",
    capture: "Capture",
    prompt: str | None,
    batch: int,
    context: int,
    steps: int,
    warmup: int,
    progress: Any,
) -> dict[str, Any]:
    """Run the load inside a capture; returns what the command reports."""
    import random

    from assay.engine import SamplingParams

    source = random.Random(0)
    vocabulary = engine.model.shape.vocabulary
    prompts: list[Any] = [
        prompt if prompt is not None else [source.randrange(vocabulary) for _ in range(context)]
        for _ in range(batch)
    ]
    params = SamplingParams(max_tokens=warmup + steps + 1, temperature=0.0, ignore_eos=True)
    for one in prompts:
        engine.add_request(one, params)
    for done in range(warmup + 1 if warmup else 0):
        progress(f"warming up: step {done:,}")
        engine.step()
    with capture:
        before = engine.statistics()["steps"]
        while engine.has_work:
            progress(f"capturing: step {engine.statistics()['steps'] - before:,}")
            engine.step()
    header = capture.header
    assert header is not None
    overhead = header.overhead
    return {
        "path": str(capture.path),
        "model": header.model,
        "device": engine.device.name,
        "batch": batch,
        "context": None if prompt is not None else context,
        "steps": engine.statistics()["steps"] - before,
        "bytes": sum(file.stat().st_size for file in capture.path.iterdir()),
        "dropped": header.dropped,
        "overhead": overhead,
        "overhead_text": f"{overhead['upper_bound']:.2%} at most, measured here"
        if overhead.get("measured")
        else overhead["reason"],
        "degradations": header.degradations,
    }
