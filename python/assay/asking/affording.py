"""Limits of prices: what is rented out for less, and whether a deployment costs less."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.asking.amounts import amount
from assay.asking.case import Case
from assay.asking.cases import common_provider, gpus_of, serving_case
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.catalog import offers
from assay.errors import AssayError, InputError
from assay.plurals import count

_GPUS: Final = ("l4", "l40s", "a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm")
"""GPUs that a deployment below a limit is looked for among: one provider rents out all of them."""
_OF_A_GPU: Final = re.compile(
    r"\b(?:which|what|best|cheapest|fastest) (?:\w+ )?(?:gpu|card|accelerator)s?\b|\bgpus\b"
)
_HOURS_OF_A_MONTH: Final = 720.0


def rent_at(provider: str, accelerator: str) -> float:
    """What a provider asks for a GPU by the hour, on demand; infinite where it has none."""
    prices = [
        offer.usd_per_hour
        for offer in offers.offers(accelerator)
        if (offer.provider, offer.terms) == (provider, "on-demand")
    ]
    return min(prices, default=math.inf)


def within_limits(
    reading: Reading, every: Sequence[tuple[str, dict[str, Any]]], provider: str,
    limits: Mapping[str, float | None],
) -> tuple[list[tuple[str, dict[str, Any]]], list[tuple[str, str]], str]:  # fmt: skip
    """The accelerators whose rent is below a limit, those that are not, and what the limit is of.

    A limit beside "which GPU" is that of a GPU; else of the whole deployment.
    """
    limit = limits.get("rent_limit") or limits.get("cost_limit") or math.inf
    of_gpu = limits.get("cost_limit") is None and _OF_A_GPU.search(reading.rest) is not None
    kept, excluded = [], []
    for name, values in every:
        gpus, rent = 1.0 if of_gpu else _fewest(reading, name), rent_at(provider, name)
        if gpus * rent <= limit:
            # Of a whole deployment the smallest is taken, which runs fewer requests.
            sized = {} if of_gpu or gpus_of(reading) else {"gpus": int(gpus)}
            kept.append((name, {**values, **sized}))
        else:
            excluded.append((name, f"beyond the limit: {gpus:g} x ${rent:.4g} an hour"))
    of = "for each GPU" if of_gpu else "for all GPUs"
    if not kept:
        rows = "; ".join(f"{name}: {text.partition(': ')[2]}" for name, text in excluded)
        raise InputError(f"none costs at most ${limit:.4g} an hour {of}: {rows}")
    return kept, excluded, f"at most ${limit:.4g} an hour {of}"


def _fewest(reading: Reading, accelerator: str) -> float:
    """GPUs of the smallest deployment."""
    try:
        case = serving_case(
            reading.with_values({"accelerator": accelerator, "load": None}), lone=True
        )
    except AssayError:
        return math.inf
    return math.prod(case.layout)


def within_cost(reading: Reading) -> Outcome:
    """Whether a model is served for less than a limit: the cheapest deployment that holds it."""
    limit = float(reading.get("cost_limit") or reading.get("rent_limit"))
    served = reading.with_values({"cost_limit": None, "rent_limit": None, "finance": None})
    given = reading.values("accelerator")
    provider = str(reading.get("provider") or common_provider(given or _GPUS))
    cheapest, name, gpus = math.inf, "", 0.0
    for tried in given or _GPUS:
        number = gpus_of(served) or _fewest(served.with_values({"provider": None}), tried)
        price = number * rent_at(provider, tried)
        if price < cheapest:
            cheapest, name, gpus = price, tried, number
    if not name:
        raise InputError(f"{provider} rents out no GPUs on demand that hold it")
    verdict = "yes" if cheapest <= limit else "no"
    case = Case(
        "llama3_8b_h200_serving", (f"accelerators/{name}", "finance/rented"), offer=provider
    )
    result = case.resolve("econ.rent.price", intervals=False).run()
    month = cheapest * _HOURS_OF_A_MONTH
    text = (
        f"{verdict}: {count(round(gpus), 'GPU')} of {name} at {result.text} ({provider}): ${cheapest:.4g} an hour, "
        f"{amount(month, 'USD')} a month of 720 h; the limit is ${limit:.4g} an hour"
    )
    said = ("the cheapest deployment that holds the model and a request, all of the time",)
    return Outcome(text, result, assumed=said, verdict=verdict)
