"""Whose price an hourly price is: that of a GPU, of a machine with several, or of all of them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.case import GPUS_OF_A_NODE
from assay.asking.cases import gpus_of
from assay.asking.reading import Mention, Reading
from assay.catalog import offers
from assay.errors import InputError

_MACHINE: Final = r"(?:node|server|box|machine|instance|system|dgx|hgx)"
_MANY: Final = r"(?:cluster|fleet|rack|pod|lot)"
_OF_MACHINE: Final = re.compile(
    r"^[\s,(]*(?:for|per|/|an?\b)\s*(?:(?:the|an?|one|each|my|our|whole|entire|full)\s+)*(?:\d+[ -]?(?:x|gpus?)[ -]?)?"
    + _MACHINE
    + r"\b"
)
_OF_ALL: Final = re.compile(
    r"^[\s,(]*(?:(?:for|per)\s+(?:(?:the|an?|my|our|whole|entire|full|all)\s+)*"
    + _MANY
    + r"\b|(?:in |as a )?total\b|altogether\b|all together\b|together\b|for (?:all|everything|both)\b)"
)
_MACHINE_AT: Final = re.compile(
    r"\b" + _MACHINE + r"(?: (?:with|of|has)\b[^,;?$]{0,24})?[^,;?$]{0,12}$"
)
_ALL_AT: Final = re.compile(r"\b" + _MANY + r"\b[^,;?$]{0,16}$")
_OF_ONE: Final = re.compile(r"gpu|card|each|apiece")
_EACH: Final = re.compile(r"^[\s,(]*(?:each|apiece|per (?:gpu|card))\b")
_REACH: Final = 48
"""Characters before a price in which its owner is looked for."""
_DEAREST: Final = 2.0
"""A price above so many times the dearest offer is hardly that of one GPU."""


def with_price_per_gpu(reading: Reading) -> Reading:
    """The reading with hourly prices per GPU, and what each was taken for.

    A price of a machine or of everything is shared among its GPUs. Where nothing says whose price it
    is, it is a GPU's, unless no GPU costs as much: then the question is refused.
    """
    gpus = gpus_of(reading)
    mentions, said, after = [], list(reading.said), 0
    for part in reading.mentions:
        if part.slot != "rent" or isinstance(part.value, str):
            mentions.append(part)
            continue
        at = max(reading.text.find(part.words, after), 0)
        after = at + len(part.words)
        owners = _owners(reading, part, at, gpus)
        if owners is None:
            if gpus is not None and gpus > 1 and not _OF_ONE.search(part.words):
                _refuse_if_dear(reading, part, gpus)
                said.append(f"${part.value:g} an hour for each GPU")
            mentions.append(part)
            continue
        price = part.value / owners
        said.append(f"${part.value:,.2f} an hour for {owners:,} GPUs: ${price:.4g} per GPU-hour")
        mentions.append(replace(part, value=price))
    return replace(reading, mentions=tuple(mentions), said=tuple(dict.fromkeys(said)))


def _owners(reading: Reading, part: Mention, at: int, gpus: int | None) -> int | None:
    """The GPUs that share a price; None where it is that of one."""
    before, behind = reading.text[max(at - _REACH, 0) : at], reading.text[at + len(part.words) :]
    if _OF_ONE.search(part.words) or _EACH.search(behind):
        return None
    of_all = _OF_ALL.search(behind) or (not _OF_MACHINE.search(behind) and _ALL_AT.search(before))
    if not of_all and not (_OF_MACHINE.search(behind) or _MACHINE_AT.search(before)):
        return None
    if gpus is None:
        raise InputError(
            f'"{part.words}" is the price of how many GPUs?',
            'say so, as in "8 H100 at $16/h in total"',
        )
    nodes = int(reading.get("nodes", 0)) or max(1, gpus // GPUS_OF_A_NODE)
    owners = gpus if of_all or gpus % nodes else gpus // nodes
    said = _OF_ALL.search(behind) or _OF_MACHINE.search(behind)
    # "A cluster of 64 H100 at $2": a machine is named, and the price is a GPU's all the same.
    return owners if said or not _is_cheap(reading, part.value / owners) else None


def _rents(reading: Reading) -> list[float]:
    """Hourly prices of the accelerator that the catalog knows."""
    accelerator = reading.get("accelerator")
    return [offer.usd_per_hour for offer in offers.offers(accelerator)] if accelerator else []


def _is_cheap(reading: Reading, price: float) -> bool:
    """Whether no GPU is rented out for so little."""
    return price < min(_rents(reading), default=0.0) / _DEAREST


def _refuse_if_dear(reading: Reading, part: Mention, gpus: int) -> None:
    """Refuse a price that no GPU has, of several GPUs."""
    if part.value > _DEAREST * max(_rents(reading), default=math.inf):
        raise InputError(
            f"${part.value:g} an hour: for each of {gpus} GPUs, or for all of them?",
            'say "per GPU", or "in total"',
        )
