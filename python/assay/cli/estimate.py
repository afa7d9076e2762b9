"""`assay estimate`: cost, time and emissions from a model, an accelerator, tokens and a place."""

from collections.abc import Iterator
from typing import Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, report_of, table, working
from assay.cli.scenarios import report_lines
from assay.model.language.figures import figure
from assay.model.language.units import parse_unit
from assay.scenario.estimate import Estimate
from assay.scenario.questions.estimating import Tariffs, estimate


def estimate_command(
    model: Annotated[str, argument("MODEL", "A model of the catalog, such as llama-3.1-8b.")],
    accelerator: Annotated[str, argument("ACCELERATOR", "An accelerator, such as h100_sxm.")],
    tokens: Annotated[str, argument("TOKENS", "Tokens to train on or to serve, such as 15T.")],
    where: Annotated[str, argument("WHERE", "A country, or a state of the US: us_virginia.")],
    serving: Annotated[
        bool, option("--serving", "Serve that many output tokens instead of training.")
    ] = False,
    gpus: Annotated[
        int | None, option("--gpus N", "GPUs of the training job; else searched for.")
    ] = None,
    days: Annotated[
        float | None, option("--days DAYS", "Longest acceptable time to train; 90 if not given.")
    ] = None,
    method: Annotated[
        str,
        option(
            "--method METHOD",
            "pretraining, full (fine-tuning of all weights) or lora (of adapters).",
        ),
    ] = "pretraining",
    rank: Annotated[
        int | None, option("--rank N", "Rank of the adapters of LoRA; 16 if not given.")
    ] = None,
    number_format: Annotated[
        str | None,
        option(
            "--format FORMAT",
            "Training: bf16, fp8 or fp4 GEMMs; serving: the format of weights. The model's own "
            "if not given.",
        ),
    ] = None,
    electricity: Annotated[
        float | None, option("--electricity USD", "Price of a kWh, all charges included.")
    ] = None,
    pue: Annotated[float | None, option("--pue NUMBER", "PUE of the site.")] = None,
    price: Annotated[float | None, option("--price USD", "Price of one GPU, owned.")] = None,
    rent: Annotated[
        float | None, option("--rent USD", "Rent of a GPU-hour, with electricity.")
    ] = None,
    offer: options.Offer = None,
    assign: options.Assign = None,
    fail_on_violated: options.FailOnViolated = False,
    as_json: options.Json = False,
) -> Report:
    """Estimate what a workload costs, from four words.

    Everything else is a default, and every default is listed; --set replaces one. GPUs of a training
    job may be any number; those searched for are whole nodes, and the days have interruptions in them.
    """
    own: Tariffs = {}
    if electricity is not None:
        own["electricity"] = electricity
    if pue is not None:
        own["pue"] = pue
    if price is not None:
        own["price"] = price
    if rent is not None:
        own["rent"] = rent
    with working("estimating"):
        answer = estimate(
            model,
            accelerator,
            tokens,
            where,
            serving=serving,
            gpus=gpus,
            days=days,
            method=method,
            rank=rank,
            format=number_format,
            assign=assign,
            offer=offer,
            fail_on_violated=fail_on_violated,
            **own,
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
