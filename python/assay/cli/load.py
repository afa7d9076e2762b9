"""`assay load`: send a workload to a server, and say what it did."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from assay.cli import options
from assay.cli.load_text import find_text, window_text
from assay.cli.output import Report, working
from assay.errors import AssayError, InputError, unknown_name

if TYPE_CHECKING:
    from assay.load.client import LoadClient
    from assay.load.workloads.measurement import Measurement
    from assay.load.workloads.workload import ServiceLevel, Window, Workload

FORMATS: Final = ("vllm", "llm-d", "records")
INTERFACES: Final = ("auto", "completions", "chat")
KINDS: Final = ("max-rate", "max-concurrency")

DEFAULT_SECONDS: Final = 30.0
_MANY: Final = 1000
"""Requests that are prepared for a window of seconds: so many different prompts."""


class NoDataError(AssayError):
    """Nothing was measured."""

    exit_code = 3


class NotHeldError(AssayError):
    """No load holds the SLO."""

    exit_code = 1


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
            f"{DEFAULT_SECONDS:g} without --requests; a recording is sent whole.",
        ),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option("--requests", metavar="N", min=1, help="Send so many requests."),
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
    from assay.load.client import ClientOptions, LoadClient
    from assay.load.find import SearchOptions
    from assay.load.workloads import spec

    _check_choices(find, form, interface, output, force)
    limits = None if slo is None else spec.parse_slo("--slo", slo)
    most_rate = None if rate is None else spec.parse_rate("--rate", rate)
    length_s = None if seconds is None else spec.parse_duration("--seconds", seconds)
    given = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "seed": seed,
        "time_scale": time_scale,
        "bursts": None if bursts is None else spec.parse_bursts("--bursts", bursts),
    }
    client_options = ClientOptions(
        interface,  # type: ignore[arg-type]
        model,
        spec.parse_duration("--timeout", timeout),
    )
    with LoadClient(url, client_options) as client:
        if find is not None:
            if length_s is not None or output is not None:
                named = "--seconds" if length_s is not None else "--output"
                raise InputError(f"{named}: expected none with --find, got it")
            planned = _planned(workload, None, None, limits, _MANY, burstiness, given)
            most = most_rate if find == "max-rate" else concurrency
            search = SearchOptions(
                spec.parse_share("--attainment", attainment),
                requests=requests,
                most=None if most is None else float(most),
            )
            return _found(client, find, planned, limits, search, as_json)
        prepared = requests if requests is not None else _prepared(workload, most_rate, length_s)
        if rate is not None and most_rate is None:
            # All at once is a closed loop without an end to its width.
            prepared, concurrency = requests or 100, concurrency or requests or 100
        planned = _planned(workload, most_rate, concurrency, limits, prepared, burstiness, given)
        window = _window(planned, length_s, requests, warmup)
        return _measured(client, planned, window, (output, form), burstiness, as_json)


def _check_choices(
    find: str | None, form: str, interface: str, output: str | None, force: bool
) -> None:
    if find is not None and find not in KINDS:
        raise unknown_name("search of --find", find, KINDS)
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    if interface not in INTERFACES:
        raise unknown_name("interface", interface, INTERFACES)
    if output is not None:
        path = Path(output)
        if path.exists() and (not force or not path.is_file()):
            hint = "--force overwrites it" if path.is_file() else None
            raise InputError(f"{output}: exists already", hint)
        if not path.absolute().parent.is_dir():
            raise InputError(f"{output}: expected a file in a folder that exists")


def _prepared(workload: str, rate: float | None, seconds: float | None) -> int | None:
    """How many different requests a window of seconds may need; None is the workload's own number."""
    from assay.load.workloads.builtin import BUILT_IN

    if workload not in BUILT_IN or BUILT_IN[workload].concurrency is None:
        return None
    if rate is None:
        return _MANY
    return max(10, int(1.2 * rate * (seconds or DEFAULT_SECONDS)) + 1)


def _planned(
    workload: str,
    rate: float | None,
    concurrency: int | None,
    limits: "ServiceLevel | None",
    requests: int | None,
    burstiness: float,
    given: dict[str, Any],
) -> "Workload":
    from assay.load.workloads.spec import parse_workload

    return parse_workload(
        workload,
        requests=requests,
        rate=rate,
        concurrency=concurrency,
        slo=limits,
        burstiness=burstiness,
        **given,
    )


def _window(
    planned: "Workload", seconds: float | None, requests: int | None, warmup: int
) -> "Window":
    from assay.load.workloads.workload import Window

    if seconds is None and requests is None:
        is_whole = planned.arrival == "replay" or planned.concurrency == len(planned.requests)
        if is_whole:
            requests = len(planned.requests)
        else:
            seconds = DEFAULT_SECONDS
    return Window(seconds, requests, warmup)


def _measured(
    client: "LoadClient",
    planned: "Workload",
    window: "Window",
    output: tuple[str | None, str],
    burstiness: float,
    as_json: bool,
) -> Report:
    from assay.load import formats

    with working(f"loading {client.address.url}") as say:
        found = client.run_window(
            planned,
            window,
            progress=lambda now: say(
                f"{now.seconds:.0f} s: {now.sent} sent, {now.done} ended, {now.failed} failed"
            ),
        )
    path, form = output
    if path is not None:
        from assay.paths import write_atomically

        text = (
            formats.to_vllm(found, planned, burstiness)
            if form == "vllm"
            else formats.FORMATS[form](found, planned)
        )
        write_atomically(Path(path), text.encode())
    data = _data(client, planned, found, path)
    return Report(
        data,
        lambda canvas: window_text(data, canvas),
        as_json,
        problem=_problem(data),
        notes=[*found.details["notes"], *found.disturbances],
        details=planned.notes,
    )


def _data(
    client: "LoadClient", planned: "Workload", found: "Measurement", path: str | None
) -> dict[str, Any]:
    from assay.load.intervals import intervals
    from assay.load.metrics import limits_ms

    sure = intervals(found.records, found.seconds)
    errors = Counter(one.error for one in found.records if one.error is not None)
    return {
        "url": client.address.url,
        "model": found.details["model"],
        "interface": found.details["interface"],
        "workload": planned.name,
        "description": planned.description,
        "arrival": planned.arrival,
        "rate": planned.rate,
        "concurrency": planned.concurrency,
        "slo": limits_ms(planned.slo),
        "seconds": found.seconds,
        "load_state": found.load_state,
        "queue": found.details["queue"],
        "figures": dict(found.figures),
        "intervals": {
            name: {"lo": one.lo, "hi": one.hi}
            for name, one in sure.items()
            if name in found.figures
        },
        "unscored": found.details.get("unscored", {}),
        "client_cpu_share": found.client_cpu_share,
        "p99_lateness_ms": found.details.get("p99_lateness_ms"),
        "disturbances": list(found.disturbances),
        "errors": dict(errors.most_common()),
        "output": path,
    }


def _problem(data: dict[str, Any]) -> AssayError | None:
    if data["figures"]["completed"]:
        return None
    worst = next(iter(data["errors"]), "nothing was sent")
    return NoDataError(f"{data['url']}: expected answers, got none: {worst}")


def _found(
    client: "LoadClient",
    kind: str,
    planned: "Workload",
    limits: "ServiceLevel | None",
    search: Any,
    as_json: bool,
) -> Report:
    from assay.load.find import find
    from assay.load.metrics import limits_ms
    from assay.load.workloads.workload import ServiceLevel

    slo = limits or ServiceLevel()
    with working(f"loading {client.address.url}") as say:
        found = find(
            kind,  # type: ignore[arg-type]
            replace(planned, slo=slo),
            slo,
            client.run_window,
            search,
            say,
        )
    data = {
        "url": client.address.url,
        "model": client.model().name,
        "workload": planned.name,
        "find": kind,
        "slo": limits_ms(slo),
        "least_share": search.least_share,
        "best": None if found.best is None else found.best.to_data(),
        "above": None if found.above is None else found.above.to_data(),
        "nearest": None if found.nearest is None else found.nearest.to_data(),
        "points": [point.to_data() for point in found.points],
    }
    problem = None
    if found.best is None:
        assert found.nearest is not None
        binds = found.nearest.attainment.binds
        problem = NotHeldError(
            f"no {kind.removeprefix('max-')} holds the SLO: {binds} binds, "
            f"{found.nearest.attainment.share.value:.1%} of requests keep it at the nearest point, "
            f"{found.nearest.load:.4g} {found.nearest.unit}"
        )
    return Report(
        data,
        lambda canvas: find_text(data, canvas),
        as_json,
        problem=problem,
        notes=[*client.notes, *found.notes],
        details=planned.notes,
    )
