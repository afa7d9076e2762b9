"""`assay run`: measure, predict, try what should help, keep what is proven, report."""

import shlex
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from assay.cli import options, sampling
from assay.cli.output import Report
from assay.cli.run_progress import run_progress
from assay.cli.run_subject import Asked, opened
from assay.cli.run_text import text
from assay.errors import AssayError, InputError, unknown_name

if TYPE_CHECKING:
    from assay.improve.levers.lever import Safety
    from assay.improve.loop.outcome import Outcome

CALIBRATION_S: Final = 8.0
"""Seconds for the ceilings of one model, where the machine was not calibrated before."""
EmptyList = list[str] | None


def run_command(
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help="What to tune: assay (in this process), vllm, or the URL of an OpenAI-compatible "
            "server. assay if not given.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="A GGUF file, a Hugging Face folder or a name. SmolLM2-135M if not given.",
        ),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME|FILE",
            help="chat, rag, edit, batch, decode, vllm-decode, or a file of recorded requests. "
            "chat if not given.",
        ),
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option("--load", metavar="FILE", help="The same as --workload FILE."),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time for the run: 90s, 20m, 24h.")
    ] = "3m",
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="GAIN",
            help="Stop searching once this gain is proven, such as 15%. Met or not, the exit code is 0.",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        typer.Option(
            "--slo",
            metavar="LIMITS",
            help="Service-level objectives that a change must keep: ttft=1s,tpot=50ms,e2el=10s.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="The figure to improve, as vllm bench serve names it: output_throughput, "
            "mean_tpot_ms, p99_ttft_ms. The workload's own if not given.",
        ),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", metavar="N", help="Requests under way at once."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="PER_SECOND", help="Requests a second: an open loop."),
    ] = None,
    input_tokens: Annotated[
        int | None,
        typer.Option("--input-tokens", metavar="TOKENS", help="Tokens of a prompt."),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option("--output-tokens", metavar="TOKENS", help="Tokens of an answer."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="Settings to start from: plain (one thread, no graphs, batch 1) or defaults (the "
            "engine's own). plain where neither engine nor model is given, else defaults.",
        ),
    ] = None,
    restart: Annotated[
        str | None,
        typer.Option(
            "--restart",
            metavar="COMMAND",
            help="How to start the server of --engine URL; {settings} stands for its flags.",
        ),
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option(
            "--adapter",
            metavar="NAME|FILE",
            help="Which flags the server has: llama.cpp, assay, vllm, or a YAML file.",
        ),
    ] = None,
    only: Annotated[
        EmptyList,
        typer.Option("--only", metavar="LEVER", help="Try this lever only. May be repeated."),
    ] = None,
    skip: Annotated[
        EmptyList,
        typer.Option("--skip", metavar="LEVER", help="Do not try this lever. May be repeated."),
    ] = None,
    levers: Annotated[
        list[Path] | None,
        typer.Option("--levers", metavar="FILE", help="Levers of your own. May be repeated."),
    ] = None,
    top_n: Annotated[
        int | None,
        typer.Option("--top-n", metavar="N", help="Try the N best ranked candidates at most."),
    ] = None,
    max_risk: Annotated[
        str,
        typer.Option(
            "--max-risk",
            metavar="RISK",
            help="The riskiest lever to try: safe, may slow, may fail.",
        ),
    ] = "may fail",
    allow_lossy: Annotated[
        bool,
        typer.Option(
            "--allow-lossy", help="Try levers that change outputs: formats of weights and KV cache."
        ),
    ] = False,
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Do not rank by what past runs found.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Experiment although the engine is near its floor.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Measure, diagnose and rank; change no setting."),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Go on with a run: its folder, its id, or latest. Engine, workload and options are "
            "those of the run; the budget is for what comes now.",
        ),
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            "--price",
            metavar="USD/H",
            help="What an hour of the machine costs, for cost per token.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Random seed.")] = 0,
    device: sampling.Device = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> Report:
    """Make a model serve faster, with proof and a way back.

    Measures the engine under a workload, predicts what it should take, itemizes the difference,
    and tries what should help in paired experiments. What is proven is kept, everything else is
    undone; the report says why, and assay verify-report re-derives its every figure. Without
    options: SmolLM2-135M on this machine's CPU, from a plain configuration.

    Ctrl-C ends the run with a report of what is known. Exit codes: 0 improved or nothing to gain,
    2 bad input, 3 no data, 4 the engine was lost, 5 rolled back.
    """
    from assay.improve.journal import run_folder
    from assay.improve.loop.budget import LEAST_S, Budget
    from assay.improve.loop.controller import run_loop
    from assay.improve.loop.options import RunOptions
    from assay.improve.loop.phases.candidates import check_levers
    from assay.improve.loop.resuming import options_of, subject_of, workload_of
    from assay.load.workloads.spec import parse_duration, parse_share
    from assay.report.price import read_price

    folder = None if resume is None else run_folder.find(resume)
    seconds = parse_duration("--budget", budget)
    Budget(seconds, least_s=LEAST_S)
    if workload is not None and load is not None:
        raise InputError("expected --workload or --load, got both")
    if folder is not None:
        chosen = options_of(folder, seconds)
        asked = Asked(**{**subject_of(folder), "budget_s": seconds})
    else:
        chosen = RunOptions(
            budget_s=seconds,
            target=None if target is None else parse_share("--target", target),
            top_n=top_n,
            only=tuple(only or ()),
            skip=tuple(skip or ()),
            max_risk=_risk(max_risk),
            use_history=not no_history,
            allow_lossy=allow_lossy,
            dry_run=dry_run,
            seed=seed,
            lever_files=tuple(levers or ()),
            force=force,
        )
        asked = Asked(
            engine or "assay", model, workload or (str(load) if load else None), slo, metric,
            concurrency, rate, input_tokens, output_tokens, start, restart, adapter, device, knob,
            seed, seconds,
        )  # fmt: skip
        check_levers(None, chosen)
    priced = None if price is None else read_price(price)
    planned = None if folder is None else workload_of(folder)
    with run_progress(seconds) as progress, opened(asked, progress, planned) as subject:
        outcome = run_loop(
            subject.engine,
            subject.workload,
            chosen,
            model=subject.model,
            progress=progress,
            calibrate=_calibrate,
            price=priced,
            command=shlex.join(["assay", *sys.argv[1:]]),
            subject=asked._asdict(),
            resume=folder,
        )
    return Report(
        outcome.to_json(),
        lambda canvas: text(outcome, canvas),
        as_json,
        problem=_problem(outcome),
    )


def _problem(outcome: "Outcome") -> AssayError | None:
    """What sets an exit code other than 0."""
    from assay.improve.engines.protocol import EngineLostError
    from assay.improve.journal.journaled_engine import RollbackError

    reason = outcome.notes[0] if outcome.notes else outcome.verdict
    if outcome.verdict == "engine lost":
        return EngineLostError(reason, f"assay runs show {outcome.run.name}")
    if outcome.verdict == "rolled back":
        return RollbackError(reason, f"assay runs show {outcome.run.name}")
    return None


def _risk(text: str) -> "Safety":
    from assay.improve.levers.lever import SAFETY

    for one in SAFETY:
        if text.replace("-", " ") == one:
            return one
    raise unknown_name("risk", text, SAFETY)


def _calibrate(
    device: str, formats: "Collection[str]", path: Path, say: "Callable[[str], None]"
) -> None:
    """Measure what predicting one model needs, in seconds; `assay calibrate` measures all."""
    from assay.bench.calibration import calibrate
    from assay.planner.calibrate import save
    from assay.runtime.hardware import Device

    say(f"calibrating {device} for this run")
    save(calibrate(Device(device), say, formats=formats, budget_s=CALIBRATION_S), path)
