"""Offers of accelerators for rent: by whom, on what terms, at what price.

An entry of `rents`, or the rent of an entry of `prices`, states its offer as `PROVIDER:TERMS`. Prices
of one comparison are those of one offer; without a choice an accelerator has the offer of its entry
of `prices`, which scenarios include as well.

    >>> usual("h200_sxm").name
    'runpod:on-demand'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from assay.catalog import entries
from assay.catalog.sourced_value import SourcedValue
from assay.errors import InputError

RENT: Final = "econ.rent.price"
TERMS: Final[Mapping[str, str]] = {
    "on-demand": "by the hour, without a commitment",
    "reserved": "paid for the whole term, used or not",
    "spot": "may be pre-empted at any time: restarts are not part of the cost",
}
"""What terms of an offer mean, the usual ones first."""
_HOUR: Final = 3600.0


@dataclass(frozen=True)
class Offer:
    """The rent of an accelerator, and who asks for it on what terms."""

    accelerator: str
    provider: str
    terms: str
    entry: entries.CatalogEntry

    @property
    def name(self) -> str:
        """The offer as options take it, such as `aws:spot`."""
        return f"{self.provider}:{self.terms}"

    @property
    def rent(self) -> SourcedValue:
        """The rent with its source."""
        return self.entry.values[RENT]

    @property
    def usd_per_hour(self) -> float:
        """The rent of one GPU, in USD an hour."""
        return self.entry.given[RENT] * _HOUR

    @property
    def text(self) -> str:
        """The rent and whose it is, as they stand beside a cost."""
        return f"{self.usd_per_hour:.4g} USD/h, {self.name}"

    @property
    def note(self) -> str:
        """Where the rent comes from, and what its terms mean."""
        return f"rent of {self.text} ({TERMS[self.terms]}): {self.entry.path}, {self.rent.source}"


def offers(accelerator: str) -> list[Offer]:
    """All offers of an accelerator; of one provider and terms the newest."""
    newest: dict[str, Offer] = {}
    for entry in _entries(accelerator):
        provider, _, terms = str(entry.facts["offer"]).partition(":")
        offer = Offer(accelerator, provider, terms, entry)
        known = newest.get(offer.name)
        if known is None or offer.rent.date > known.rent.date:
            newest[offer.name] = offer
    order = list(TERMS)
    return sorted(newest.values(), key=lambda offer: (offer.provider, order.index(offer.terms)))


def usual(accelerator: str) -> Offer | None:
    """The offer of an accelerator that nobody chose: that of its entry of `prices`.

    Of an accelerator without one, the cheapest on demand; None where the catalog has no rent of it.
    """
    known = offers(accelerator)
    listed = [offer for offer in known if offer.entry.group == "prices"]
    on_demand = [offer for offer in known if offer.terms == "on-demand"]
    return min(listed or on_demand or known, key=lambda offer: offer.usd_per_hour, default=None)


def find(accelerator: str, text: str) -> Offer:
    """An offer of an accelerator as `PROVIDER` or `PROVIDER:TERMS`; on demand if not said."""
    provider, _, terms = text.strip().lower().partition(":")
    terms = terms or "on-demand"
    if terms not in TERMS:
        raise InputError(
            f'offer: expected terms {", ".join(TERMS)}, got "{terms}"', "write PROVIDER:TERMS"
        )
    known = offers(accelerator)
    for offer in known:
        if (offer.provider, offer.terms) == (provider, terms):
            return offer
    listed = ", ".join(offer.name for offer in known)
    raise InputError(
        f"offer: no price of {accelerator} at {provider}:{terms} in the catalog",
        f"known: {listed}"
        if known
        else '--set econ.rented=1 --set econ.rent.price="VALUE USD/(h*GPU)"',
    )


def unlike(compared: Iterable[Offer | None]) -> str:
    """A note where the prices of a comparison are not of one offer; empty where they are."""
    chosen = [offer for offer in compared if offer is not None]
    if len({offer.name for offer in chosen}) < 2:
        return ""
    rents = "; ".join(f"{offer.accelerator} {offer.text}" for offer in chosen)
    shared = set.intersection(
        *({o.name for o in offers(chosen_.accelerator)} for chosen_ in chosen)
    )
    hint = f"--offer {sorted(shared)[0]} has all of them" if shared else "no offer has all of them"
    return f"rents of unlike offers: {rents}; {hint}"


def _entries(accelerator: str) -> Iterator[entries.CatalogEntry]:
    for entry in entries.entries("rents"):
        if accelerator in entry.facts.get("accelerators", ()):
            yield entry
    if accelerator in entries.names("prices"):
        priced = entries.read("prices", accelerator)
        if RENT in priced.values:
            yield priced
