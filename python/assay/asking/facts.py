"""Answers that are figures of a place, an accelerator or a model, not of a workload."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount, rounded
from assay.asking.case import Case
from assay.asking.cases import (
    RENT,
    accelerator_of,
    assumptions,
    gpus_of,
    model_of,
    offer_of,
    require_place,
    serving_case,
    training_case,
)
from assay.asking.commands import SERVING, TRAINING
from assay.asking.outcome import Outcome, of_case, of_entry
from assay.asking.reading import Reading
from assay.catalog import models, offers
from assay.errors import InputError

_FLEETS: Final = ("google", "meta", "microsoft", "aws")
_BY_THE_HOUR: Final = re.compile(r"\bhour|\brent|\bcharge|\bcloud|\bprovider")
_RATES: Final = {
    "fp8": "gpu.rate_fp8", "int8": "gpu.rate_int8", "nvfp4": "gpu.rate_fp4", "mxfp4": "gpu.rate_fp4",
    "int4": "gpu.rate_int4",
}  # fmt: skip
"""Rates of formats, in those of 16 bits."""


def pue(reading: Reading) -> Outcome:
    """PUE of a climate or of an operator's fleet."""
    provider = reading.get("provider")
    if provider is not None and provider not in _FLEETS:
        raise InputError(f"the catalog has no PUE of {provider}", "assay catalog list sites")
    site = reading.get("site") if provider is None else f"{provider}_fleet"
    case = Case(TRAINING, () if site is None else (f"sites/{site}",))
    outcome = of_case(case, "thermal.dc.pue")
    assumed = () if site else ("a site in a temperate climate with cooling towers",)
    return Outcome(outcome.text, outcome.result, assumed=assumed)


def grid_emissions(reading: Reading) -> Outcome:
    """What an amount of electricity emits in a place."""
    require_place(reading, "grids")
    energy = float(reading.get("energy_amount"))
    outcome = carbon_intensity(reading.with_values({"energy_amount": None}))
    whole = energy * (outcome.result.value or math.nan)
    text = f"{amount(whole, 'kg')}: {energy:,.6g} kWh at {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="kg", scales=True)


def electricity(reading: Reading) -> Outcome:
    """The price of electricity in a place."""
    require_place(reading, "tariffs")
    place = reading.get("place", "us_virginia")
    outcome = of_entry(Case(SERVING, (f"tariffs/{place}",)), "econ.electricity.price")
    assumed = () if "place" in reading.slots else ("in us_virginia",)
    return Outcome(outcome.text, outcome.result, assumed=assumed)


def carbon_intensity(reading: Reading) -> Outcome:
    """The carbon intensity of the grid of a place."""
    return of_entry(Case(SERVING, (f"grids/{reading.get('place')}",)), "carbon.grid.intensity")


def bandwidth(reading: Reading) -> Outcome:
    """Memory bandwidth of an accelerator, or of several together."""
    return _together(reading, _of_accelerator(reading, "gpu.memory.bandwidth"))


def memory_capacity(reading: Reading) -> Outcome:
    """Memory of an accelerator, or of several together."""
    return _together(reading, _of_accelerator(reading, "gpu.memory.capacity"))


def _together(reading: Reading, outcome: Outcome) -> Outcome:
    """The figure of as many GPUs as the question says."""
    gpus = gpus_of(reading)
    if gpus in (None, 1):
        return outcome
    each, unit = outcome.number
    unit = unit.replace("/(s*GPU)", "/s").removesuffix("/GPU")
    whole = gpus * (each or math.nan)
    text = f"{whole:,.6g} {unit}: {gpus:,} x {outcome.text.rpartition(': ')[2]}"
    return replace(outcome, text=text, value=whole, unit=unit)


def multiprocessors(reading: Reading) -> Outcome:
    """Multiprocessors of an accelerator."""
    outcome = _of_accelerator(reading, "gpu.multiprocessors")
    return replace(outcome, text=f"{outcome.result.value:,.0f} streaming multiprocessors")


def node_gpus(reading: Reading) -> Outcome:
    """GPUs of a node."""
    return of_entry(Case(TRAINING, (f"nodes/{reading.get('node')}",)), "cluster.node.gpus")


def operations(name: str | None) -> str:
    """The unit of a rate in a format: operations on integers are none of floating point."""
    return "TOP/s" if (name or "").startswith("int") else "TFLOP/s"


def peak(reading: Reading) -> Outcome:
    """Peak rate of an accelerator, dense: in 16 bits, or in a format of fewer."""
    outcome = _of_accelerator(reading, "gpu.peak_flops")
    name = reading.get("format")
    if name in (None, "bf16", "f16"):
        return _together(reading, outcome)
    if name not in _RATES:
        raise InputError(f"the catalog has no rate of {name}", "fp8, int8, fp4 or 16 bits")
    times = _of_accelerator(reading, _RATES[name]).result
    if not times.value:
        raise InputError(f"{accelerator_of(reading)} has no tensor cores of {name}")
    whole = times.value * (outcome.result.value or math.nan)
    said = f"{rounded(whole)} {operations(name)} in {name.removeprefix('nv').removeprefix('mx')}"
    text = f"{said}: {times.value:g} times {outcome.result.text}"
    commands = (outcome.result.command, times.command)
    outcome = replace(outcome, text=text, commands=commands, value=whole, unit="TFLOP/s")
    return (
        _together(reading, replace(outcome, text=f"peak: {said}")) if gpus_of(reading) else outcome
    )


def link_bandwidth(reading: Reading) -> Outcome:
    """Bandwidth of the links of a GPU to the others of its node."""
    outcome = _of_accelerator(reading, "gpu.link.bandwidth")
    both = 2 * (outcome.result.value or math.nan)
    return replace(outcome, text=f"{outcome.text}; {rounded(both)} GB/s both ways")


def of_model(variable: str) -> Callable[[Reading], Outcome]:
    """The answer that is a variable of a model's architecture."""

    def answer(reading: Reading) -> Outcome:
        case = serving_case(reading, fits=False)
        said = tuple(line for line in case.assumed if not line.startswith("accelerator"))
        return of_case(replace(case, assumed=said), variable)

    return answer


def of_accelerator(variable: str) -> Callable[[Reading], Outcome]:
    """The answer that is a variable of an accelerator."""
    return lambda reading: _of_accelerator(reading, variable)


def model_context(reading: Reading) -> Outcome:
    """The longest context that a model was made for."""
    model = model_of(reading)
    if models.find(model).context is None:
        raise InputError(f"the catalog does not say the context of {model}")
    return of_model("architecture.context")(reading)


def _of_accelerator(reading: Reading, target: str) -> Outcome:
    return of_entry(Case(SERVING, (f"accelerators/{accelerator_of(reading)}",)), target)


def gpu_price(reading: Reading) -> Outcome:
    """What GPUs cost to buy."""
    case = Case(SERVING, (f"accelerators/{accelerator_of(reading)}",))
    outcome = of_entry(case, "econ.gpu.price")
    gpus = gpus_of(reading)
    if gpus is None or gpus == 1:
        return outcome
    whole = gpus * (outcome.result.value or math.nan)
    text = f"{amount(whole, 'USD')}: {gpus:,} x {outcome.result.text}"
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
    ways = {"finance", "offer", "provider", "rent", "days", "per_time"}
    if (
        "nodes" in reading.slots
        and not reading.slots & ways
        and not _BY_THE_HOUR.search(reading.rest)
    ):
        raise InputError(
            "a server to buy or to rent?", 'say so: "how much is a DGX H100", or "... per hour"'
        )
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
    if price is None and not offers.offers(accelerator):
        raise InputError(f"the catalog has no rent of {accelerator}", "assay catalog list rents")
    outcome = of_entry(case, RENT)
    if reading.slots >= {"days", "per_time"}:
        raise InputError("a time and a cost by the month or the year", "say one of them")
    gpus, days = gpus_of(reading) or 1, reading.get("days", reading.get("per_time"))
    if "per_gpu" in reading.slots:
        gpus = 1
    if (hours := reading.get("gpu_hours")) is not None:
        if days is not None or gpus != 1:
            raise InputError("GPU-hours, and GPUs or a time", "say one of them")
        whole = hours * (outcome.result.value or math.nan)
        text = f"{amount(whole, 'USD')}: {hours:,.0f} GPU-hours of {outcome.result.text}"
        return replace(outcome, text=text, value=whole, unit="USD", assumed=tuple(assumed))
    if gpus == 1 and days is None:
        return replace(outcome, assumed=tuple(assumed))
    hours = 24 * days if days is not None else 1
    whole = (outcome.result.value or math.nan) * gpus * hours
    text = f"{amount(whole, 'USD')}: {gpus:,} x {hours:,.0f} h of {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="USD", assumed=tuple(assumed))


def hours_bought(reading: Reading) -> Outcome:
    """GPU-hours that a budget rents."""
    outcome = rent(reading.with_values({"budget": None, "finance": "rent"}))
    hours = float(reading.get("budget")) / (outcome.result.value or math.nan)
    text = f"{hours:,.0f} GPU-hours of {accelerator_of(reading)} at {outcome.result.text}"
    return replace(outcome, text=text, value=hours, unit="GPU*h")


def owned_hour(reading: Reading) -> Outcome:
    """What an owned GPU costs by the hour of use."""
    case = training_case(reading.with_values({"finance": None}))
    outcome = of_case(case.with_entries("finance/owned"), "econ.gpu.owned_rate")
    assumed = [line for line in assumptions(reading, "training") if not line.startswith("model")]
    used = case.value("econ.utilisation")
    assumed.append(f"used {used:.0%} of the time" if used is not None else "")
    return Outcome(outcome.text, outcome.result, assumed=tuple(filter(None, assumed)))


def parameters(reading: Reading) -> Outcome:
    """Weights of a model, those of a token where it has experts."""
    active = re.search(r"\bactiv(?:e|ates?|ated)\b", reading.rest)
    name = "architecture.active_parameters" if active else "architecture.parameters"
    return of_model(name)(reading)
