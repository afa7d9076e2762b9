"""`assay whatif`: a trace replayed under changes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from assay.cli import options
from assay.cli.output import FAINT, NAME, VALUE, Canvas, Line, Part, Report, facts, table, working
from assay.cli.trace_summary import recover_structure
from assay.diagnose.replay.changes import MEANINGS, NODE_KINDS, parse_all
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.diagnose.replay.changes import Change
    from assay.diagnose.replay.load_figures import Load
    from assay.diagnose.replay.planned_cost import Setting
    from assay.observe.structure.recovery import Recovery
    from assay.observe.trace import Trace

_OBJECTIVES: Final = ("ttft", "tpot", "e2el")
_UNITS: Final = {"step_ns": ("step", 1e-6, "ms"), "tokens_per_second": ("throughput", 1, "tok/s")}
_CHANGES: Final = "; ".join(f"{name} ({meaning})" for name, meaning in MEANINGS.items())


def whatif_command(
    trace: options.TraceArgument,
    change: Annotated[
        list[str] | None,
        typer.Option(
            "--change",
            metavar="CHANGE",
            help=f"What to change; may be repeated. {_CHANGES}.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="The model that ran: a config.json, its folder, a GGUF file, or a name of the "
            "catalog such as models/llama-3.1-8b.",
        ),
    ] = None,
    gpu: options.TracedGpu = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="NAME", help="Whose kernels to assume: vllm or assay."),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", help="Sequences of a decode step, if not shown."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", metavar="TOKENS", help="Tokens in the cache of a sequence."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="PER_SECOND", help="Simulate a load: requests a second."),
    ] = None,
    input_tokens: Annotated[
        int, typer.Option("--input", metavar="TOKENS", help="Prompt tokens of a request.")
    ] = 1024,
    output_tokens: Annotated[
        int, typer.Option("--output", metavar="TOKENS", help="Output tokens of a request.")
    ] = 128,
    requests: Annotated[
        int, typer.Option("--requests", metavar="N", help="Requests of the load.")
    ] = 200,
    max_num_seqs: Annotated[
        int, typer.Option("--max-num-seqs", metavar="N", help="Sequences that run at once.")
    ] = 256,
    max_num_batched_tokens: Annotated[
        int,
        typer.Option("--max-num-batched-tokens", metavar="N", help="Tokens computed in a step."),
    ] = 8192,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            "--slo",
            metavar="NAME:MS",
            help="An objective for goodput in milliseconds: ttft:200, tpot:20, e2el:5000. May be "
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
    changes = parse_all(change or ())
    if not changes:
        raise InputError("expected at least one --change, got none", f"changes: {_names()}")
    load = _load(rate, input_tokens, output_tokens, requests, max_num_seqs, max_num_batched_tokens,
                 _objectives(slo or ()))  # fmt: skip
    with working(f"reading {trace}") as say:
        recovered = recover_structure(trace, model, say)
        data = {"trace": trace, **_answered(trace, recovered, changes, load, model, gpu, engine,
                                            batch, context, say)}  # fmt: skip
    shown = options.MAX_LISTED if limit is None else limit
    return Report(
        data,
        lambda canvas: _text(data, canvas, shown or len(data["operations"])),
        as_json,
        notes=data["notes"],
    )


def _names() -> str:
    return ", ".join(name.partition("=")[0] for name in MEANINGS)


def _objectives(texts: list[str] | tuple[()]) -> dict[str, float]:
    found = {}
    for text in texts:
        name, _, value = text.partition(":")
        try:
            milliseconds = float(value)
        except ValueError:
            milliseconds = 0.0
        if name not in _OBJECTIVES or not 0 < milliseconds < 1e12:
            raise InputError(
                f'--slo "{text}": expected {", ".join(f"{one}:MS" for one in _OBJECTIVES)}',
                "milliseconds, such as ttft:200",
            )
        found[name] = milliseconds / 1e3
    return found


def _load(
    rate: float | None, prompt: int, output: int, requests: int, sequences: int, tokens: int,
    slo: dict[str, float],
) -> "Load | None":  # fmt: skip
    from assay.diagnose.replay.load import SchedulerConfig
    from assay.diagnose.replay.load_figures import Load

    if rate is None:
        if slo:
            raise InputError("--slo: expected a load that meets it, got none", "--rate gives one")
        return None
    if not 0 < rate < 1e9:
        raise InputError(f"--rate: expected requests a second above 0, got {rate}")
    given = {"input": prompt, "output": output, "requests": requests, "max-num-seqs": sequences,
             "max-num-batched-tokens": tokens}  # fmt: skip
    for name, value in given.items():
        if not 1 <= value <= 10_000_000:
            raise InputError(f"--{name}: expected from 1 to 10,000,000, got {value}")
    # Both engines schedule a step while the one before it runs, on GPUs.
    config = SchedulerConfig(sequences, tokens, async_scheduling=True)
    return Load(rate, prompt, output, requests, config, slo)


def _answered(
    where: str, recovered: "Recovery", changes: "tuple[Change, ...]", load: "Load | None",
    model: str | None, gpu: str | None, engine: str | None, batch: int | None,
    context: int | None, say: Any,
) -> dict[str, Any]:  # fmt: skip
    from assay.diagnose import subject
    from assay.diagnose.examination import check_events
    from assay.diagnose.replay.whatif import whatif

    for name, given in (("batch", batch), ("context", context)):
        if given is not None and given < 1:
            raise InputError(f"--{name}: expected 1 or more, got {given}")
    check_events(recovered.trace, where)
    trace = subject.with_batch(recovered.trace, batch, context)
    notes = [*trace.header.degradations, *recovered.degradations]
    setting = None
    needed = load is not None or any(one.kind not in NODE_KINDS for one in changes)
    if model is not None and needed:
        say("predicting the steps")
        setting, trace = _setting(where, recovered, trace, model, gpu, engine, notes)
    say("replaying")
    found = whatif(trace, changes, setting=setting, load=load).to_json()
    found["notes"] = list(dict.fromkeys([*notes, *found["notes"]]))
    if setting is not None:
        found |= {"model": setting.model.name, "gpu": setting.hardware.name}
    return found


def _setting(
    where: str, recovered: "Recovery", trace: "Trace", model: str, gpu: str | None,
    engine: str | None, notes: list[str],
) -> "tuple[Setting, Trace]":  # fmt: skip
    """What the decode steps of the trace ran, as the planner takes it."""
    from assay.diagnose import subject
    from assay.diagnose.examination import check_model, situation_of
    from assay.diagnose.replay.planned_cost import Setting
    from assay.diagnose.request import Request
    from assay.diagnose.step_predictions import predict_steps
    from assay.errors import unknown_name
    from assay.planner import BatchConfig, hardware_spec, model_spec

    if engine is not None and engine not in subject.ENGINES:
        raise unknown_name("engine", engine, subject.ENGINES)
    spec = model_spec(model)
    named = gpu or subject.gpu_of(trace)
    if named is None:
        listed = ", ".join(subject.gpu_names(trace)) or "none"
        raise InputError(
            f"{where}: expected a GPU of the catalog, the trace names {listed}",
            "--gpu names one, or a file of assay calibrate",
        )
    hardware = hardware_spec(named)
    check_model(recovered, spec, where)
    request = Request(spec, hardware, engine)
    situation = situation_of(trace, request, where, notes)
    if not situation.can_predict:
        raise InputError(f"{where}: {notes[-1]}")
    predicted = predict_steps(trace, request, situation)
    notes += predicted.notes
    if not predicted.graphs or predicted.batch is None:
        raise InputError(
            f"{where}: expected decode steps of known size, got none", "--batch says the size"
        )
    setting = Setting(spec, hardware, BatchConfig(**dict(predicted.graphs[0].batch)))
    return setting, subject.with_batch(trace, None, predicted.inferred)


def _text(data: dict[str, Any], canvas: Canvas, limit: int) -> Iterator[Line]:
    change = data["change"]
    yield from facts(
        (
            ("trace", data["trace"]),
            ("changes", ", ".join(data["changes"])),
            ("steps", f"{data['steps']} {data['phase']} steps, replayed within "
                      f"{100 * abs(data['self_replay_error']):.2f} %"),
            ("change", f"{100 * change['expected']:+.1f} % of step time "
                       f"({100 * change['lo']:+.1f} to {100 * change['hi']:+.1f})"),
        ),
        canvas,
    )  # fmt: skip
    yield ""
    yield from _compared(data["before"], data["after"], canvas)
    if data["load_after"] is not None:
        yield ""
        yield from _compared(data["load_before"], data["load_after"], canvas)
    rows = [row for row in data["operations"] if row["operation"]][:limit]
    if rows:
        yield ""
        yield from table(
            ("operation", "before us", "after us"),
            [
                ((row["operation"], NAME), f"{row['before_ns'] / 1e3:,.1f}",
                 (f"{row['after_ns'] / 1e3:,.1f}", VALUE))
                for row in rows
            ],
            canvas,
            right=(1, 2),
        )  # fmt: skip


def _compared(
    before: Mapping[str, Any], after: Mapping[str, Any], canvas: Canvas
) -> Iterator[Line]:
    cells: list[tuple[Part, ...]] = []
    for name in after:
        title, factor, unit = _UNITS.get(name, _title(name))
        old, new = before.get(name), after[name]
        cells.append(
            (
                (title, NAME),
                "" if old is None else f"{factor * old['expected']:,.2f}",
                (f"{factor * new['expected']:,.2f}", VALUE),
                (f"{factor * new['lo']:,.2f} to {factor * new['hi']:,.2f}", FAINT),
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
