"""`assay run`: measure, predict, try what should help, keep what is proven, report."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from assay.cli import options, sampling, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Report, facts, wrapped
from assay.cli.run_fleet import FleetRequest, promoted, refuse_engine_options, refuse_fleet_options
from assay.cli.run_progress import run_progress
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.improve.experiments.result import ExperimentResult
    from assay.improve.loop.outcome import Outcome
    from assay.intervals import Interval


_STYLES: Final = {
    "improved": styles.GOOD,
    "nothing to gain": styles.NAME,
    "undecided": styles.WARN,
    "diagnosed only": styles.NAME,
    "rolled back": styles.BAD,
    "engine lost": styles.BAD,
}
MOST_NAMED: Final = 6
"""Trials of a kind that are printed; the report has all."""


def text(outcome: "Outcome", canvas: Canvas, said: Sequence[str] = ()) -> Iterator[Line]:
    """The verdict, the figures before and after, what was kept and what was not.

    Notes that were `said` on stderr are not repeated.
    """
    head = f"{outcome.metric}"
    if outcome.ratio is not None:
        head = f"{times(outcome.ratio)} {outcome.metric}"
    yield ((outcome.verdict, _STYLES[outcome.verdict]), f": {head}")
    for note in outcome.notes:
        if note in said:
            continue
        yield from wrapped(note, canvas, "  ", styles.FAINT)
    yield ""
    yield from facts(_figures(outcome), canvas)
    yield from _trials("kept", outcome.kept, canvas)
    yield from _trials("undecided", outcome.undecided, canvas)
    yield from _trials("unproven", outcome.unconfirmed, canvas)
    yield from _trials("rejected", outcome.rejected, canvas)
    yield ""
    yield from facts(
        [
            ("start with" if outcome.kept else "the start", outcome.launch_command),
            ("report", str(outcome.report or "")),
            ("check it", f"assay verify-report {outcome.run.name}"),
            ("undo it", f"assay rollback {outcome.run.name}" if outcome.kept else ""),
        ],
        canvas,
    )


def _figures(outcome: "Outcome") -> Iterator[tuple[str, str]]:
    unit = unit_of(outcome.metric)
    for name, figure in (("before", outcome.baseline), ("after", outcome.final)):
        if figure is not None:
            yield (
                name,
                f"{figure.value:,.4g} {unit} ({figure.lo:,.4g} to {figure.hi:,.4g}){_own(outcome, figure)}",
            )
    if outcome.data_set is not None:
        yield "a request", outcome.data_set.request
    if outcome.target is not None:
        met = {True: "met", False: "not met", None: "not judged"}[outcome.target_met]
        yield "target", f"{outcome.target:.0%}: {met}"


def _own(outcome: "Outcome", figure: "Interval") -> str:
    """The same in the unit of a workload on arrays: ns/event beside data sets a second."""
    shape = outcome.data_set
    if shape is None or outcome.metric != "request_throughput" or not figure.value > 0:
        return ""
    return f", {shape.figure(figure.value):,.4g} {shape.unit}"


def _trials(title: str, results: Sequence["ExperimentResult"], canvas: Canvas) -> Iterator[Line]:
    for number, result in enumerate(results[:MOST_NAMED]):
        label = title if not number else ""
        shown = (
            times(result.ratio) if result.ratio and result.verdict == "improved" else result.reason
        )
        if title == "unproven":
            shown += " by itself; the whole was not confirmed"
        yield from facts([(label.ljust(9), f"{result.candidate.name}: {shown}")], canvas)
    if len(results) > MOST_NAMED:
        yield " " * 11 + f"and {len(results) - MOST_NAMED} more in the report"


def times(ratio: "Interval") -> str:
    """A ratio with its interval.

    >>> from assay.intervals import Interval
    >>> times(Interval(1.5, 1.4, 1.6))
    '1.50x (1.40 to 1.60)'
    """
    from assay.improve.experiments.verdict import MOST_SHOWN, between

    if ratio.hi < MOST_SHOWN and ratio.lo > 1.0 / MOST_SHOWN:
        return f"{ratio.value:.2f}x ({ratio.lo:.2f} to {ratio.hi:.2f})"
    return f"{ratio.value:.2f}x ({between(ratio)})"


def unit_of(metric: str) -> str:
    """The unit of a figure of a window, from its name."""
    if metric.endswith("_ms"):
        return "ms"
    if metric.startswith("request_") or metric == "slo_rate":
        return "requests/s"
    return "tokens/s" if "throughput" in metric else ""


EmptyList = list[str] | None


def run_command(
    engine: Annotated[
        str | None,
        option(
            "--engine ENGINE",
            "What to tune: assay (in this process), vllm, or the URL of an OpenAI-compatible "
            "server. assay if not given.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "--model MODEL",
            "A GGUF file, a Hugging Face folder or a name. SmolLM2-135M if not given.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        option(
            "--workload NAME|FILE",
            "chat, rag, sessions, edit, batch, decode, vllm-decode, or a file of recorded requests; "
            "transcribe or speak for models of speech; a workload on arrays, such as order-book. chat if "
            "not given.",
        ),
    ] = None,
    load: Annotated[Path | None, option("--load FILE", "The same as --workload FILE.")] = None,
    budget: Annotated[
        str, option("--budget TIME", "Time for the run, 60s at least: 90s, 20m, 24h.")
    ] = "3m",
    target: Annotated[
        str | None,
        option(
            "--target GAIN",
            "Stop searching once this gain is proven, such as 15%. Met or not, the exit code is 0.",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        option(
            "--slo LIMITS",
            "Service-level objectives that a change must keep: ttft=1s,tpot=50ms,e2el=10s.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        option(
            "--metric NAME",
            "The figure to improve, as vllm bench serve names it: output_throughput, "
            "mean_tpot_ms, p99_ttft_ms. The workload's own if not given.",
        ),
    ] = None,
    maximize: Annotated[
        str | None,
        option(
            "--maximize rate",
            "In place of a metric: the highest rate of requests that keeps --slo. Blocks raise the "
            "rate within themselves.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None, option("--concurrency N", "Requests under way at once.")
    ] = None,
    rate: Annotated[
        float | None, option("--rate PER_SECOND", "Requests a second: an open loop.")
    ] = None,
    input_tokens: Annotated[
        int | None, option("--input-tokens TOKENS", "Tokens of a prompt.")
    ] = None,
    output_tokens: Annotated[
        int | None, option("--output-tokens TOKENS", "Tokens of an answer.")
    ] = None,
    start: Annotated[
        str | None,
        option(
            "--from START",
            "Settings to start from: plain (one thread, no graphs, batch 1) or defaults (the "
            "engine's own). plain where neither engine nor model is given, else defaults.",
        ),
    ] = None,
    restart: Annotated[
        str | None,
        option(
            "--restart COMMAND",
            "How to start the server of --engine URL; {settings} stands for its flags.",
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        option(
            "--adapter NAME|FILE",
            "Which flags the server has: llama.cpp, assay, vllm, or a YAML file.",
        ),
    ] = None,
    replicas: Annotated[
        str | None,
        option(
            "--replicas URL,URL,...",
            "Promote a change over these replicas in stages: a drawn group gets it, another is started "
            "anew without it. With --restart, and --promote or --change.",
        ),
    ] = None,
    promote: Annotated[
        str | None,
        option("--promote RUN", "Promote the settings that this run of one engine kept."),
    ] = None,
    change: Annotated[
        EmptyList,
        option("--change NAME=VALUE", "Promote this change of the replicas. May be repeated."),
    ] = None,
    max_out: Annotated[
        int | None,
        option(
            "--max-out N",
            "Replicas that may be out at once: a quarter of them if not given, fewer where the SLO "
            "does not bear it.",
        ),
    ] = None,
    node_python: Annotated[
        str | None,
        option(
            "--node-python COMMAND",
            "A Python with Assay on the node of a replica, such as 'ssh {host} python3'. This one if "
            "not given.",
        ),
    ] = None,
    only: Annotated[
        EmptyList, option("--only LEVER", "Try this lever only. May be repeated.")
    ] = None,
    skip: Annotated[
        EmptyList, option("--skip LEVER", "Do not try this lever. May be repeated.")
    ] = None,
    levers: Annotated[
        list[Path] | None, option("--levers FILE", "Levers of your own. May be repeated.")
    ] = None,
    top_n: Annotated[
        int | None, option("--top-n N", "Try the N best ranked candidates at most.")
    ] = None,
    max_risk: Annotated[
        str, option("--max-risk RISK", "The riskiest lever to try: safe, may slow, may fail.")
    ] = "may fail",
    allow_lossy: Annotated[
        bool,
        option("--allow-lossy", "Try levers that change outputs: formats of weights and KV cache."),
    ] = False,
    production: Annotated[
        bool,
        option(
            "--production",
            "Keep only what is shown to change fewer than 1 answer in 200 wrongly, with 99.9 %; "
            "needs 1,400 compared answers.",
        ),
    ] = False,
    max_changed: Annotated[
        str | None,
        option(
            "--max-changed SHARE",
            "Share of wrongly changed answers that must be excluded: 1/50 if not given, 1/200 with "
            "--production.",
        ),
    ] = None,
    no_history: Annotated[
        bool, option("--no-history", "Do not rank by what past runs found.")
    ] = False,
    force: Annotated[
        bool, option("--force", "Experiment although the engine is near its floor.")
    ] = False,
    watch: Annotated[
        bool,
        option(
            "--watch",
            "Keep measuring after promotion, on top of the budget, and go back on a regression. "
            "Ctrl-C ends it.",
        ),
    ] = False,
    watch_for: Annotated[
        str | None, option("--watch-for TIME", "Watch for so long: 90s, 20m, 24h.")
    ] = None,
    dry_run: Annotated[
        bool, option("--dry-run", "Measure, diagnose and rank; change no setting.")
    ] = False,
    resume: Annotated[
        str | None,
        option(
            "--resume RUN",
            "Go on with a run: its folder, its id, or latest. Engine, workload and options are "
            "those of the run; the budget is for what comes now.",
        ),
    ] = None,
    price: Annotated[
        str | None,
        option("--price USD/H", "What an hour of the machine costs, for cost per token."),
    ] = None,
    sign: Annotated[
        Path | None,
        option(
            "--sign KEY",
            "Sign the report with this Ed25519 private key (PEM; assay store key makes one).",
        ),
    ] = None,
    seed: Annotated[int, option("--seed NUMBER", "Random seed.")] = 0,
    device: sampling.Device = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> Report:
    """Make a model serve faster, with proof and a way back.

    Measures the engine under a workload, predicts what it should take, itemizes the difference,
    and tries what should help in paired experiments. What is proven is kept, everything else is
    undone; the report says why, and assay verify-report re-derives its every figure. Without
    options: SmolLM2-135M on this machine's CPU, from a plain configuration. With --replicas, a
    change is promoted over a fleet in stages, or every replica is left as it was.

    Ctrl-C ends the run with a report of what is known. Exit codes: 0 improved, nothing to gain,
    undecided or diagnosed only, 2 bad input, 3 no data, 4 the engine was lost, 5 rolled back.
    """
    from assay.load.workloads.spec import parse_duration, parse_fraction
    from assay.runs.optimize import optimize

    if workload is not None and load is not None:
        raise InputError("expected --workload or --load, got both")
    seconds = parse_duration("--budget", budget)
    watched_s = None if watch_for is None else parse_duration("--watch-for", watch_for)
    is_watched = watch or watched_s is not None
    if replicas is None:
        refuse_fleet_options(promote, change, max_out, node_python)
    else:
        refuse_engine_options(
            {"--engine": engine, "--model": model, "--target": target, "--from": start}
            | {"--only": only, "--skip": skip, "--levers": levers, "--top-n": top_n}
            | {"--allow-lossy": allow_lossy, "--production": production, "--force": force}
            | {"--max-changed": max_changed, "--no-history": no_history, "--dry-run": dry_run}
            | {"--resume": resume, "--price": price, "--device": device, "--knob": knob}
            | {"--sign": sign}
        )
        asked = FleetRequest(
            *(replicas, restart, promote, change, adapter, node_python, max_out),
            *(workload or load, slo, metric, concurrency, rate, input_tokens, output_tokens),
            *(seconds, seed, is_watched, watched_s),
        )
        return promoted(asked, as_json)
    with run_progress(seconds) as progress:
        outcome = optimize(
            engine,
            seconds,
            target,
            model=model,
            workload=workload or load,
            slo=slo,
            metric=metric,
            maximize=maximize,
            concurrency=concurrency,
            rate=rate,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            start=start,
            restart=restart,
            adapter=adapter,
            device=device,
            knobs=knob,
            seed=seed,
            only=tuple(only or ()),
            skip=tuple(skip or ()),
            lever_files=tuple(levers or ()),
            top_n=top_n,
            max_risk=max_risk.replace("-", " "),
            allow_lossy=allow_lossy,
            production=production,
            max_changed=None
            if max_changed is None
            else parse_fraction("--max-changed", max_changed),
            use_history=not no_history,
            force=force,
            dry_run=dry_run,
            watch=is_watched,
            watch_s=watched_s,
            resume=resume,
            price=price,
            sign=sign,
            progress=progress,
            command=shlex.join(["assay", *sys.argv[1:]]),
        )
    return Report(
        outcome.to_json,
        lambda canvas: text(outcome, canvas, progress.noted),
        as_json,
        problem=outcome.problem,
    )
