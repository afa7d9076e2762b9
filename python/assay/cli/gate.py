"""`assay gate`: whether a commit, an image or a command serves slower than another."""

import shlex
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, facts, report_of, table, wrapped
from assay.cli.run_progress import run_progress
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.gating.gate import GateAnswer

STYLES = {
    "improved": styles.GOOD,
    "regressed": styles.BAD,
    "invalid": styles.BAD,
    "undecided": styles.WARN,
}


def gate_command(
    base: Annotated[
        str | None,
        argument("[BASE]", "A commit, an image (--container), or a command with {port} in it."),
    ] = None,
    head: Annotated[
        str | None, argument("[HEAD]", "What is compared with it, of the same kind.")
    ] = None,
    workload: Annotated[
        str,
        option(
            "--workload NAME|FILE",
            "chat, rag, sessions, edit, batch, decode, vllm-decode, or a file of recorded requests.",
        ),
    ] = "chat",
    serve: Annotated[
        str | None,
        option(
            "--serve COMMAND",
            "Of commits: what starts the server in a checked-out commit, with {port} in it. Of "
            "images: arguments behind the image.",
        ),
    ] = None,
    build: Annotated[
        str | None,
        option("--build COMMAND", "Of commits: run once in each, before its server is started."),
    ] = None,
    repository: Annotated[
        str, option("--repository FOLDER", "Of commits: where they are; it is not changed.")
    ] = ".",
    container: Annotated[
        str | None, option("--container", "BASE and HEAD are images.", metavar="docker|podman")
    ] = None,
    container_port: Annotated[
        int, option("--container-port N", "The port that the server in a container listens on.")
    ] = 8000,
    container_options: Annotated[
        str, option("--container-options TEXT", "Options of docker run, such as '--gpus all'.")
    ] = "",
    bisect: Annotated[
        bool,
        option(
            "--bisect", "Of commits: find the one between BASE and HEAD that brought the change."
        ),
    ] = False,
    budget: Annotated[
        str, option("--budget TIME", "Most time, such as 10m or 2h; it stops as soon as it knows.")
    ] = "20m",
    margin: Annotated[
        str, option("--margin SHARE", "The slowdown that must be excluded to pass.")
    ] = "5%",
    noise: Annotated[
        int,
        option(
            "--noise PAIRS",
            "Pairs of the base against itself (A/A), measured first; 0 leaves them out.",
            min=0,
        ),
    ] = 2,
    metric: Annotated[
        str | None,
        option(
            "--metric METRIC",
            "The figure to compare: output_throughput, request_goodput, mean_ttft_ms, "
            "mean_tpot_ms, p99_ttft_ms. The workload's own if not given.",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        option("--slo LIMITS", "Limits that the head must hold, such as ttft=1s,tpot=50ms."),
    ] = None,
    concurrency: Annotated[
        int | None, option("--concurrency N", "Requests under way at once.", min=1)
    ] = None,
    rate: Annotated[
        float | None, option("--rate PER_SECOND", "Requests a second: an open loop.")
    ] = None,
    input_tokens: Annotated[
        str | None, option("--input-tokens LENGTHS", "Prompt lengths of a built-in workload.")
    ] = None,
    output_tokens: Annotated[
        str | None, option("--output-tokens LENGTHS", "Answer lengths of a built-in workload.")
    ] = None,
    block: Annotated[
        str, option("--block TIME", "About how long a block takes; a start is measured for three.")
    ] = "2s",
    port: Annotated[
        int | None, option("--port N", "The port of the servers; a free one if not given.")
    ] = None,
    start_timeout: Annotated[
        str | None,
        option(
            "--start-timeout TIME",
            "How long a server may take to answer; 2m if its kind is not known, 10m for vLLM.",
        ),
    ] = None,
    allow_changed_answers: Annotated[
        bool,
        option("--allow-changed-answers", "Compare speed alone: the head may answer otherwise."),
    ] = False,
    seed: Annotated[int, option("--seed N", "Of the workload and of the order of sides.")] = 0,
    workflow: Annotated[
        bool,
        option(
            "--workflow",
            "Print a workflow of GitHub Actions that gates pull requests and comments the report.",
        ),
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Tell whether a change makes a server faster or slower.

    Starts BASE and HEAD afresh in pairs, asks both for the same requests, and looks at a confidence
    sequence after each pair: a verdict is wrong in 5 % of gates at most, however often it looked.
    The report says why; assay verify-report derives its every figure again.

    Exit codes: 0 passed (improved, or a slowdown of --margin is excluded), 1 regressed or other
    work, 2 bad input, 3 undecided, 4 a server did not start or ended.
    """
    if workflow:
        from assay.gating.workflow import workflow_text

        text = workflow_text()
        return Report({"workflow": text}, lambda canvas: (), as_json, raw=text)
    if base is None or head is None:
        missing = "BASE" if base is None else "HEAD"
        raise InputError(
            f"missing argument '{missing}'", "assay gate main HEAD --serve 'COMMAND --port {port}'"
        )
    from assay.gating.gate import gate
    from assay.load.workloads.spec import parse_duration

    with run_progress(parse_duration("--budget", budget)) as progress:
        answer = gate(
            base,
            head,
            workload=workload,
            serve=serve,
            build=build,
            repository=repository,
            container=container,
            container_port=container_port,
            container_options=container_options,
            bisect_commits=bisect,
            budget=budget,
            margin=margin,
            noise=noise,
            metric=metric,
            slo=slo,
            concurrency=concurrency,
            rate=rate,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            block=block,
            port=port,
            start_timeout=start_timeout,
            allow_changed_answers=allow_changed_answers,
            seed=seed,
            progress=progress,
            command=shlex.join(["assay", *sys.argv[1:]]),
        )
    return report_of(answer, lambda canvas: _text(answer, canvas), as_json)


def _text(answer: "GateAnswer", canvas: Canvas) -> Iterator[Line]:
    from assay.improve.experiments.verdict import between, percent
    from assay.report import words

    verdict = "passed" if answer.passed and answer.verdict == "undecided" else answer.verdict
    style = styles.GOOD if answer.passed else STYLES[answer.verdict]
    if answer.ratio is None:
        yield ((verdict, style),)
    else:
        ratio = f"  head over base {percent(answer.ratio.value)} ({between(answer.ratio)})"
        yield ((verdict, style), ratio)
    yield from wrapped(answer.reason, canvas)
    yield ""
    metric, unit = words.metric_name(answer.metric), words.metric_unit(answer.metric)
    rows: list[tuple[str, str]] = []
    for side, level in ((answer.base, answer.base_level), (answer.head, answer.head_level)):
        figure = "not measured" if level is None else f"{metric} {words.shown(level, unit)}"
        rows.append((side.label, f"{side.short}: {figure}"))
    rows.append(("pairs", f"{answer.pairs}, {words.seconds(answer.seconds)}"))
    for gate in answer.gates:
        rows.append(("gate", f"{gate['gate']}: {gate['statement']}"))
    yield from facts(rows, canvas)
    if answer.bisection is not None:
        yield ""
        yield from _bisection(answer, canvas)
    yield ""
    yield (("report  ", styles.FAINT), str(answer.report))


def _bisection(answer: "GateAnswer", canvas: Canvas) -> Iterator[Line]:
    from assay.gating.reporting import bisection_sentence
    from assay.improve.experiments.verdict import between, percent

    bisection = answer.bisection
    assert bisection is not None
    yield from wrapped(bisection_sentence(bisection), canvas)
    rows: list[Any] = []
    for step in bisection.steps:
        shown = "" if step.ratio is None else f"{percent(step.ratio.value)} ({between(step.ratio)})"
        rows.append((step.commit[:12], step.half, shown, step.subject or step.reason))
    if rows:
        yield from table(("commit", "is", "over base", "subject"), rows, canvas)
