"""Rents of a scenario: an offer of the catalog in place of the scenario's own prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from assay.catalog import offers
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError
from assay.scenario.companions import accelerator_of
from assay.scenario.named_scenario import Preset

RENTED: Final = "econ.rented"
_INCLUDES_POWER: Final = "econ.rent.includes_power"


def with_offer(preset: Preset, text: str) -> Preset:
    """The scenario with its GPUs rented at an offer, `PROVIDER` or `PROVIDER:TERMS`."""
    accelerator = accelerator_name(preset)
    if not accelerator:
        raise InputError(
            f"--offer {text}: the scenario has no accelerator to rent",
            "--with accelerators/NAME adds one",
        )
    offer = offers.find(accelerator, text)
    rented = SourcedValue("1", f"the offer {offer.name}", "spec")
    values = {RENTED: rented, offers.RENT: offer.rent, _INCLUDES_POWER: rented}
    return replace(preset.with_values(values), notes=(*preset.notes, offer.note))


def accelerator_name(preset: Preset) -> str:
    """The name of the scenario's accelerator in the catalog; empty without one."""
    part = accelerator_of(preset.included)
    return "" if part is None else part.path.rpartition("/")[2]
