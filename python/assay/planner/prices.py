"""What energy and money need besides the step: the coolant's temperature, and a rent."""

from __future__ import annotations

from functools import cache

from assay.planner.specs import HardwareSpec

COOLANT = "gpu.coolant_temperature"
RENT = "econ.rent.price"


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


def rented(hardware: HardwareSpec) -> tuple[dict[str, float], str]:
    """The newest rent of the accelerator in the catalog, and a note that names it."""
    if RENT in hardware.given:
        return {}, ""
    from assay.catalog import entries

    fitting = [
        entry
        for entry in entries.entries("rents")
        if (hardware.accelerator or hardware.name) in entry.facts.get("accelerators", ())
    ]
    if not fitting:
        return {}, ""
    # Of two of one date the dearer: an on-demand price that anyone can get.
    newest = max(fitting, key=lambda entry: (entry.values[RENT].date, entry.given[RENT]))
    note = f"rent of {newest.values[RENT].text}: {newest.path}, {newest.title}"
    return {RENT: newest.given[RENT]}, note
