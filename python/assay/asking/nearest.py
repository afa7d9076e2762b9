"""The command that comes nearest to a question that is refused: one that runs, with what was understood."""

from __future__ import annotations

import shlex
from typing import Final

from assay.asking.cases import DEFAULTS, Case, place_entries, serving_case
from assay.asking.reading import Reading
from assay.asking.training import tokens_text
from assay.catalog import entries
from assay.errors import AssayError

_ESTIMATED: Final = ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
"""Accelerators of which the catalog has all that `assay estimate` prints."""
_FEWEST_TOKENS: Final = 1e9
"""Tokens of a run of at least one step, whatever the model."""
_PLACE: Final = "us_virginia"
_GROUPS: Final = (
    ("model", "models"),
    ("accelerator", "accelerators"),
    ("site", "sites"),
    ("engine", "engines"),
)


def filled(template: str, reading: Reading, workload: str) -> str:
    """The nearest command with as much of what was understood as it runs with."""
    if "{entries}" in template:
        return _resolving(template, reading)
    defaults = DEFAULTS[workload]
    model = str(reading.get("model", defaults["model"]))
    accelerator = str(reading.get("accelerator", defaults["accelerator"]))
    layout = ""
    if template.startswith("assay estimate") and accelerator not in _ESTIMATED:
        accelerator = defaults["accelerator"]
    if template.startswith("assay predict"):
        accelerator, layout = _laid_out(model, accelerator)
    place = reading.get("place", _PLACE)
    return (
        template.format(
            model=model,
            accelerator=accelerator,
            tokens=tokens_text(max(_FEWEST_TOKENS, reading.get("tokens", 1e12))),
            place=place if place in entries.names("tariffs") else _PLACE,
            rate=f"{reading.get('rate', 10):g}",
        )
        + layout
    )


def _laid_out(model: str, accelerator: str) -> tuple[str, str]:
    """An accelerator and the options of a layout on which a model can be predicted."""
    empty = Reading("", "", (), "")
    for name in (accelerator, DEFAULTS["serving"]["accelerator"], "b300_sxm"):
        try:
            asked = empty.with_values({"model": model, "accelerator": name})
            case = serving_case(asked, lone=True)
            predicted = case.value("serving.throughput")
        except AssayError:
            continue
        if case.layout[1] == 1 and predicted is not None:
            return name, f" --tensor {case.layout[0]}" if case.layout[0] > 1 else ""
    return accelerator, ""


def _resolving(template: str, reading: Reading) -> str:
    """The command that resolves a variable, without names that leave it without a value."""
    paths = [
        f"{group}/{reading.get(slot)}" for slot, group in _GROUPS if reading.get(slot) is not None
    ]
    paths += place_entries(reading.get("place"))
    words = shlex.split(template.format(entries=""))
    target, preset = words[2], words[words.index("--preset") + 1]
    fewer = [path for path in paths if not path.startswith("accelerators/")]
    for tried in (paths, fewer):
        try:
            if Case(preset, tuple(tried)).value(target) is not None:
                return template.format(entries="".join(f" --with {path}" for path in tried))
        except AssayError:
            continue
    return template.format(entries="")
