"""`assay predict-load`: latencies and goodput of a server by arrival rate, without a GPU."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from assay.cli import options
from assay.cli.output import VALUE, Canvas, Line, Part, Report, facts, table
from assay.errors import InputError
from assay.planner.open_loop import Latency
from assay.planner.serving_load import LoadPrediction, ServedLoad, predict_load
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

MOST_RATES: Final = 1000


def predict_load_command(
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
            "--gpu", metavar="GPU", help="An accelerator of the catalog, or a calibration."
        ),
    ],
    rates: Annotated[
        str,
        typer.Option(
            "--rates", metavar="NUMBERS", help="Requests per second, such as 1,2,4 or 2:20:2."
        ),
    ],
    prompt: Annotated[
        int, typer.Option("--prompt", metavar="N", help="Input tokens of a request.")
    ] = 1024,
    output: Annotated[
        int, typer.Option("--output", metavar="N", help="Output tokens of a request.")
    ] = 128,
    prefix_hits: Annotated[
        float,
        typer.Option(
            "--prefix-hits", metavar="SHARE", help="Share of input tokens in the prefix cache."
        ),
    ] = 0.0,
    max_running: Annotated[
        int,
        typer.Option("--max-running", metavar="N", help="Most running requests (max_num_seqs)."),
    ] = 1024,
    ttft_limit: Annotated[
        float | None,
        typer.Option("--ttft-limit", metavar="MS", help="TTFT within which a request counts."),
    ] = None,
    tpot_limit: Annotated[
        float | None,
        typer.Option("--tpot-limit", metavar="MS", help="TPOT within which a request counts."),
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", metavar="ENGINE", help="vllm or assay.")
    ] = "vllm",
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="FORMAT", help="Format of weights; bf16 if not known."),
    ] = None,
    kv_dtype: Annotated[
        str, typer.Option("--kv-dtype", metavar="FORMAT", help="Format of the KV cache.")
    ] = "bf16",
    tensor: Annotated[int, typer.Option("--tensor", metavar="N", help="Tensor-parallel GPUs.")] = 1,
    speculative_tokens: Annotated[
        int,
        typer.Option("--speculative-tokens", metavar="N", help="Drafted tokens of a sequence."),
    ] = 0,
    acceptance: Annotated[
        float | None,
        typer.Option("--acceptance", metavar="P", help="Share of drafted tokens accepted."),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Predict latencies and goodput by arrival rate.

    Requests arrive as a Poisson process and have one length. Nothing runs: no GPU is needed.
    """
    spec, hardware = model_spec(model), hardware_spec(gpu)
    batch = BatchConfig(
        tensor=tensor, weight_dtype=dtype or spec.weight_dtype or "bf16", kv_dtype=kv_dtype,
        engine=engine, speculative_tokens=speculative_tokens, acceptance=acceptance,
    )  # fmt: skip
    load = ServedLoad(
        prompt, output, prefix_hits, max_running, _limit("--ttft-limit", ttft_limit),
        _limit("--tpot-limit", tpot_limit),
    )  # fmt: skip
    found = predict_load(spec, hardware, batch, load, _rates(rates))
    heading = [
        ("model", spec.name),
        ("on", f"{tensor} x {hardware.name}, {engine}"),
        ("requests", f"{prompt:,} in, {output:,} out, Poisson arrivals"),
    ]
    return Report(
        lambda: _data(found, load),
        lambda canvas: _text(heading, found, canvas),
        as_json,
        notes=[*spec.notes, *hardware.notes, *_notes(found)],
    )


def _notes(found: LoadPrediction) -> list[str]:
    return [f"{rate:g} requests/s: {reason}" for rate, reason in found.refused]


def _limit(name: str, milliseconds: float | None) -> float:
    if milliseconds is None:
        return math.inf
    if not milliseconds > 0:
        raise InputError(f"{name}: expected milliseconds above 0, got {milliseconds:g}")
    return milliseconds / 1e3


def _rates(text: str) -> list[float]:
    """Numbers of a list, or of start:stop:step with both ends."""
    try:
        if ":" in text:
            start, stop, step = (float(part) for part in text.split(":"))
            if not (step > 0 and stop >= start and (stop - start) / step < MOST_RATES):
                raise ValueError
            found = [start + step * index for index in range(round((stop - start) // step) + 1)]
        else:
            found = [float(part) for part in text.split(",")]
        if not all(math.isfinite(rate) and rate > 0 for rate in found) or len(found) > MOST_RATES:
            raise ValueError
    except ValueError:
        raise InputError(
            f'--rates: expected requests per second such as 1,2,4 or 2:20:2, got "{text[:60]}"'
        ) from None
    return found


def _data(found: LoadPrediction, load: ServedLoad) -> dict[str, Any]:
    return {
        "prompt": load.prompt,
        "output": load.output,
        "rates": [asdict(row) for row in found.rows],
        "refused": [{"rate": rate, "reason": reason} for rate, reason in found.refused],
    }


def _text(heading: list[tuple[str, str]], found: LoadPrediction, canvas: Canvas) -> Iterator[Line]:
    yield from facts(heading, canvas)
    yield ""
    cells: list[tuple[Part, ...]] = [
        (
            (f"{row.rate:g}", VALUE),
            f"{row.running:,.1f}",
            _three(row.first_token),
            _three(row.output_token),
            _three(row.end_to_end),
            f"{row.goodput:,.2f}",
        )
        for row in found.rows
    ]
    titles = ("rate", "running", "TTFT ms", "TPOT ms", "E2E ms", "goodput")
    yield from table(titles, cells, canvas, right=(0, 1, 2, 3, 4, 5))
    yield "latencies: 50th, 90th and 99th percentile; rates in requests/s"


def _three(latency: Latency) -> str:
    return " ".join(_milliseconds(value) for value in (latency.p50, latency.p90, latency.p99))


def _milliseconds(seconds: float) -> str:
    """Milliseconds with three digits, or whole ones.

    >>> _milliseconds(0.00617), _milliseconds(1.2345)
    ('6.17', '1,234')
    """
    value = 1e3 * seconds
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{decimals}f}"
