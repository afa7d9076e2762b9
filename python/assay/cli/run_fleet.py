"""`assay run --replicas`: the promotion of a change over a fleet, as text."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.cli import styles
from assay.cli.output import Canvas, Line, Report, facts, report_of
from assay.cli.run_progress import run_progress
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.runs.fleet import FleetOutcome

_STYLES: Final = {"promoted": styles.GOOD, "undecided": styles.WARN, "refused": styles.WARN}


class FleetRequest(NamedTuple):
    """The options of `assay run` that a promotion reads."""

    replicas: str
    restart: str | None
    promote: str | None
    change: Sequence[str] | None
    adapter: str | None
    node_python: str | None
    max_out: int | None
    workload: str | Path | None
    slo: str | None
    metric: str | None
    concurrency: int | None
    rate: float | None
    input_tokens: int | None
    output_tokens: int | None
    budget_s: float
    seed: int
    watch: bool
    watch_s: float | None


def refuse_fleet_options(
    promote: str | None, change: Sequence[str] | None, max_out: int | None, node_python: str | None
) -> None:
    """Options of a fleet mean nothing for one engine."""
    for name, given in (
        ("--promote", promote),
        ("--change", change),
        ("--max-out", max_out),
        ("--node-python", node_python),
    ):
        if given:
            raise InputError(
                f"{name}: expected it with --replicas URL,URL,..., got it without",
                "--knob NAME=VALUE sets what one engine starts from",
            )


def refuse_engine_options(given: Mapping[str, object]) -> None:
    """Options of a run of one engine mean nothing for a fleet."""
    for name, value in given.items():
        if value:
            raise InputError(
                f"{name}: expected it without --replicas, got both",
                "tune one replica with --engine URL, then promote its run with --promote",
            )


def promoted(asked: FleetRequest, as_json: bool) -> Report:
    """Run the promotion and report it."""
    from assay.runs.fleet import FleetOptions, promote_fleet
    from assay.runs.subject import workload_for
    from assay.runs.subject_options import SubjectOptions
    from assay.runtime.cuda import probe

    if asked.max_out is not None and asked.max_out < 1:
        raise InputError(f"--max-out: expected 1 or more, got {asked.max_out}")
    urls = [url.strip().rstrip("/") for url in asked.replicas.split(",") if url.strip()]
    subject = SubjectOptions(
        engine=asked.replicas,
        workload=asked.workload,
        slo=asked.slo,
        metric=asked.metric,
        concurrency=asked.concurrency,
        rate=asked.rate,
        input_tokens=asked.input_tokens,
        output_tokens=asked.output_tokens,
        seed=asked.seed,
        budget_s=asked.budget_s,
    )
    options = FleetOptions(
        urls=urls,
        restart=asked.restart,
        promote=asked.promote,
        changes=tuple(asked.change or ()),
        adapter=asked.adapter,
        node_python=asked.node_python,
        max_out=asked.max_out,
        budget_s=asked.budget_s,
        seed=asked.seed,
        watch=asked.watch,
        watch_s=asked.watch_s,
    )
    with run_progress(asked.budget_s) as progress:
        gpu = asked.node_python is not None or bool(probe().gpus)
        workload = workload_for(subject, progress, gpu=gpu)
        command = shlex.join(["assay", *sys.argv[1:]])
        outcome = promote_fleet(options, workload, progress, command)
    return report_of(outcome, lambda canvas: text(outcome, canvas), as_json)


def text(outcome: "FleetOutcome", canvas: Canvas) -> Iterator[Line]:
    """The verdict, why, the replicas and how to undo it."""
    yield ((outcome.verdict, _STYLES.get(outcome.verdict, styles.BAD)), f": {outcome.reason}")
    yield ""
    yield from facts([(name, end.state) for name, end in outcome.replicas.items()], canvas)
    yield ""
    is_kept = outcome.verdict == "promoted"
    yield from facts(
        [
            ("report", str(outcome.report or "")),
            ("check it", f"assay verify-report {outcome.run.name}"),
            ("undo it", f"assay rollback {outcome.run.name}" if is_kept else ""),
        ],
        canvas,
    )
