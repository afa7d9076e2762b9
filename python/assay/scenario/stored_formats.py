"""A model is served in the format of its files, unless the scenario or the question says another.

A scenario states the format of its own model. With another model it is that of the other's files:
gpt-oss has experts in MXFP4, DeepSeek-V3 all weights in FP8. What the files do not say stays: the
KV cache as the scenario has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from assay.catalog.checkpoints import Checkpoint
from assay.catalog.sourced_value import SourcedValue
from assay.model.declarations import Declarations
from assay.model.language.quantity import parse_quantity
from assay.scenario.includes import Include

WEIGHTS: Final = "serving.weight_bytes"
_MARK: Final = "format of the files of "
_RATES: Final = ("gpu.rate_fp8", "gpu.rate_int8", "gpu.rate_fp4")


class StoredFormats(NamedTuple):
    """Values of the format of a model's files, and a note that says so."""

    values: Mapping[str, SourcedValue]
    notes: tuple[str, ...] = ()


NONE: Final = StoredFormats({})


def stored_formats(
    included: Sequence[Include],
    added: Sequence[Include],
    present: Mapping[str, SourcedValue],
    registry: Declarations,
) -> StoredFormats:
    """The format in which a scenario with these includes serves its model.

    `present` are the values of the scenario, which holds where neither the model nor what its
    format runs as on the accelerator changes.
    """
    model = _last(included, "models")
    if model is None or WEIGHTS not in present:
        return NONE
    is_stored = present[WEIGHTS].source.startswith(_MARK)
    is_new_model = _last(added, "models") is not None
    if not is_stored and not is_new_model:
        return NONE
    checkpoint = model.facts.get("checkpoint")
    if not isinstance(checkpoint, Checkpoint) or not (checkpoint.is_quantized or is_stored):
        return NONE
    name = model.path.partition("/")[2]
    source = f"{_MARK}{name}: {checkpoint.source}"
    rates = {rate: parse_quantity(present[rate].text).value for rate in _RATES if rate in present}
    values = {
        variable: SourcedValue.from_number(
            registry.variables[variable], number, source, "spec", 0.0
        )
        for variable, number in checkpoint.serving_values(rates).items()
    }
    note = f"{name} is served in the format of its files: {checkpoint.text} ({checkpoint.source})"
    return StoredFormats(values, (note,) if checkpoint.is_quantized else ())


def _last(includes: Sequence[Include], group: str) -> Include | None:
    return next((part for part in reversed(includes) if part.group == group), None)
