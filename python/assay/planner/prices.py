"""What energy and money need besides the step: the coolant's temperature, and a rent."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from assay.catalog import offers
from assay.catalog.offers import RENT, Offer
from assay.errors import InputError
from assay.planner.specs import HardwareSpec

COOLANT = "gpu.coolant_temperature"


@cache
def _site() -> tuple[float, str]:
    from assay.catalog import entries

    entry = entries.read("sites", "average")
    return entry.given[COOLANT], entry.values[COOLANT].text


def cooled(hardware: HardwareSpec) -> tuple[dict[str, float], str]:
    """The temperature of the coolant, and a note where it is the catalog's average site's."""
    if COOLANT in hardware.given:
        return {}, ""
    value, text = _site()
    note = f"energy with coolant at {text}, as sites/average of the catalog"
    if "gpu.power.limit" not in hardware.given:
        return {COOLANT: value}, note
    # Kernels were measured under the board's own limit.
    rated = hardware.given.get("gpu.power.rated", hardware.given["gpu.power.limit"])
    return {COOLANT: value, "gpu.power.rated": rated}, note


def offer_of(hardware: HardwareSpec) -> Offer | None:
    """The offer at which hardware is rented: the chosen one, else the accelerator's usual one."""
    accelerator = hardware.accelerator or hardware.name
    if hardware.offer:
        return offers.find(accelerator, hardware.offer)
    return offers.usual(accelerator)


def cheapest_offer(hardware: HardwareSpec, text: str) -> str | None:
    """The cheapest for hardware of some offers, `PROVIDER[:TERMS]` with commas; None where there is none.

    >>> from assay.planner.sources import hardware_spec
    >>> cheapest_offer(hardware_spec("h100"), "aws,runpod")
    'runpod:on-demand'
    """
    accelerator = hardware.accelerator or hardware.name
    names = [name for name in text.split(",") if name.strip()]
    if len(names) == 1:
        return offers.find(accelerator, names[0]).name
    known: list[Offer] = []
    for name in names:
        with suppress(InputError):
            known.append(offers.find(accelerator, name))
    cheapest = min(known, key=lambda offer: offer.usd_per_hour, default=None)
    return None if cheapest is None else cheapest.name


def rented(hardware: HardwareSpec) -> tuple[dict[str, float], str]:
    """The rent of the accelerator in the catalog, and a note that names whose it is."""
    if RENT in hardware.given:
        return {}, ""
    offer = offer_of(hardware)
    return ({}, "") if offer is None else ({RENT: offer.entry.given[RENT]}, offer.note)
