"""`assay load`: send a workload to a server, and say what it did."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from assay.cli import options
from assay.cli.load_text import find_text, window_text
from assay.cli.output import Report, report_of, working
from assay.errors import InputError, unknown_name
from assay.paths import write_atomically

# Not imported: help and completion must not load the client.
FORMATS: Final = ("vllm", "llm-d", "records")
INTERFACES: Final = ("auto", "completions", "chat")
KINDS: Final = ("max-rate", "max-concurrency")


def load_command(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The server, such as http://localhost:8000.")
    ],
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="NAME|FILE",
            help="chat, rag, edit, batch, decode, vllm-decode, or a file of recorded requests: JSON "
            "lines, Mooncake, BurstGPT, ShareGPT.",
        ),
    ] = "chat",
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="RATE",
            help="Open loop: requests per second, such as 4, 0.5/s or 120/min; inf is all at once.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            metavar="N",
            min=1,
            help="Requests under way at once; with --rate, at most so many.",
        ),
    ] = None,
    seconds: Annotated[
        str | None,
        typer.Option(
            "--seconds",
            metavar="TIME",
            help="Send for so long, then wait for what is under way, such as 30, 90s or 5m. "
            "30 without --requests; a recording is sent whole.",
        ),
    ] = None,
    requests: Annotated[
        int | None, typer.Option("--requests", metavar="N", min=1, help="Send so many requests.")
    ] = None,
    warmup: Annotated[
        int,
        typer.Option(
            "--warmup", metavar="N", min=0, help="Requests before the window that do not count."
        ),
    ] = 1,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo",
            metavar="LIMITS",
            help="Limits of a request, such as ttft=1s,tpot=50ms,e2el=20s.",
        ),
    ] = None,
    find: Annotated[
        str | None,
        typer.Option(
            "--find",
            metavar="|".join(KINDS),
            help="Search for the highest load that holds the SLO; --rate or --concurrency is the "
            "highest to try.",
        ),
    ] = None,
    attainment: Annotated[
        str,
        typer.Option(
            "--attainment",
            metavar="SHARE",
            help="With --find: the share of requests that must keep the SLO.",
        ),
    ] = "90%",
    burstiness: Annotated[
        float,
        typer.Option(
            "--burstiness",
            metavar="NUMBER",
            help="With --rate: 1 is a Poisson process, less is burstier, as in vllm bench serve.",
        ),
    ] = 1.0,
    bursts: Annotated[
        str | None,
        typer.Option(
            "--bursts",
            metavar="ON/OFF",
            help="With --rate: send for so long and rest for so long, such as 2s/8s; the rate is the "
            "mean over both.",
        ),
    ] = None,
    time_scale: Annotated[
        float | None,
        typer.Option(
            "--time-scale",
            metavar="NUMBER",
            help="Multiply the times of a recording: 0.5 replays in half the time.",
        ),
    ] = None,
    input_tokens: Annotated[
        str | None,
        typer.Option(
            "--input-tokens", metavar="LENGTHS", help="Prompt lengths of a built-in workload."
        ),
    ] = None,
    output_tokens: Annotated[
        str | None,
        typer.Option(
            "--output-tokens", metavar="LENGTHS", help="Answer lengths of a built-in workload."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Of lengths, texts and arrivals.")
    ] = 0,
    interface: Annotated[
        str,
        typer.Option(
            "--interface",
            metavar="|".join(INTERFACES),
            help="Which interface to ask; auto asks for completions, or for chats where the server "
            "has no other.",
        ),
    ] = "auto",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="NAME", help="The model to name; the first that the server lists."
        ),
    ] = None,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="TIME",
            help="Give a request up after so long; it counts as failed.",
        ),
    ] = "10m",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Also write the result to a file."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(FORMATS),
            help="Of --output: the result of vllm bench serve, the report of llm-d, or each "
            "request on a line.",
        ),
    ] = "vllm",
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    as_json: options.Json = False,
) -> Report:
    """Put a load on an OpenAI-compatible server.

    Prints TTFT, TPOT, ITL, E2EL, throughput and goodput.

    Names and formulas are those of vllm bench serve. Tokens are counted as the server counts them,
    never as chunks. A window is stable, backlogged or overloaded; latencies of an overloaded one
    depend on its length and are not given. The key of a server is read from ASSAY_API_KEY.
    """
    from assay.load.server_load import find_load, load_server

    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    if output is not None:
        _check_output(output, force)
    given: dict[str, Any] = {
        "rate": rate, "concurrency": concurrency, "requests": requests, "workload": workload,
        "slo": slo, "burstiness": burstiness, "bursts": bursts, "time_scale": time_scale,
        "input_tokens": input_tokens, "output_tokens": output_tokens, "seed": seed,
        "interface": interface, "model": model, "timeout": timeout,
    }  # fmt: skip
    if find is not None:
        for name, value in (("--seconds", seconds), ("--output", output)):
            if value is not None:
                raise InputError(f"{name}: expected none with --find, got it")
        with working(f"loading {url}") as progress:
            highest = find_load(url, find, attainment=attainment, progress=progress, **given)
        return report_of(
            highest,
            lambda canvas: find_text(highest.to_json(), canvas),
            as_json,
            details=highest.workload.notes,
        )
    with working(f"loading {url}") as progress:
        load = load_server(url, seconds=seconds, warmup=warmup, progress=progress, **given)
    if output is not None:
        write_atomically(Path(output), load.in_format(form).encode())
        load = replace(load, output=output)
    return report_of(
        load,
        lambda canvas: window_text(load.to_json(), canvas),
        as_json,
        details=load.workload.notes,
    )


def _check_output(output: str, force: bool) -> None:
    path = Path(output)
    if path.exists() and (not force or not path.is_file()):
        hint = "--force overwrites it" if path.is_file() else None
        raise InputError(f"{output}: exists already", hint)
    if not path.absolute().parent.is_dir():
        raise InputError(f"{output}: expected a file in a folder that exists")
