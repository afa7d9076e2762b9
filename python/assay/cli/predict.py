"""`assay predict`: what a step of a model should take on some hardware, without a GPU."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table
from assay.errors import InputError
from assay.escaping import clipped
from assay.planner.graph import Graph
from assay.planner.step_text import digits, heading

if TYPE_CHECKING:
    from assay.planner.questions import StepPrediction
    from assay.planner.sweep import Sweep

BAR: Final = 14
"""Characters of the longest bar."""
_OTHER_COLUMNS: Final = 52
"""Characters of the columns beside the operation and the bar."""


def predict_command(
    model: options.PlannedModel,
    gpu: Annotated[
        str,
        option(
            "--gpu GPU",
            "An accelerator of the catalog, or a calibration: a file of assay calibrate, "
            "here, cpu, cuda:0.",
        ),
    ],
    batch: Annotated[int, option("--batch N", "Sequences that decode in the step.")] = 1,
    context: Annotated[
        str,
        option(
            "--context TOKENS",
            "Tokens in the KV cache of a sequence; one number for each with commas between.",
        ),
    ] = "1024",
    prefill_tokens: Annotated[
        int, option("--prefill-tokens N", "Tokens of prompts in the step.")
    ] = 0,
    prompt: Annotated[
        int,
        option(
            "--prompt N",
            "Length of each prompt, of which --prefill-tokens are a chunk; as long if not given.",
        ),
    ] = 0,
    engine: options.PlannedEngine = "vllm",
    dtype: Annotated[
        str | None,
        option(
            "--dtype FORMAT",
            "Format of weights; the one of the model's files if not given, else bf16.",
        ),
    ] = None,
    kv_dtype: options.KvFormat = "bf16",
    tensor: Annotated[int, option("--tensor N", "Tensor-parallel GPUs.")] = 1,
    pipeline: Annotated[int, option("--pipeline N", "Pipeline stages.")] = 1,
    expert: Annotated[int, option("--expert N", "Expert-parallel groups of these GPUs.")] = 1,
    context_parallel: Annotated[
        int, option("--context-parallel N", "GPUs that share every KV cache.")
    ] = 1,
    speculative_tokens: options.SpeculativeTokens = 0,
    acceptance: options.Acceptance = None,
    no_cuda_graphs: Annotated[
        bool, option("--no-cuda-graphs", "The host launches each kernel (enforce_eager).")
    ] = False,
    sweep: Annotated[
        list[str] | None,
        option(
            "--sweep NAME=VALUES",
            "Predict every combination, such as batch=1,2,4 or context=1024:8192:1024 or "
            "gpu=h100_sxm,h200_sxm. May be repeated.",
        ),
    ] = None,
    offer: options.Offer = None,
    nodes: Annotated[
        bool, option("--nodes", "List every node of the graph, not operations.")
    ] = False,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Predict the time of one step, operation by operation.

    Each has its floor, its expected time and an interval. Nothing runs: no GPU is needed.
    """
    from assay.planner.questions import predict_step

    settings: dict[str, Any] = {
        "sequences": batch,
        "context": _context(context),
        "prefill_tokens": prefill_tokens,
        "prompt": prompt,
        "speculative_tokens": speculative_tokens,
        "acceptance": acceptance,
        "tensor": tensor,
        "pipeline": pipeline,
        "expert": expert,
        "context_parallel": context_parallel,
        "kv_dtype": kv_dtype,
        "engine": engine,
        "cuda_graphs": not no_cuda_graphs,
        "offer": offer,
    }
    if sweep:
        return _swept(model, gpu, sweep, dtype, settings, limit, as_json)
    answer = predict_step(model, gpu, dtype=dtype, **settings)
    missing = answer.graph.missing.items()
    return report_of(
        answer,
        lambda canvas: _text(answer, canvas, limit, nodes),
        as_json,
        details=[f"{name} is missing: {reason}" for name, reason in missing],
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
    answer: "StepPrediction", canvas: Canvas, limit: int | None, nodes: bool
) -> Iterator[Line]:
    graph, rows = answer.graph, answer.operations
    yield from facts(heading(graph), canvas)
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
            (clipped(row.operation, room), styles.NAME),
            str(row.nodes),
            (digits(row.expected_ns / 1e3), styles.VALUE),
            f"{digits(row.lo_ns / 1e3)}-{digits(row.hi_ns / 1e3)}",
            f"{100 * row.expected_ns / step:.1f}",
            (bar(row.floor_ns, row.expected_ns, longest, width, canvas), styles.FAINT),
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
            (node.name, styles.NAME),
            (f"{node.expected_ns / 1e3:,.2f}", styles.VALUE),
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


def _swept(
    model: str, gpu: str, texts: list[str], dtype: str | None, settings: dict[str, Any],
    limit: int | None, as_json: bool,
) -> Report:  # fmt: skip
    from assay.planner.axes import read_axes
    from assay.planner.questions import sweep_steps

    machines, over = read_axes(gpu, texts)
    answer = sweep_steps(model, machines, over, dtype=dtype, **settings)
    steps = answer.steps
    rate = f"{len(steps):,} configurations in {steps.seconds:.3f} s, {steps.configurations_per_second:,.0f}/s"
    return report_of(
        answer,
        lambda canvas: _swept_text(
            steps, answer.usd_per_million, canvas, options.MAX_LISTED if limit is None else limit
        ),
        as_json,
        details=[rate],
    )


def _swept_text(
    sweep: "Sweep", costs: Sequence[float | None], canvas: Canvas, limit: int
) -> Iterator[Line]:
    count = len(sweep) if not limit else min(limit, len(sweep))
    names = list(sweep.settings)
    is_priced = any(cost is not None for cost in costs)
    cells: list[tuple[Part, ...]] = [
        (
            *(_shown(sweep.settings[name][row]) for name in names),
            (f"{sweep.step_ns[row] / 1e6:,.3f}", styles.VALUE),
            f"{sweep.floor_ns[row] / 1e6:,.3f}",
            f"{100 * sweep.floor_ns[row] / sweep.step_ns[row]:.0f}",
            f"{sweep.tokens_per_second[row]:,.0f}",
            *([] if not is_priced else ["-" if (cost := costs[row]) is None else digits(cost)]),
        )
        for row in range(count)
    ]
    titles = (*names, "step ms", "floor ms", "% floor", "tokens/s")
    titles += ("USD/M",) if is_priced else ()
    yield from table(titles, cells, canvas, right=tuple(range(len(titles))))
    if count < len(sweep):
        yield f"{count:,} of {len(sweep):,} configurations; --limit 0 lists all"


def _shown(value: Any) -> str:
    if isinstance(value, str | bool):
        return str(value)
    return f"{value:,g}" if float(value) < 1e15 else str(value)
