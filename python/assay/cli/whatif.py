"""`assay whatif`: a trace replayed under changes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, working
from assay.diagnose.replay.changes import MEANINGS

if TYPE_CHECKING:
    from assay.diagnose.replay.whatif import WhatIf
    from assay.intervals import Interval

_UNITS: Final = {"step_ns": ("step", 1e-6, "ms"), "tokens_per_second": ("throughput", 1, "tok/s")}
_CHANGES: Final = "; ".join(f"{name} ({meaning})" for name, meaning in MEANINGS.items())


def whatif_command(
    trace: options.TraceArgument,
    change: Annotated[
        list[str] | None, option("--change CHANGE", f"What to change; may be repeated. {_CHANGES}.")
    ] = None,
    model: Annotated[
        str | None,
        option(
            "--model MODEL",
            "The model that ran: a config.json, its folder, a GGUF file, or a name of the "
            "catalog such as models/llama-3.1-8b.",
        ),
    ] = None,
    gpu: options.TracedGpu = None,
    engine: Annotated[
        str | None, option("--engine NAME", "Whose kernels to assume: vllm or assay.")
    ] = None,
    batch: options.StepBatch = None,
    context: Annotated[
        int | None, option("--context TOKENS", "Tokens in the cache of a sequence.")
    ] = None,
    rate: Annotated[
        float | None, option("--rate PER_SECOND", "Simulate a load: requests a second.")
    ] = None,
    input_tokens: Annotated[int, option("--input TOKENS", "Prompt tokens of a request.")] = 1024,
    output_tokens: Annotated[int, option("--output TOKENS", "Output tokens of a request.")] = 128,
    requests: Annotated[int, option("--requests N", "Requests of the load.")] = 200,
    max_num_seqs: Annotated[int, option("--max-num-seqs N", "Sequences that run at once.")] = 256,
    max_num_batched_tokens: Annotated[
        int, option("--max-num-batched-tokens N", "Tokens computed in a step.")
    ] = 8192,
    slo: Annotated[
        list[str] | None,
        option(
            "--slo NAME:MS",
            "An objective for goodput in milliseconds: ttft:200, tpot:20, e2el:5000. May be "
            "repeated.",
        ),
    ] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Say what a change would do to the steps of a trace.

    The answer has step time, throughput, latencies and goodput, with intervals.

    The trace is replayed event by event on a virtual clock, with its own dependencies and delays.
    Changes of kernels, launches, host work and copies act on the events. Changes of batch, context,
    formats, clock and GPU scale each operation by the ratio of two predictions. With --rate, random
    arrivals meet the engine's own scheduler, without a device. Intervals are of 90 %.
    """
    from assay.diagnose.replay.load_figures import read_load
    from assay.diagnose.replay.question import what_if

    load = read_load(rate, input_tokens, output_tokens, requests, max_num_seqs,
                     max_num_batched_tokens, slo or ())  # fmt: skip
    with working(f"reading {trace}") as progress:
        answer = what_if(
            trace, change or (), model=model, gpu=gpu, engine=engine, batch=batch, context=context,
            load=load, progress=progress,
        )  # fmt: skip
    shown = options.MAX_LISTED if limit is None else limit
    return report_of(
        answer, lambda canvas: _text(answer, canvas, shown or len(answer.operations)), as_json
    )


def _text(answer: "WhatIf", canvas: Canvas, limit: int) -> Iterator[Line]:
    change = answer.change
    yield from facts(
        (
            ("trace", answer.trace),
            ("changes", ", ".join(answer.changes)),
            ("steps", f"{answer.steps} {answer.phase} steps, replayed within "
                      f"{100 * abs(answer.self_replay_error):.2f} %"),
            ("change", f"{100 * change.value:+.1f} % of step time "
                       f"({100 * change.lo:+.1f} to {100 * change.hi:+.1f})"),
        ),
        canvas,
    )  # fmt: skip
    yield ""
    yield from _compared(answer.before, answer.after, canvas)
    if answer.load_before is not None and answer.load_after is not None:
        yield ""
        yield from _compared(answer.load_before, answer.load_after, canvas)
    rows = [row for row in answer.operations if row["operation"]][:limit]
    if rows:
        yield ""
        yield from table(
            ("operation", "before us", "after us"),
            [
                ((row["operation"], styles.NAME), f"{row['before_ns'] / 1e3:,.1f}",
                 (f"{row['after_ns'] / 1e3:,.1f}", styles.VALUE))
                for row in rows
            ],
            canvas,
            right=(1, 2),
        )  # fmt: skip


def _compared(
    before: "Mapping[str, Interval]", after: "Mapping[str, Interval]", canvas: Canvas
) -> Iterator[Line]:
    cells: list[tuple[Part, ...]] = []
    for name in after:
        title, factor, unit = _UNITS.get(name, _title(name))
        old, new = before.get(name), after[name]
        cells.append(
            (
                (title, styles.NAME),
                "" if old is None else f"{factor * old.value:,.2f}",
                (f"{factor * new.value:,.2f}", styles.VALUE),
                (f"{factor * new.lo:,.2f} to {factor * new.hi:,.2f}", styles.FAINT),
                unit,
            )
        )
    yield from table(("", "before", "after", "90 %", "unit"), cells, canvas, right=(1, 2, 3))


def _title(name: str) -> tuple[str, float, str]:
    """The title and unit of a figure such as p90_ttft_ms."""
    words = {"request_throughput": "requests/s", "output_throughput": "tok/s",
             "request_goodput": "requests/s", "preemptions": ""}  # fmt: skip
    if name in words:
        return name.replace("_", " "), 1.0, words[name]
    stem = name.removesuffix("_ms")
    percentile, _, metric = stem.rpartition("_")
    return f"{metric.upper()} {percentile or 'p50'}", 1.0, "ms"
