"""Answers about money without a workload: prices of nodes, electricity of GPUs, when buying pays."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount, rounded
from assay.asking.case import GPUS_OF_A_NODE, Case
from assay.asking.cases import (
    RENT,
    accelerator_of,
    gpus_of,
    offer_of,
    require_place,
    serving_case,
    with_node_as_gpus,
)
from assay.asking.commands import SERVING, Solve
from assay.asking.outcome import Outcome
from assay.asking.ownership import hourly_parts, parts
from assay.asking.periods import HOURS_OF_A_DAY, PERIODS
from assay.asking.reading import Reading
from assay.asking.training import power
from assay.errors import InputError

_HOUR: Final = 3600.0
_SHARED: Final = "each GPU with its share of a server of 8, of the network and of the cooling"
_YEAR: Final = 365.0
_PROVISIONED: Final = (
    "the average draw of training; breakers and transformers are sized by the node's data sheet, which is above "
    "the design power of its parts"
)


def node_price(reading: Reading) -> Outcome:
    """What a node costs to buy: its GPUs, and the rest of it."""
    node = str(reading.get("node"))
    nodes = int(reading.get("nodes", 1))
    of_one = with_node_as_gpus(reading.with_values({"nodes": None}))
    if of_one.get("accelerator") is None:
        raise InputError(f"the catalog has no price of {node}", "assay catalog list prices")
    gpus, accelerator = int(of_one.get("gpus")), of_one.get("accelerator")
    case = Case(SERVING, (f"accelerators/{accelerator}", f"nodes/{node}"))
    price = case.resolve("econ.gpu.price", intervals=False).run()
    rest = case.resolve("econ.server.price", intervals=False).run()
    if price.value is None or rest.value is None:
        raise InputError(f"the catalog has no price of {node}", "assay catalog list prices")
    whole = nodes * (gpus * price.value + rest.value)
    of_nodes = f"{nodes} x (" if nodes > 1 else ""
    text = (
        f"{amount(whole, 'USD')}: {of_nodes}{gpus} x {price.text}, and {rest.text} for the rest of the node"
        f"{')' if nodes > 1 else ''}"
    )
    assumed = ("bought, without the network between nodes",)
    return Outcome(text, price, (price.command, rest.command), assumed, value=whole, unit="USD")


def electricity_bill(reading: Reading) -> Outcome:
    """What the electricity of busy GPUs costs, by the hour or for some time."""
    require_place(reading, "tariffs")
    kilowatts, drawn = _meter_kilowatts(reading)
    money = {slot: reading.get(slot) for slot in ("place", "electricity_price", "accelerator")}
    case = serving_case(reading.with_values({"gpus": None, "nodes": None, **money}), fits=False)
    price = case.resolve("econ.electricity.price", intervals=False).run()
    days = reading.get("days", reading.get("per_time", 1 / 24))
    period = f"for {days:g} days" if "days" in reading.slots else f"per {PERIODS[days]}"
    hours = HOURS_OF_A_DAY * days
    whole = kilowatts * hours * (price.value or math.nan)
    text = f"{amount(whole, 'USD')} {period}: {rounded(kilowatts)} kW at the meter for {hours:,.0f} h at {price.text}"
    # A price that the question gives is not used by the power.
    assumed = (
        *drawn.assumed,
        _SHARED,
        *(() if money["place"] or money["electricity_price"] else ("in us_virginia",)),
    )
    commands = (drawn.result.command, price.command)
    return Outcome(text, drawn.result, commands, assumed, value=whole, unit="USD")


def _meter_kilowatts(reading: Reading) -> tuple[float, Outcome]:
    """The power of busy GPUs at the meter, each with its share of a node, network and cooling."""
    gpus = gpus_of(reading) or 1
    money = dict.fromkeys(("nodes", "electricity_price", "days", "per_time", "place"))
    drawn = power(reading.with_values({**money, "gpus": gpus}))
    watts = drawn.number[0] if drawn.value is not None else (drawn.result.value or math.nan) / 1e3
    return watts or math.nan, drawn


def gpus_energy(reading: Reading) -> Outcome:
    """What busy GPUs draw at the meter in some time."""
    kilowatts, drawn = _meter_kilowatts(reading)
    days = float(reading.get("days", reading.get("per_time")))
    whole = kilowatts * days * HOURS_OF_A_DAY
    text = f"{amount(whole, 'kWh')}: {rounded(kilowatts)} kW at the meter for {days * HOURS_OF_A_DAY:,.0f} h"
    return Outcome(text, drawn.result, assumed=(*drawn.assumed, _SHARED), value=whole, unit="kWh")


def gpus_emissions(reading: Reading) -> Outcome:
    """What the electricity of busy GPUs emits in a place, in some time."""
    require_place(reading, "grids")
    kilowatts, drawn = _meter_kilowatts(reading)
    days = float(reading.get("days", reading.get("per_time")))
    grid = Case(SERVING, (f"grids/{reading.get('place')}",))
    intensity = grid.resolve("carbon.grid.intensity", intervals=False).run()
    whole = kilowatts * days * HOURS_OF_A_DAY * (intensity.value or math.nan)
    text = (
        f"{amount(whole, 'kg')}: {rounded(kilowatts)} kW at the meter for {days * HOURS_OF_A_DAY:,.0f} h at "
        f"{intensity.text}"
    )
    assumed = (*drawn.assumed, _SHARED, "of its electricity, without that of making the GPUs")
    commands = (drawn.result.command, intensity.command)
    return Outcome(text, drawn.result, commands, assumed, value=whole, unit="kg")


def powered(reading: Reading) -> Outcome:
    """How many busy GPUs a power at the meter feeds."""
    given = float(reading.get("power_amount"))
    each, drawn = _meter_kilowatts(
        reading.with_values({"power_amount": None, "gpus": GPUS_OF_A_NODE})
    )
    each /= GPUS_OF_A_NODE
    number = math.floor(given / each)
    text = (
        f"{number:,} GPUs by average draw: {given:,.6g} kW at {rounded(each)} kW at the meter for each "
        f"{accelerator_of(reading)}; {_by_design_power(given, drawn)}"
    )
    assumed = (*drawn.assumed, _SHARED, _PROVISIONED)
    return Outcome(text, drawn.result, assumed=assumed, value=number, unit="GPU")


def _by_design_power(given: float, drawn: Outcome) -> str:
    """How many GPUs a power feeds where each node draws what it is designed for."""
    command = drawn.result.command
    case = Case(command.preset, command.includes, command.assign)
    node, gpus, overhead = case.values(
        "cluster.node.design_power", "cluster.node.gpus", "thermal.dc.pue"
    )
    if not (node and gpus and overhead):
        raise InputError("the catalog has no design power of its node")
    each = node / gpus * overhead / 1e3
    return f"{math.floor(given / each):,} by design power, {rounded(each)} kW each with a PUE of {overhead:.3g}"


def break_even(reading: Reading) -> Outcome:
    """The utilization at which an owned GPU costs as much as a rented one."""
    if re.search(r"\btokens?\b", reading.rest):
        raise InputError(
            "a break-even of tokens: only the utilization at which owning pays is solved for",
            "leave the tokens out",
        )
    case, price, power_rate = _owned(reading)
    command = Solve(
        "econ.utilisation", f"econ.gpu.owned_rate={price - power_rate:.6g} USD/(h*GPU)", case.preset,
        case.includes, tuple(case.assign),
    )  # fmt: skip
    result = command.run()
    assumed = [f"rent {price:.4g} USD/h, less electricity of {power_rate:.3g}"]
    assumed += [line for line in case.assumed if not line.startswith("model")]
    text = f"break-even at {result.text} utilization of an owned {accelerator_of(reading)}"
    if (result.value or 0) > 100:
        text = f"never: renting is cheaper even at full use ({result.text} utilization would be needed)"
    said, rows = parts(case)
    return Outcome(text, result, assumed=(*assumed, said), rows=rows)


def payback(reading: Reading) -> Outcome:
    """How long a GPU must be used until its price is what its rent would have been."""
    case, rent, power_rate = _owned(reading)
    result = case.needed_by("econ.gpu.price").resolve("econ.gpu.price", intervals=False).run()
    hours = (result.value or math.nan) / (rent - power_rate)
    days = hours / HOURS_OF_A_DAY
    text = (
        f"{days:,.0f} days of use ({hours:,.0f} h, {days / _YEAR:.2g} years): {result.text}, at a rent of "
        f"{rent:.4g} USD/h less electricity of {power_rate:.3g}"
    )
    assumed = [line for line in case.assumed if not line.startswith("model")]
    assumed.append("the price of the GPU alone, without node, network, site and interest")
    return Outcome(text, result, assumed=tuple(assumed), value=days, unit="day")


def buy_or_rent(reading: Reading) -> Outcome:
    """What GPUs cost over some time, bought and rented."""
    days, gpus = float(reading.get("days")), gpus_of(reading) or 1
    one = reading.with_values({"gpus": None, "nodes": None, "days": None})
    case, rent, power_rate = _owned(one)
    result = case.needed_by("econ.gpu.price").resolve("econ.gpu.price", intervals=False).run()
    hours = HOURS_OF_A_DAY * days
    bought = gpus * ((result.value or math.nan) + power_rate * hours)
    rented = gpus * rent * hours
    texts = {
        "buy": f"{amount(bought, 'USD')}: {gpus:,} x ({result.text}, and {hours:,.0f} h of electricity at "
        f"{power_rate:.3g} USD/h)",
        "rent": f"{amount(rented, 'USD')}: {gpus:,} x {hours:,.0f} h at {rent:.4g} USD/h",
    }
    choice = "buy" if bought < rented else "rent"
    ratio = max(bought, rented) / min(bought, rented)
    assumed = [line for line in case.assumed if not line.startswith("model")]
    assumed.append("used all of the time; bought without node, network, site and interest")
    return Outcome(
        f"{choice}, by {ratio:.3g} times: {texts[choice]}", result, assumed=tuple(assumed),
        value=min(bought, rented), unit="USD", choice=choice, ratio=ratio,
        rows=[(name, texts[name]) for name in (choice, *(set(texts) - {choice}))],
    )  # fmt: skip


def ownership(reading: Reading) -> Outcome:
    """What it costs to own GPUs for some time, electricity included: written off over that time."""
    days, gpus = float(reading.get("days")), gpus_of(reading) or 1
    kept = dict.fromkeys(("gpus", "nodes", "days", "finance", "model"))
    case = serving_case(reading.with_values({**kept, "load": 1})).given(
        econ__machines__lifetime=f"{days / _YEAR:.10g} year"
    )
    said, hourly = hourly_parts(case)
    hourly["electricity"] = (case.value("econ.gpu.power_rate") or math.nan) * _HOUR
    hours = HOURS_OF_A_DAY * days * gpus
    whole = hours * math.fsum(hourly.values())
    result = case.needed_by("econ.gpu.price").resolve("econ.gpu.price", intervals=False).run()
    text = (
        f"{amount(whole, 'USD')} in {days / _YEAR:.3g} years: {gpus:,} x {HOURS_OF_A_DAY * days:,.0f} h at "
        f"{amount(whole / hours, 'USD')} per GPU-hour"
    )
    assumed = [line for line in case.assumed if not line.startswith("model")]
    places = () if reading.slots & {"place", "electricity_price"} else ("in us_virginia",)
    rows = [(name, amount(hours * rate, "USD")) for name, rate in hourly.items()]
    shown = (
        case.needed_by(name).resolve(name, intervals=False)
        for name in ("econ.gpu.owned_rate", "econ.gpu.power_rate")
    )
    return Outcome(
        text, result, (result.command, *shown), (*assumed, said, "used all of the time", *places),
        value=whole, unit="USD", rows=rows,
    )  # fmt: skip


def _owned(reading: Reading) -> tuple[Case, float, float]:
    """The case of an owned GPU, its rent and its electricity by the hour."""
    case = serving_case(
        reading.with_values(
            {
                "finance": None,
                # An hour that is paid for is one of use.
                "load": 1,
                "model": None,
                "rent": None,
                "provider": None,
                "offer": None,
            }
        )
    )
    price = reading.get("rent")
    if price is None:
        rented = replace(case.with_entries("finance/rented"), offer=offer_of(reading))
        price = (rented.value(RENT) or math.nan) * _HOUR
    power_rate = (case.value("econ.gpu.power_rate") or 0.0) * _HOUR
    if not price > power_rate:
        raise InputError(
            f"a rent of {price:.3g} USD/h is below the electricity of {power_rate:.3g}"
        )
    return case, float(price), power_rate
