"""`assay predict`: what a step of a model should take on some hardware, without a GPU."""

import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from assay.cli import options
from assay.cli.output import FAINT, NAME, VALUE, Canvas, Line, Part, Report, facts, table
from assay.cli.verbosity import is_verbose
from assay.errors import InputError, unknown_name
from assay.escaping import clipped
from assay.intervals import Interval
from assay.planner.graph import Graph
from assay.planner.predict import predict_graph
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig, HardwareSpec, ModelSpec
from assay.planner.summary import OperationSummary, by_operation

if TYPE_CHECKING:
    from assay.planner.sweep import Sweep

BAR: Final = 14
"""Characters of the longest bar."""
_OTHER_COLUMNS: Final = 52
"""Characters of the columns beside the operation and the bar."""
_AXES: Final = {"batch": "sequences", "dtype": "weight_dtype", "gpu": "hardware"}
"""Names of options whose setting is called otherwise."""
_WORDS: Final = ("weight_dtype", "kv_dtype", "engine")


def predict_command(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A config.json, its folder, a .gguf file, or a name of the catalog.",
        ),
    ],
    gpu: Annotated[
        str,
        typer.Option(
            "--gpu",
            metavar="GPU",
            help="An accelerator of the catalog, or a calibration: a file of assay calibrate, "
            "here, cpu, cuda:0.",
        ),
    ],
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="Sequences that decode in the step.")
    ] = 1,
    context: Annotated[
        str,
        typer.Option(
            "--context",
            metavar="TOKENS",
            help="Tokens in the KV cache of a sequence; one number for each with commas between.",
        ),
    ] = "1024",
    prefill_tokens: Annotated[
        int, typer.Option("--prefill-tokens", metavar="N", help="Tokens of prompts in the step.")
    ] = 0,
    prompt: Annotated[
        int,
        typer.Option(
            "--prompt",
            metavar="N",
            help="Length of each prompt, of which --prefill-tokens are a chunk; as long if not given.",
        ),
    ] = 0,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="vllm or assay.")
    ] = "vllm",
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="FORMAT",
            help="Format of weights; the one of the model's files if not given, else bf16.",
        ),
    ] = None,
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", metavar="FORMAT", help="Format of the KV cache.")
    ] = "bf16",
    tensor: Annotated[int, typer.Option("--tensor", metavar="N", help="Tensor-parallel GPUs.")] = 1,
    pipeline: Annotated[int, typer.Option("--pipeline", metavar="N", help="Pipeline stages.")] = 1,
    expert: Annotated[
        int, typer.Option("--expert", metavar="N", help="Expert-parallel groups of these GPUs.")
    ] = 1,
    context_parallel: Annotated[
        int,
        typer.Option("--context-parallel", metavar="N", help="GPUs that share every KV cache."),
    ] = 1,
    speculative_tokens: Annotated[
        int,
        typer.Option("--speculative-tokens", metavar="N", help="Drafted tokens of a sequence."),
    ] = 0,
    acceptance: Annotated[
        float | None,
        typer.Option("--acceptance", metavar="P", help="Share of drafted tokens accepted."),
    ] = None,
    no_cuda_graphs: Annotated[
        bool,
        typer.Option("--no-cuda-graphs", help="The host launches each kernel (enforce_eager)."),
    ] = False,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="NAME=VALUES",
            help="Predict every combination, such as batch=1,2,4 or context=1024:8192:1024 or "
            "gpu=h100_sxm,h200_sxm. May be repeated.",
        ),
    ] = None,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="List every node of the graph, not operations.")
    ] = False,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Predict the time of one step, operation by operation.

    Each has its floor, its expected time and an interval. Nothing runs: no GPU is needed.
    """
    spec = model_spec(model)
    chosen = BatchConfig(
        sequences=batch,
        context=_context(context),
        prefill_tokens=prefill_tokens,
        prompt=prompt,
        speculative_tokens=speculative_tokens,
        acceptance=acceptance,
        tensor=tensor,
        pipeline=pipeline,
        expert=expert,
        context_parallel=context_parallel,
        weight_dtype=dtype or spec.weight_dtype or "bf16",
        kv_dtype=kv_dtype,
        engine=engine,
        cuda_graphs=not no_cuda_graphs,
    )
    if sweep:
        return _swept(spec, gpu, chosen, sweep, limit, as_json)
    graph = predict_graph(spec, hardware_spec(gpu), chosen)
    rows = by_operation(graph)
    return Report(
        lambda: {**graph.to_data(), "operations": [asdict(row) for row in rows]},
        lambda canvas: _text(graph, rows, canvas, limit, nodes),
        as_json,
        notes=graph.degradations,
        details=[f"{name} is missing: {reason}" for name, reason in graph.missing.items()],
    )


def _context(text: str) -> int | tuple[int, ...]:
    try:
        lengths = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f'context: expected a number of tokens, or one for each sequence, got "{text[:60]}"'
        ) from None
    return lengths[0] if len(lengths) == 1 else lengths


def _text(
    graph: Graph, rows: list[OperationSummary], canvas: Canvas, limit: int | None, nodes: bool
) -> Iterator[Line]:
    yield from facts(_heading(graph), canvas)
    yield ""
    if nodes:
        yield from _nodes(graph, canvas, options.MAX_LISTED if limit is None else limit)
        return
    step = graph.totals["step"].value
    most = options.MAX_LISTED if limit is None else limit
    shown = rows[:most] if most else rows
    longest = max(row.expected_ns for row in rows)
    names = max(len(row.operation) for row in rows)
    room = max(canvas.width - _OTHER_COLUMNS - 4, 20)
    width = max(min(canvas.width - min(names, room) - _OTHER_COLUMNS, BAR), 4)
    cells: list[tuple[Part, ...]] = [
        (
            (clipped(row.operation, room), NAME),
            str(row.nodes),
            (_digits(row.expected_ns / 1e3), VALUE),
            f"{_digits(row.lo_ns / 1e3)}-{_digits(row.hi_ns / 1e3)}",
            f"{100 * row.expected_ns / step:.1f}",
            (bar(row.floor_ns, row.expected_ns, longest, width, canvas), FAINT),
            row.bound,
        )
        for row in shown
    ]
    titles = ("operation", "count", "us", "90 %", "% step", "floor", "bound")
    yield from table(titles, cells, canvas, right=(1, 2, 3, 4))
    if len(shown) < len(rows):
        yield f"{len(shown)} of {len(rows)} operations; --limit 0 lists all"


def bar(floor: float, expected: float, longest: float, width: int, canvas: Canvas) -> str:
    """A bar of the expected time, its floor filled.

    >>> bar(1.0, 2.0, 2.0, 14, Canvas())
    '#######-------'
    """
    whole = max(round(width * expected / longest), 1) if longest else 0
    filled = round(whole * floor / expected) if expected else 0
    full, rest = ("\u2588", "\u2591") if canvas.is_unicode else ("#", "-")
    return full * filled + rest * (whole - filled)


def _nodes(graph: Graph, canvas: Canvas, limit: int) -> Iterator[Line]:
    shown = graph.nodes[:limit] if limit else graph.nodes
    cells: list[tuple[Part, ...]] = [
        (
            (node.name, NAME),
            (f"{node.expected_ns / 1e3:,.2f}", VALUE),
            f"{node.floor_ns / 1e3:,.2f}",
            f"{node.bytes_read / 1e6:,.2f}",
            f"{node.bytes_written / 1e6:,.2f}",
            f"{node.flops / 1e9:,.2f}",
            node.bound,
        )
        for node in shown
    ]
    titles = ("node", "us", "floor us", "MB read", "MB written", "GFLOP", "bound")
    yield from table(titles, cells, canvas, right=(1, 2, 3, 4, 5))
    if len(shown) < len(graph.nodes):
        yield f"{len(shown)} of {len(graph.nodes):,} nodes; --limit 0 lists all"


def _heading(graph: Graph) -> Iterator[tuple[str, str]]:
    batch = graph.batch
    graphs = "CUDA graphs" if graph.engine == "vllm" else "graphs"
    graphs = graphs if batch["cuda_graphs"] else f"no {graphs}"
    formats = f"{batch['weight_dtype']} weights, {batch['kv_dtype']} KV cache"
    yield "model", graph.model
    yield "on", f"{_ranks(batch)}{graph.hardware}, {graph.engine}, {graphs}, {formats}"
    yield "step of", _load(batch)
    totals = graph.totals
    step, floor = totals["step"], totals["floor"]
    share = 100 * floor.value / step.value
    yield "step", f"{_ms(step)}; floor {floor.value / 1e6:,.3f} ms ({share:.0f} %)"
    for name, label, scale, unit in (
        ("tokens_per_second", "tokens/s", 1.0, ""),
        ("ttft", "TTFT", 1e-6, " ms"),
        ("power", "power", 1.0, " W a GPU"),
        ("joules_per_token", "energy", 1.0, " J/token"),
        ("dollars_per_token", "cost", 1e6, " USD per million tokens"),
    ):
        if name in totals:
            yield label, _figure(totals[name], scale, unit)
        elif name in graph.missing:
            yield label, f"not known: {graph.missing[name]}"


def _load(batch: Any) -> str:
    contexts = batch["context"]
    shown = (
        f"{contexts:,}" if isinstance(contexts, int) else f"{min(contexts):,} to {max(contexts):,}"
    )
    parts = []
    if batch["sequences"]:
        drafted = batch["speculative_tokens"]
        more = f" and {drafted} drafted tokens each" if drafted else ""
        parts.append(f"{batch['sequences']:,} decoding at context {shown}{more}")
    if batch["prefill_tokens"]:
        parts.append(f"{batch['prefill_tokens']:,} prefill tokens")
    return " with ".join(parts)


def _ranks(batch: Any) -> str:
    gpus = batch["tensor"] * batch["pipeline"] * batch["context_parallel"]
    return f"{gpus} x " if gpus > 1 else ""


def _ms(figure: Interval) -> str:
    return f"{figure.value / 1e6:,.3f} ms ({figure.lo / 1e6:,.3f} to {figure.hi / 1e6:,.3f})"


def _figure(figure: Interval, scale: float, unit: str) -> str:
    value, low, high = (_digits(scale * x) for x in (figure.value, figure.lo, figure.hi))
    return f"{value}{unit}" if low == high else f"{value}{unit} ({low} to {high})"


def _digits(value: float) -> str:
    """A number with three digits at least."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def _swept(
    model: ModelSpec, gpu: str, batch: BatchConfig, texts: list[str], limit: int | None,
    as_json: bool,
) -> Report:  # fmt: skip
    from assay.planner.sweep import sweep

    machines, over = _axes(gpu, texts)
    found = sweep(model, machines, replace(batch), over)
    rate = f"{len(found):,} configurations in {found.seconds:.3f} s, {found.configurations_per_second:,.0f}/s"
    notes = dict.fromkeys(note for machine in machines for note in machine.notes)
    return Report(
        lambda: _swept_data(model, batch, found),
        lambda canvas: _swept_text(found, canvas, options.MAX_LISTED if limit is None else limit),
        as_json,
        notes=[*model.notes, *notes, *([rate] if is_verbose() else [])],
    )


def _axes(gpu: str, texts: list[str]) -> tuple[list[HardwareSpec], dict[str, list[Any]]]:
    """Hardware and values by setting of all --sweep options."""
    from assay.planner.sweep import SETTINGS

    machines = [gpu]
    over: dict[str, list[Any]] = {}
    for text in texts:
        name, separator, values = text.partition("=")
        setting = _AXES.get(name.strip(), name.strip().replace("-", "_"))
        if not separator or not values.strip():
            raise InputError(
                f'malformed --sweep "{text[:80]}": expected name=values',
                "write for example --sweep batch=1,2,4,8 or --sweep context=1024:8192:1024",
            )
        if setting not in ("hardware", *SETTINGS):
            raise unknown_name("setting of --sweep", name.strip(), (*_AXES, *SETTINGS))
        if setting == "hardware":
            machines = [value.strip() for value in values.split(",")]
        elif setting in _WORDS:
            over[setting] = [value.strip() for value in values.split(",")]
        elif setting == "cuda_graphs":
            over[setting] = [_is_yes(value) for value in values.split(",")]
        else:
            over[setting] = _numbers(name, values)
    return [hardware_spec(machine) for machine in machines], over


def _is_yes(text: str) -> bool:
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.strip().lower() not in known:
        raise InputError(f'--sweep cuda_graphs: expected true or false, got "{text[:40]}"')
    return known[text.strip().lower()]


def _numbers(name: str, text: str) -> list[Any]:
    """Numbers of a list, or of start:stop:step with both ends."""
    try:
        if ":" in text:
            start, stop, step = (int(part) for part in text.split(":"))
            if step < 1 or stop < start or (stop - start) // step > 10_000_000:
                raise ValueError
            return list(range(start, stop + 1, step))
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f'--sweep {name}: expected numbers such as 1,2,4 or 1:256:1, got "{text[:60]}"'
        ) from None


def _swept_data(model: ModelSpec, batch: BatchConfig, found: "Sweep") -> dict[str, Any]:
    return {
        "model": model.name,
        "batch": asdict(batch),
        "seconds": found.seconds,
        "configurations_per_second": found.configurations_per_second,
        "settings": {name: list(map(_plain, column)) for name, column in found.settings.items()},
        "step_ns": found.step_ns.tolist(),
        "floor_ns": found.floor_ns.tolist(),
        "tokens_per_second": found.tokens_per_second.tolist(),
    }


def _plain(value: Any) -> Any:
    return float(value) if hasattr(value, "dtype") else value


def _swept_text(found: "Sweep", canvas: Canvas, limit: int) -> Iterator[Line]:
    count = len(found) if not limit else min(limit, len(found))
    names = list(found.settings)
    cells: list[tuple[Part, ...]] = [
        (
            *(_shown(found.settings[name][row]) for name in names),
            (f"{found.step_ns[row] / 1e6:,.3f}", VALUE),
            f"{found.floor_ns[row] / 1e6:,.3f}",
            f"{100 * found.floor_ns[row] / found.step_ns[row]:.0f}",
            f"{found.tokens_per_second[row]:,.0f}",
        )
        for row in range(count)
    ]
    titles = (*names, "step ms", "floor ms", "% floor", "tokens/s")
    yield from table(titles, cells, canvas, right=tuple(range(len(titles))))
    if count < len(found):
        yield f"{count:,} of {len(found):,} configurations; --limit 0 lists all"


def _shown(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:,g}" if float(value) < 1e15 else str(value)
