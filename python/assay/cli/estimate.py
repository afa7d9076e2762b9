"""`assay estimate`: cost, time and emissions from a model, an accelerator, tokens and a place."""

from collections.abc import Iterator
from typing import Annotated

import typer

from assay.cli import options, styles
from assay.cli.output import Canvas, Line, Part, Report, report_of, table, working
from assay.cli.scenarios import report_lines
from assay.model.language.figures import figure
from assay.model.language.units import parse_unit
from assay.scenario.estimate import MAX_DAYS, Estimate
from assay.scenario.questions.estimating import estimate


def estimate_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model of the catalog, such as llama-3.1-8b.")
    ],
    accelerator: Annotated[
        str, typer.Argument(metavar="ACCELERATOR", help="An accelerator, such as h100_sxm.")
    ],
    tokens: Annotated[
        str, typer.Argument(metavar="TOKENS", help="Tokens to train on or to serve, such as 15T.")
    ],
    where: Annotated[
        str, typer.Argument(metavar="WHERE", help="A country, or a state of the US: us_virginia.")
    ],
    serving: Annotated[
        bool, typer.Option("--serving", help="Serve that many output tokens instead of training.")
    ] = False,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", metavar="N", help="GPUs of the training job; else searched for."),
    ] = None,
    days: Annotated[
        float, typer.Option("--days", metavar="DAYS", help="Longest acceptable time to train.")
    ] = MAX_DAYS,
    fail_on_violated: options.FailOnViolated = False,
    as_json: options.Json = False,
) -> Report:
    """Estimate what a workload costs, from four words.

    Everything else is a default, and every default is listed. For other choices take a scenario:
    assay resolve --preset.
    """
    with working("estimating"):
        answer = estimate(
            model,
            accelerator,
            tokens,
            where,
            serving=serving,
            gpus=gpus,
            days=days,
            fail_on_violated=fail_on_violated,
        )
    return report_of(answer, lambda canvas: _lines(answer.estimate, canvas), as_json)


def _lines(estimated: Estimate, canvas: Canvas) -> Iterator[Line]:
    if estimated.served_cost is not None:
        ends = estimated.served_cost_interval or (None, None)
        cost = figure(estimated.served_cost, parse_unit("USD"), *ends)
        yield (("all output tokens", styles.NAME), ": ", (cost.text, styles.VALUE), cost.interval)
        yield ""
    yield from report_lines(estimated.report, canvas)
    yield ""
    rows: list[tuple[Part, ...]] = [
        (
            (default.name, styles.NAME),
            (default.figure, styles.VALUE),
            (default.reason, styles.FAINT),
        )
        for default in estimated.defaults
    ]
    yield from table(("default", "value", "why"), rows, canvas)
