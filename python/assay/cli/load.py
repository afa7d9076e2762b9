"""`assay load`: send a workload to a server, and say what it did."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from assay.cli import options
from assay.cli.declaring import argument, option
from assay.cli.load_text import find_text, window_text
from assay.cli.output import Report, report_of, working
from assay.errors import InputError, unknown_name
from assay.paths import write_atomically

# Not imported: help and completion must not load the client.
FORMATS: Final = ("vllm", "llm-d", "records")
INTERFACES: Final = ("auto", "completions", "chat")
KINDS: Final = ("max-rate", "max-concurrency")


def load_command(
    url: Annotated[str, argument("URL", "The server, such as http://localhost:8000.")],
    workload: Annotated[
        str,
        option(
            "--workload NAME|FILE",
            "chat, rag, sessions, edit, batch, decode, vllm-decode, or a file of recorded requests: JSON "
            "lines, Mooncake, BurstGPT, ShareGPT.",
        ),
    ] = "chat",
    rate: Annotated[
        str | None,
        option(
            "--rate RATE",
            "Open loop: requests per second, such as 4, 0.5/s or 120/min; inf is all at once.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        option(
            "--concurrency N", "Requests under way at once; with --rate, at most so many.", min=1
        ),
    ] = None,
    seconds: Annotated[
        str | None,
        option(
            "--seconds TIME",
            "Send for so long, then wait for what is under way, such as 30, 90s or 5m. "
            "30 without --requests; a recording is sent whole.",
        ),
    ] = None,
    requests: Annotated[int | None, option("--requests N", "Send so many requests.", min=1)] = None,
    warmup: Annotated[
        int, option("--warmup N", "Requests before the window that do not count.", min=0)
    ] = 1,
    slo: Annotated[
        str | None,
        option("--slo LIMITS", "Limits of a request, such as ttft=1s,tpot=50ms,e2el=20s."),
    ] = None,
    find: Annotated[
        str | None,
        option(
            "--find",
            "Search for the highest load that holds the SLO; --rate or --concurrency is the "
            "highest to try.",
            metavar="|".join(KINDS),
        ),
    ] = None,
    attainment: Annotated[
        str,
        option("--attainment SHARE", "With --find: the share of requests that must keep the SLO."),
    ] = "90%",
    burstiness: Annotated[
        float,
        option(
            "--burstiness NUMBER",
            "With --rate: 1 is a Poisson process, less is burstier, as in vllm bench serve.",
        ),
    ] = 1.0,
    bursts: Annotated[
        str | None,
        option(
            "--bursts ON/OFF",
            "With --rate: send for so long and rest for so long, such as 2s/8s; the rate is the "
            "mean over both.",
        ),
    ] = None,
    time_scale: Annotated[
        float | None,
        option(
            "--time-scale NUMBER",
            "Multiply the times of a recording: 0.5 replays in half the time.",
        ),
    ] = None,
    input_tokens: Annotated[
        str | None, option("--input-tokens LENGTHS", "Prompt lengths of a built-in workload.")
    ] = None,
    output_tokens: Annotated[
        str | None, option("--output-tokens LENGTHS", "Answer lengths of a built-in workload.")
    ] = None,
    seed: Annotated[int, option("--seed N", "Of lengths, texts and arrivals.")] = 0,
    interface: Annotated[
        str,
        option(
            "--interface",
            "Which interface to ask; auto asks for completions, or for chats where the server "
            "has no other.",
            metavar="|".join(INTERFACES),
        ),
    ] = "auto",
    model: Annotated[
        str | None, option("--model NAME", "The model to name; the first that the server lists.")
    ] = None,
    timeout: Annotated[
        str, option("--timeout TIME", "Give a request up after so long; it counts as failed.")
    ] = "10m",
    output: Annotated[
        str | None, option("--output -o FILE", "Also write the result to a file.")
    ] = None,
    form: Annotated[
        str,
        option(
            "--format",
            "Of --output: the result of vllm bench serve, the report of llm-d, or each "
            "request on a line.",
            metavar="|".join(FORMATS),
        ),
    ] = "vllm",
    force: Annotated[bool, option("--force", "Overwrite the file.")] = False,
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
