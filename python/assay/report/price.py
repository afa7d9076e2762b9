"""What an hour of the machine costs: a figure that someone stated, never one of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from assay.errors import InputError

_AMOUNT: Final = re.compile(r"^([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(?:USD/h)?$")
RENTS: Final = "rents/"
_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Price:
    """USD an hour, of the whole deployment or of each device, and who says so."""

    usd_per_hour: float
    source: str
    per_device: bool = False


def read_price(text: str) -> Price:
    """A price as `--price` takes it: 2.5, "2.5 USD/h", or a rent of the catalog.

    >>> read_price("2.5 USD/h")
    Price(usd_per_hour=2.5, source='given with the run', per_device=False)
    """
    if text.startswith(RENTS):
        return _rent(text)
    matched = _AMOUNT.match(text.strip())
    if not matched:
        raise InputError(
            f"price: expected USD an hour such as 2.50, or a rent of the catalog, got {text!r}",
            "assay catalog rents lists those of the catalog, such as rents/h200_aws_2026",
        )
    return Price(float(matched[1]), "given with the run")


def _rent(name: str) -> Price:
    from assay.catalog import entries

    entry = entries.find("rents", name.removeprefix(RENTS), "rent")
    # The catalog's values are in base units: USD a second and GPU.
    per_hour = entry.given["econ.rent.price"] * _SECONDS
    source = f"{entry.path}: {entry.values['econ.rent.price'].source}"
    return Price(round(per_hour, 9), source, per_device=True)
