"""Where the replicas of a plan stand: places with their grid, tariff and power, the cheapest watts first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.catalog import entries
from assay.errors import InfeasibleError, InputError
from assay.planner.capacity.traffic import HOUR

if TYPE_CHECKING:
    from assay.planner.capacity.option import Option

GOALS: Final = ("electricity", "carbon")
"""What is least where replicas may stand in several places."""


@dataclass(frozen=True, slots=True)
class Place:
    """A country or state: what a joule costs and emits there, and the watts at the meter that it has."""

    name: str
    watts: float
    usd_per_joule: float | None
    """None where the catalog has no tariff of it."""
    kilograms_per_joule: float


@dataclass(frozen=True)
class Placed:
    """Replicas in one place at the peak, and what they draw, cost and emit on average."""

    place: str
    replicas: int
    rated_watts: float
    """The most that they can draw at the meter."""
    limit_watts: float | None
    usd_per_hour: float | None
    """Electricity alone: rent comes besides, where GPUs are rented."""
    kilograms_per_hour: float


def read_places(text: str) -> list[Place]:
    """Places with their kilowatts, such as `finland:200,us_texas:500`; without a number they have no limit.

    >>> [(place.name, place.watts) for place in read_places("finland:200,france")]
    [('finland', 200000.0), ('france', inf)]
    """
    places: dict[str, Place] = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        name, sign, number = part.partition(":")
        try:
            watts = 1e3 * float(number) if sign else math.inf
        except ValueError:
            watts = math.nan
        if not watts > 0:
            raise InputError(f'--place: expected PLACE:KW, got "{part[:60]}"', "finland:200,france")
        if name in places:
            raise InputError(f"--place: expected {name} once, got it twice")
        intensity = entries.read("grids", name).given["carbon.grid.intensity"]
        places[name] = Place(name, watts, _tariff(name), intensity)
    if not places:
        raise InputError("--place: expected a place, got none", "finland:200,france")
    return list(places.values())


def _tariff(name: str) -> float | None:
    """What a joule costs by `econ.electricity.price`; None where the catalog has no tariff."""
    if name not in entries.names("tariffs"):
        return None
    given = entries.read("tariffs", name).given
    energy, demand, factor, tax = (
        given[f"econ.electricity.{part}"]
        for part in ("energy_price", "demand_price", "load_factor", "tax_share")
    )
    return (energy + demand / factor) * (1 + tax)


def placed(option: Option, places: Sequence[Place], goal: str = "electricity") -> list[Placed]:
    """The replicas of the peak by place, with the least electricity cost or emissions.

    Replicas are alike, so that the best place is filled first. Raises where the places have too little power.
    """
    if goal not in GOALS:
        raise InputError(f'--place-by: expected {" or ".join(GOALS)}, got "{goal[:40]}"')
    if option.rated_watts is None or option.watts is None:
        raise InfeasibleError(f"--place: the power of {option.gpu} is not known")
    each, mean = option.rated_watts / option.replicas, option.watts / option.replicas
    left = option.replicas
    rows = []
    for place in sorted(places, key=lambda place: _price(place, goal)):
        count = left if math.isinf(place.watts) else min(left, math.floor(place.watts / each))
        left -= count
        if count:
            joules = count * mean * HOUR
            rows.append(
                Placed(
                    place.name, count, count * each,
                    None if math.isinf(place.watts) else place.watts,
                    None if place.usd_per_joule is None else joules * place.usd_per_joule,
                    joules * place.kilograms_per_joule,
                )
            )  # fmt: skip
    if left:
        there = math.fsum(place.watts for place in places)
        raise InfeasibleError(
            f"--place: {option.replicas:,} replicas of {each / 1e3:,.4g} kW at most each do not fit "
            f"{there / 1e3:,.6g} kW in {len(places)} places, {left:,} are left",
            "name more places or more power, or --minimize power",
        )
    return rows


def _price(place: Place, goal: str) -> tuple[float, float]:
    price = math.inf if place.usd_per_joule is None else place.usd_per_joule
    pair = (price, place.kilograms_per_joule)
    return pair if goal == "electricity" else (pair[1], pair[0])
