"""`assay diagnose`: where the time of a step went, and why."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from assay.cli import options
from assay.cli.declaring import option
from assay.cli.diagnose_server import server_report
from assay.cli.diagnose_text import text
from assay.cli.output import Report, cut, cut_notes, working
from assay.errors import InputError


def diagnose_command(
    trace: options.OptionalTraceArgument = None,
    url: Annotated[
        str | None,
        option(
            "--url URL",
            "Diagnose a running OpenAI-compatible server instead of a trace: vLLM, SGLang, "
            "llama.cpp, assay serve. ASSAY_API_KEY is sent as its key.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "--model MODEL",
            "The model that ran: a config.json, its folder, a GGUF file, or a name of the "
            "catalog such as models/llama-3.1-8b. Without it nothing is predicted.",
        ),
    ] = None,
    gpu: options.TracedGpu = None,
    engine: Annotated[
        str | None,
        option(
            "--engine NAME",
            "Whose kernels to assume: vllm or assay. Without it, the one that the trace shows.",
        ),
    ] = None,
    batch: options.StepBatch = None,
    context: Annotated[
        int | None,
        option(
            "--context TOKENS",
            "Tokens in the KV cache of a sequence. Without it the steps' own; where the trace "
            "has none, the length at which attention takes as long as it did.",
        ),
    ] = None,
    tensor: Annotated[
        int | None, option("--tensor N", "Tensor-parallel ranks; the trace's if not given.")
    ] = None,
    dtype: Annotated[
        str | None, option("--dtype FORMAT", "Format of the weights; the model's if not given.")
    ] = None,
    kv_dtype: options.KvFormat = "bf16",
    telemetry: Annotated[
        str | None,
        option(
            "--telemetry RECORDING",
            "A recording of assay telemetry record that covers the trace: clocks, processes, "
            "CPU pressure, KV cache.",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        option(
            "--baseline TRACE",
            "A healthy trace of the same workload: say which operations became slower or "
            "faster. May be repeated.",
        ),
    ] = None,
    experiments: Annotated[
        str | None,
        option(
            "--experiments FILE",
            "What assay causal-profile --json found: causes that it tested are established by "
            "experiment.",
        ),
    ] = None,
    html: Annotated[
        str | None,
        option("--html FILE", "Write the diagnosis as one self-contained page, with pictures."),
    ] = None,
    duration_s: Annotated[
        float | None,
        option(
            "--duration SECONDS",
            "With --url: time for watching and probing the server; 30 if not given.",
        ),
    ] = None,
    most_at_once: Annotated[
        int | None, option("--concurrency N", "With --url: most probes at once; 8 if not given.")
    ] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> Report:
    """Say where the time of a step went, why, and what to try.

    The trace is compared with a prediction of its steps. Every nanosecond of the median decode step
    is in one term of a waterfall; causes are mechanisms with the microseconds per token that each
    explains, the rows of the trace behind it, and what would remove it. Without a model, or with an
    engine that cannot be predicted, gaps, kernels and the critical path remain.

    With --url a server is watched, then probed with a few dozen short completions, one by one and
    several at once. Its metrics show queueing, pre-emption, a full KV cache, prefill interference
    and prefix cache misses; what needs a trace is said.
    """
    if (trace is None) == (url is None):
        raise InputError(
            f"expected a trace or --url, got {'neither' if url is None else 'both'}",
            "assay diagnose TRACE, or assay diagnose --url http://localhost:8000",
        )
    if url is not None:
        _check_server_options(
            batch=batch,
            context=context,
            telemetry=telemetry,
            experiments=experiments,
            baseline=baseline,
            html=html,
        )
        return server_report(
            url, duration_s=duration_s, most_at_once=most_at_once, as_json=as_json, model=model,
            gpu=gpu, engine=engine, dtype=dtype, kv_dtype=kv_dtype, tensor=tensor,
        )  # fmt: skip
    assert trace is not None
    if duration_s is not None or most_at_once is not None:
        raise InputError("--duration, --concurrency: expected them with --url, got a trace")
    from assay.diagnose.examination import diagnose_trace
    from assay.diagnose.page.page import write_page

    with working(f"reading {trace}") as progress:
        diagnosis = diagnose_trace(
            trace, model=model, gpu=gpu, engine=engine, batch=batch, context=context,
            tensor=tensor, dtype=dtype, kv_dtype=kv_dtype, telemetry=telemetry,
            baselines=baseline or (), experiments=experiments, progress=progress,
        )  # fmt: skip
        data = diagnosis.to_json()
        if html is not None:
            progress(f"writing {html}")
            write_page(data, Path(html), shlex.join(["assay", *sys.argv[1:]]))
            data["html"] = html
    # In JSON they are violations.
    unmeasured = [
        f"{violation.invariant} of {violation.where} not measured: {violation.reason}"
        for violation in diagnosis.violations
        if violation.verdict == "not measured"
    ]
    shown = options.MAX_LISTED if limit is None else limit
    hidden = cut(shown, operations=data["operations"], kernels=data["kernels"])
    return Report(
        data,
        lambda canvas: text(data, canvas, shown or len(data["operations"]) + len(data["kernels"])),
        as_json,
        notes=(*diagnosis.notes, *(() if as_json else (*unmeasured, *cut_notes(hidden)))),
        details=diagnosis.assumptions,
    )


def _check_server_options(**given: object) -> None:
    """Options of a trace's diagnosis have no meaning for a server, which is asked itself."""
    for name, value in given.items():
        if value is not None:
            raise InputError(f"--{name}: expected it with a trace, got it with --url")
