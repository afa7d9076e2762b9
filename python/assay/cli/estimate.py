"""`assay estimate`: cost, time and emissions from a model, an accelerator, tokens and a place."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from assay.cli import options
from assay.cli.output import FAINT, NAME, VALUE, Canvas, Line, Part, Report, table, working
from assay.cli.scenarios import report_lines, report_problem
from assay.errors import InputError
from assay.model.language.figures import figure
from assay.model.language.units import parse_unit
from assay.scenario import built_in
from assay.scenario.estimate import BASES, MAX_DAYS, Estimate, estimate

LOW_UTILIZATION: Final = 0.25
"""MFU below which the answer says where the time goes."""


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
    if gpus is not None and not 1 <= gpus <= 10_000_000:
        raise InputError(f"gpus: expected 1 to 10,000,000, got {gpus}")
    if not 0 < days < 1e5:
        raise InputError(f"days: expected a number above 0, got {days:g}")
    workload = "serving" if serving else "training"
    with working("estimating"):
        found = estimate(
            built_in.preset(BASES[workload]), workload, (model, accelerator, tokens, where),
            gpus=gpus, days=days,
        )  # fmt: skip
    problem = report_problem(
        found.report.targets, fail_on_violated=fail_on_violated, allow_conflicts=False
    )
    return Report(
        found.to_data(), lambda canvas: _lines(found, canvas), as_json, problem, _notes(found)
    )


def _notes(found: Estimate) -> list[str]:
    notes = list(found.report.notes)
    if found.utilization is not None and found.utilization < LOW_UTILIZATION:
        losses = [f"{what} {share:.0%}" for what, share in found.losses.items() if share >= 0.01]
        notes.insert(
            0,
            f"MFU is only {found.utilization:.0%} with the best layout of those tried; of a step take "
            + ", ".join(losses),
        )
    return notes


def _lines(found: Estimate, canvas: Canvas) -> Iterator[Line]:
    if found.served_cost is not None:
        ends = found.served_cost_interval or (None, None)
        cost = figure(found.served_cost, parse_unit("USD"), *ends)
        yield (("all output tokens", NAME), ": ", (cost.text, VALUE), cost.interval)
        yield ""
    yield from report_lines(found.report, canvas)
    yield ""
    rows: list[tuple[Part, ...]] = [
        ((default.name, NAME), (default.figure, VALUE), (default.reason, FAINT))
        for default in found.defaults
    ]
    yield from table(("default", "value", "why"), rows, canvas)
