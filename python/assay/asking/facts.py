"""Answers that are figures of a place, an accelerator or a model, not of a workload."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from assay.asking.cases import (
    RENT,
    Case,
    accelerator_of,
    assumptions,
    gpus_of,
    offer_of,
    serving_case,
    training_case,
)
from assay.asking.commands import SERVING, TRAINING, Solve
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.catalog import offers
from assay.errors import InputError

_FLEETS: Final = ("google", "meta", "microsoft", "aws")
_HOUR: Final = 3600.0


def _of(case: Case, target: str, *, intervals: bool = False) -> Outcome:
    result = case.resolve(target, intervals=intervals).run()
    if result.value is None:
        raise InputError(f"{target} needs more inputs: {', '.join(result.missing[:4])}")
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=case.assumed)


def pue(reading: Reading) -> Outcome:
    """PUE of a climate or of an operator's fleet."""
    provider = reading.get("provider")
    if provider is not None and provider not in _FLEETS:
        raise InputError(f"the catalog has no PUE of {provider}", "assay catalog list sites")
    site = reading.get("site") if provider is None else f"{provider}_fleet"
    case = Case(TRAINING, () if site is None else (f"sites/{site}",))
    outcome = _of(case, "thermal.dc.pue")
    assumed = () if site else ("a site in a temperate climate with cooling towers",)
    return Outcome(outcome.text, outcome.result, assumed=assumed)


def electricity(reading: Reading) -> Outcome:
    """The price of electricity in a place."""
    place = reading.get("place", "us_virginia")
    outcome = _of(Case(SERVING, (f"tariffs/{place}",)), "econ.electricity.price")
    assumed = () if "place" in reading.slots else ("in us_virginia",)
    return Outcome(outcome.text, outcome.result, assumed=assumed)


def carbon_intensity(reading: Reading) -> Outcome:
    """The carbon intensity of the grid of a place."""
    return _of(Case(SERVING, (f"grids/{reading.get('place')}",)), "carbon.grid.intensity")


def bandwidth(reading: Reading) -> Outcome:
    """Memory bandwidth of an accelerator."""
    return _of_accelerator(reading, "gpu.memory.bandwidth")


def memory_capacity(reading: Reading) -> Outcome:
    """Memory of an accelerator."""
    return _of_accelerator(reading, "gpu.memory.capacity")


def power_limit(reading: Reading) -> Outcome:
    """Board power limit of an accelerator."""
    return _of_accelerator(reading, "gpu.power.limit")


def peak(reading: Reading) -> Outcome:
    """Peak rate of an accelerator in 16 bits."""
    return _of_accelerator(reading, "gpu.peak_flops")


def layers(reading: Reading) -> Outcome:
    """Layers of a model."""
    return _of(serving_case(reading, fits=False), "architecture.layers")


def _of_accelerator(reading: Reading, target: str) -> Outcome:
    return _of(Case(SERVING, (f"accelerators/{accelerator_of(reading)}",)), target)


def gpu_price(reading: Reading) -> Outcome:
    """What GPUs cost to buy."""
    case = Case(SERVING, (f"accelerators/{accelerator_of(reading)}",))
    outcome = _of(case, "econ.gpu.price")
    gpus = gpus_of(reading)
    if gpus is None or gpus == 1:
        return outcome
    whole = gpus * (outcome.result.value or math.nan)
    text = f"{whole:,.0f} USD: {gpus:,} x {outcome.result.text}"
    assumed = ("bought, and without the nodes and the network that they need",)
    return replace(outcome, text=text, value=whole, unit="USD", assumed=assumed)


def buyable(reading: Reading) -> Outcome:
    """GPUs that a budget buys."""
    outcome = gpu_price(reading.with_values({"gpus": None}))
    number = math.floor(float(reading.get("budget")) / (outcome.result.value or math.nan))
    text = f"{number:,} x {accelerator_of(reading)} at {outcome.result.text}"
    assumed = ("the GPUs alone, without the nodes and the network that they need",)
    return replace(outcome, text=text, value=number, unit="GPU", assumed=assumed)


def rent(reading: Reading) -> Outcome:
    """What GPUs cost by the hour, or for some days: at a provider, the cheapest, or the usual offer."""
    accelerator = accelerator_of(reading)
    offer, assumed = offer_of(reading), []
    known = [kind for kind in offers.offers(accelerator) if kind.terms == "on-demand"]
    usual = offers.usual(accelerator)
    if not offer and "cheapest" in reading.rest and known:
        offer = min(known, key=lambda kind: kind.usd_per_hour).name
        assumed.append(f"{offer}, the cheapest of {', '.join(kind.provider for kind in known)}")
    elif not offer and usual is not None:
        assumed.append(f"its usual offer, {usual.name}")
    case = Case(SERVING, (f"accelerators/{accelerator}", "finance/rented"), offer=offer)
    if (price := reading.get("rent")) is not None:
        if offer:
            raise InputError("a price and an offer", "say one of them")
        case, assumed = case.given(econ__rent__price=f"{price:.10g} USD/(h*GPU)"), []
    outcome = _of(case, RENT)
    if reading.slots >= {"days", "per_time"}:
        raise InputError("a time and a cost by the month or the year", "say one of them")
    gpus, days = gpus_of(reading) or 1, reading.get("days", reading.get("per_time"))
    if "per_gpu" in reading.slots:
        gpus = 1
    if gpus == 1 and days is None:
        return replace(outcome, assumed=tuple(assumed))
    hours = 24 * days if days is not None else 1
    whole = (outcome.result.value or math.nan) * gpus * hours
    text = f"{whole:,.0f} USD: {gpus:,} x {hours:,.0f} h of {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="USD", assumed=tuple(assumed))


def owned_hour(reading: Reading) -> Outcome:
    """What an owned GPU costs by the hour of use."""
    case = training_case(reading.with_values({"finance": None}))
    outcome = _of(case.with_entries("finance/owned"), "econ.gpu.owned_rate")
    assumed = [line for line in assumptions(reading, "training") if not line.startswith("model")]
    used = case.value("econ.utilisation")
    assumed.append(f"used {used:.0%} of the time" if used is not None else "")
    return Outcome(outcome.text, outcome.result, assumed=tuple(filter(None, assumed)))


def parameters(reading: Reading) -> Outcome:
    """Weights of a model, those of a token where it has experts."""
    name = (
        "architecture.active_parameters" if "active" in reading.rest else "architecture.parameters"
    )
    return _of(serving_case(reading, fits=False), name)


def break_even(reading: Reading) -> Outcome:
    """The utilization at which an owned GPU costs as much as a rented one."""
    case = serving_case(
        reading.with_values(
            {"finance": None, "load": None, "model": None, "rent": None, "provider": None}
        )
    )
    price = reading.get("rent")
    if price is None:
        rented = replace(case.with_entries("finance/rented"), offer=offer_of(reading))
        price = (rented.value(RENT) or math.nan) * _HOUR
    power = (case.value("econ.gpu.power_rate") or 0.0) * _HOUR
    if not price > power:
        raise InputError(f"a rent of {price:.3g} USD/h is below the electricity of {power:.3g}")
    command = Solve(
        "econ.utilisation", f"econ.gpu.owned_rate={price - power:.6g} USD/(h*GPU)", case.preset,
        case.includes, tuple(case.assign),
    )  # fmt: skip
    result = command.run()
    assumed = [f"rent {price:.4g} USD/h, less electricity of {power:.3g}"]
    assumed += [line for line in case.assumed if not line.startswith("model")]
    text = f"break-even at {result.text} utilization of an owned {accelerator_of(reading)}"
    return Outcome(text, result, assumed=tuple(assumed))
