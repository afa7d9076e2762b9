"""Options that several commands share, each declared once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.completion import complete_entries, complete_presets, complete_variables
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.scenario.question import Given

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Assign = Annotated[
    list[str] | None,
    typer.Option(
        "--assign",
        "--set",
        metavar='NAME="VALUE UNIT"',
        help="Give a variable a value, or a distribution such as 450..550 W (a 90 % interval) "
        "or normal(500, 20) W. May be repeated; overrides the preset's value.",
    ),
]
PresetName = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        metavar="PRESET",
        autocompletion=complete_presets,
        help="A scenario: its name, or a .toml file.",
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="GROUP/NAME",
        autocompletion=complete_entries,
        help="Take the values of a catalog entry, such as accelerators/h100_sxm, or of a .json "
        "file in its format. May be repeated; overrides the preset's entries of that group.",
    ),
]
ModelConfig = Annotated[
    str | None,
    typer.Option(
        "--model-config", metavar="FILE", help="Take the model's shapes from its config.json."
    ),
]
Correlate = Annotated[
    list[str] | None,
    typer.Option(
        "--correlate",
        metavar="NAME,OTHER=NUMBER",
        help="Correlation of two uncertain inputs, between -1 and 1: that of their logarithms "
        "where both are lognormal. May be repeated.",
    ),
]
Variant = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="VARIABLE=RELATION",
        help="Choose the relation that defines a variable. May be repeated.",
    ),
]
Offer = Annotated[
    str | None,
    typer.Option(
        "--offer",
        metavar="PROVIDER[:TERMS]",
        help="Rent GPUs at this provider of the catalog, on demand or as :reserved or :spot, such "
        "as aws or nebius:spot.",
    ),
]
NoSwitch = Annotated[
    bool,
    typer.Option(
        "--no-switch", help="Keep an approximation where its validity condition is false."
    ),
]
NoInterval = Annotated[
    bool,
    typer.Option(
        "--no-interval",
        help="Give the value alone, with uncertain inputs at their medians: twice as fast.",
    ),
]
FailOnViolated = Annotated[
    bool,
    typer.Option(
        "--fail-on-violated-constraints", help="End with exit code 1 if a constraint is violated."
    ),
]
AllowConflicts = Annotated[
    bool,
    typer.Option(
        "--allow-conflicts",
        help="Accept given values that contradict their own equations; they are still listed.",
    ),
]


def given(
    preset: Sequence[str] | None,
    assign: Sequence[str] | None,
    variant: Sequence[str] | None,
    includes: Sequence[str] | None,
    model_config: str | None,
    correlate: Sequence[str] | None = None,
    offer: str | None = None,
) -> "Given":
    """What these options give, as the questions take it."""
    return {
        "preset": preset,
        "assign": assign,
        "variant": variant,
        "includes": includes,
        "model_config": model_config,
        "correlate": correlate,
        "offer": offer,
    }


MAX_LISTED = 40
"""Rows of a list that are printed unless `--limit` says otherwise: a screen or two."""


def rows_at_most(limit: int | None, as_json: bool) -> int:
    """Rows of a list, 0 for all: without `--limit`, text has a screen or two and JSON has all."""
    if limit is None:
        return 0 if as_json else MAX_LISTED
    return limit


def _check_limit(given: int | None) -> int | None:
    if given is not None and given < 0:
        raise InputError(f"limit: expected 0 or more, got {given}")
    return given


Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        callback=_check_limit,
        help=f"Rows at most; 0 for all. Text has {MAX_LISTED} if not given, JSON all.",
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="VARIABLE", autocompletion=complete_variables, help="Full name of the variable."
    ),
]
_TRACE = typer.Argument(
    metavar="TRACE",
    help="A trace: a file of any tool that assay reads, the folder of a stored trace, or its "
    "name in assay trace list.",
)
TraceArgument = Annotated[str, _TRACE]
OptionalTraceArgument = Annotated[str | None, _TRACE]
TracedGpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="GPU",
        help="The GPU that it ran on: a name of the catalog, or a file of assay calibrate. "
        "Without it, the one that the trace names.",
    ),
]
PlannedModel = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A config.json, its folder, a .gguf file, or a name of the catalog.",
    ),
]
KvFormat = Annotated[
    str, typer.Option("--kv-dtype", metavar="FORMAT", help="Format of the KV cache.")
]
SpeculativeTokens = Annotated[
    int, typer.Option("--speculative-tokens", metavar="N", help="Drafted tokens of a sequence.")
]
Acceptance = Annotated[
    float | None,
    typer.Option("--acceptance", metavar="P", help="Share of drafted tokens accepted."),
]
PlannedEngine = Annotated[str, typer.Option("--engine", metavar="ENGINE", help="vllm or assay.")]
StepBatch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="Sequences of a decode step, if not shown."),
]
