"""`assay predict-load`: latencies and goodput of a server by arrival rate, without a GPU."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table

if TYPE_CHECKING:
    from assay.planner.open_loop import Latency, OpenLoop
    from assay.planner.questions import LoadPrediction
    from assay.planner.serving_load import PredictedLoad


def predict_load_command(
    model: options.PlannedModel,
    gpu: Annotated[str, option("--gpu GPU", "An accelerator of the catalog, or a calibration.")],
    rates: Annotated[
        str, option("--rates NUMBERS", "Requests per second, such as 1,2,4 or 2:20:2.")
    ],
    prompt: Annotated[int, option("--prompt N", "Input tokens of a request.")] = 1024,
    output: Annotated[int, option("--output N", "Output tokens of a request.")] = 128,
    prefix_hits: Annotated[
        float, option("--prefix-hits SHARE", "Share of input tokens in the prefix cache.")
    ] = 0.0,
    max_running: Annotated[
        int, option("--max-running N", "Most running requests (max_num_seqs).")
    ] = 1024,
    ttft_limit: Annotated[
        float | None, option("--ttft-limit MS", "TTFT within which a request counts.")
    ] = None,
    tpot_limit: Annotated[
        float | None, option("--tpot-limit MS", "TPOT within which a request counts.")
    ] = None,
    engine: options.PlannedEngine = "vllm",
    dtype: Annotated[
        str | None, option("--dtype FORMAT", "Format of weights; bf16 if not known.")
    ] = None,
    kv_dtype: options.KvFormat = "bf16",
    tensor: Annotated[int, option("--tensor N", "Tensor-parallel GPUs.")] = 1,
    speculative_tokens: options.SpeculativeTokens = 0,
    acceptance: options.Acceptance = None,
    as_json: options.Json = False,
) -> Report:
    """Predict latencies and goodput by arrival rate.

    Requests arrive as a Poisson process and have one length. Nothing runs: no GPU is needed.
    """
    from assay.planner.axes import read_rates
    from assay.planner.questions import predict_load

    answer = predict_load(
        model, gpu, read_rates(rates), prompt=prompt, output=output, prefix_hits=prefix_hits,
        max_running=max_running, ttft_limit_ms=ttft_limit, tpot_limit_ms=tpot_limit, dtype=dtype,
        tensor=tensor, kv_dtype=kv_dtype, engine=engine, speculative_tokens=speculative_tokens,
        acceptance=acceptance,
    )  # fmt: skip
    heading = [
        ("model", answer.model),
        ("on", f"{tensor} x {answer.hardware}, {engine}"),
        ("requests", f"{prompt:,} in, {output:,} out, Poisson arrivals"),
    ]
    return report_of(answer, lambda canvas: _text(heading, answer, canvas), as_json)


def _text(
    heading: list[tuple[str, str]], answer: "LoadPrediction", canvas: Canvas
) -> Iterator[Line]:
    yield from facts(heading, canvas)
    none = ("TPOT ms", "n/a", "n/a", "n/a: one output token")
    for row in answer.rates:
        yield ""
        yield ((f"{row.rate:g} requests/s", styles.VALUE), f": {row.verdict}")
        cells = [
            _cells("TTFT ms", row, lambda load: load.first_token, 1e3),
            _cells("TPOT ms", row, lambda load: load.output_token, 1e3)
            if answer.has_gaps
            else none,
            _cells("E2E s", row, lambda load: load.end_to_end, 1.0),
        ]
        yield from table(("", "p50", "p90", "p99"), cells, canvas, right=(1, 2, 3))
        low, high = row.lo, row.hi
        most = "" if high is None else f"{high.running:,.1f}"
        least = 0.0 if high is None else high.goodput
        yield (
            f"{row.running:,.1f} requests there ({low.running:,.1f} to {most or 'no end'}), "
            f"goodput {row.goodput:,.4g} requests/s ({least:,.4g} to {low.goodput:,.4g})"
        )
    for rate, reason in answer.refused:
        yield ""
        yield ((f"{rate:g} requests/s", styles.VALUE), f": {reason}")
    if answer.completes is not None:
        completes = answer.completes
        yield (
            f"the server completes {completes.rate:,.3g} requests/s at most "
            f"({completes.lo:,.3g} to {completes.hi:,.3g})"
        )
    yield ""
    yield "in brackets: 90 % interval by the model error of the times of iterations"


def _cells(
    name: str, row: "PredictedLoad", latency: Callable[["OpenLoop"], "Latency"], scale: float
) -> tuple[Part, ...]:
    """A latency's percentiles, each with its interval."""
    own, low = latency(row), latency(row.lo)
    high = None if row.hi is None else latency(row.hi)
    cells: list[Part] = [name]
    for level in ("p50", "p90", "p99"):
        most = "no end" if high is None else _digits(scale * getattr(high, level))
        least = _digits(scale * getattr(low, level))
        cells.append(f"{_digits(scale * getattr(own, level))} ({least} to {most})")
    return tuple(cells)


def _digits(value: float) -> str:
    """Three digits, or all before the point.

    >>> _digits(6.17), _digits(1234.5)
    ('6.17', '1,234')
    """
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{decimals}f}"
