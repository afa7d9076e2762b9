"""Options that several commands share, each declared once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from assay.cli.completion import complete_entries, complete_presets, complete_variables
from assay.cli.declaring import argument, option
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.scenario.question import Given

Json = Annotated[bool, option("--json", "Print JSON instead of text.")]
Assign = Annotated[
    list[str] | None,
    option(
        '--assign --set NAME="VALUE UNIT"',
        "Give a variable a value, or a distribution such as 450..550 W (a 90 % interval) "
        "or normal(500, 20) W. May be repeated; overrides the preset's value.",
    ),
]
PresetName = Annotated[
    list[str] | None,
    option(
        "--preset PRESET", "A scenario: its name, or a .toml file.", autocompletion=complete_presets
    ),
]
With = Annotated[
    list[str] | None,
    option(
        "--with GROUP/NAME",
        "Take the values of a catalog entry, such as accelerators/h100_sxm, or of a .json "
        "file in its format. May be repeated; overrides the preset's entries of that group.",
        autocompletion=complete_entries,
    ),
]
ModelConfig = Annotated[
    str | None, option("--model-config FILE", "Take the model's shapes from its config.json.")
]
Correlate = Annotated[
    list[str] | None,
    option(
        "--correlate NAME,OTHER=NUMBER",
        "Correlation of two uncertain inputs, between -1 and 1: that of their logarithms "
        "where both are lognormal. May be repeated.",
    ),
]
Variant = Annotated[
    list[str] | None,
    option(
        "--variant VARIABLE=RELATION",
        "Choose the relation that defines a variable. May be repeated.",
    ),
]
Offer = Annotated[
    str | None,
    option(
        "--offer PROVIDER[:TERMS]",
        "Rent GPUs at this provider of the catalog, on demand or as :reserved or :spot, such "
        "as aws or nebius:spot.",
    ),
]
NoSwitch = Annotated[
    bool, option("--no-switch", "Keep an approximation where its validity condition is false.")
]
NoInterval = Annotated[
    bool,
    option(
        "--no-interval",
        "Give the value alone, with uncertain inputs at their medians: twice as fast.",
    ),
]
FailOnViolated = Annotated[
    bool,
    option("--fail-on-violated-constraints", "End with exit code 1 if a constraint is violated."),
]


def _check_workers(given: int | None) -> int | None:
    if given is not None and given < 1:
        raise InputError(f"--workers: expected 1 or more, got {given}")
    return given


Workers = Annotated[
    int | None,
    option(
        "--workers N",
        "Processes that share the points, of which there may then be any number. Parts that are "
        "done are kept: an interrupted command goes on where it was.",
        callback=_check_workers,
    ),
]
AllowConflicts = Annotated[
    bool,
    option(
        "--allow-conflicts",
        "Accept given values that contradict their own equations; they are still listed.",
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
    option(
        "--limit N",
        f"Rows at most; 0 for all. Text has {MAX_LISTED} if not given, JSON all.",
        callback=_check_limit,
    ),
]
Target = Annotated[
    str, argument("VARIABLE", "Full name of the variable.", autocompletion=complete_variables)
]
_TRACE = argument(
    "TRACE",
    "A trace: a file of any tool that assay reads, the folder of a stored trace, or its "
    "name in assay trace list.",
)
TraceArgument = Annotated[str, _TRACE]
OptionalTraceArgument = Annotated[str | None, _TRACE]
TracedGpu = Annotated[
    str | None,
    option(
        "--gpu GPU",
        "The GPU that it ran on: a name of the catalog, or a file of assay calibrate. "
        "Without it, the one that the trace names.",
    ),
]
PlannedModel = Annotated[
    str,
    option("--model MODEL", "A config.json, its folder, a .gguf file, or a name of the catalog."),
]
KvFormat = Annotated[str, option("--kv-dtype FORMAT", "Format of the KV cache.")]
SpeculativeTokens = Annotated[
    int, option("--speculative-tokens N", "Drafted tokens of a sequence.")
]
Acceptance = Annotated[float | None, option("--acceptance P", "Share of drafted tokens accepted.")]
PlannedEngine = Annotated[str, option("--engine ENGINE", "vllm, sglang, trtllm or assay.")]
StepBatch = Annotated[int | None, option("--batch N", "Sequences of a decode step, if not shown.")]
