"""Accelerators side by side by a figure of their own: the most memory, FLOP/s by dollar, all below a rent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from assay.asking.amounts import amount, rounded
from assay.asking.case import Case
from assay.asking.commands import SERVING, Command
from assay.asking.dividing import division, no_division
from assay.asking.facts import peak
from assay.asking.figures import COMPUTE, FIGURES, POWER, PRICE, Figure
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.catalog import entries, offers
from assay.errors import InputError
from assay.model.language.units import parse_unit
from assay.plurals import count

_SHOWN: Final = 8
"""Accelerators that are listed."""
_NO_GPU: Final = ("tpu_", "trainium", "gaudi", "cpu_")
_OF_ANY: Final = re.compile(r"\b(?:accelerators?|chips?|hardware)\b")
_GAMING: Final = re.compile(r"\b(?:gaming|consumer|geforce|desktop)\b")
_LEAST: Final = re.compile(
    r"\b(?:least|lowest|smallest|fewest|cheapest|slowest|less|lower|worst|minimum)\b"
)
_AT_LEAST: Final = re.compile(r"\bat least\b|\bminimum\b|\bor more\b|\bmore than\b|>")
_SOLD: Final = re.compile(r"\b(\d+)GB\b")
_CHEAPER: Final = re.compile(r"\bcheap(?:er|est)\b|\bbest\b")
"""Of a price by another figure, the best is the lowest."""
_DIVIDED: Final = 'such as "which GPU has the most FLOPs per dollar", or "memory per watt of H100"'
_SAME: Final = 1.005
_STUDIES: Final = ("market", "deepseek")
"""Sources of prices that rent nothing out: an index, and a report that assumes one."""


def _names(reading: Reading) -> list[str]:
    """The accelerators that a question is about: GPUs, unless it says accelerators or chips."""
    names = [name for name in entries.names("accelerators") if not name.startswith("cpu_")]
    if _GAMING.search(reading.rest):
        return [name for name in names if name.startswith("rtx_")]
    if _OF_ANY.search(reading.rest):
        return names
    return [name for name in names if not name.startswith(_NO_GPU)]


def best(reading: Reading) -> Outcome:
    """The accelerator of the catalog that has the most, or the least, of something."""
    divided = division(reading.rest)
    if divided is None and no_division(reading.rest):
        raise InputError("one figure by one other, of those of an accelerator", _DIVIDED)
    figure = next(figure for figure in FIGURES if figure.words.search(reading.rest))
    by = None
    if divided is not None:
        figure, by = divided.figure, divided.by
        if divided.hourly:
            raise InputError("of all accelerators by their rent: not every one has one", _DIVIDED)
    least = _LEAST.search(reading.rest) is not None
    least = least or (
        divided is not None and figure is PRICE and _CHEAPER.search(reading.rest) is not None
    )
    values: dict[str, float] = {}
    for name in _names(reading):
        value, divisor = _case(name).values(figure.variable, (by or figure).variable)
        if value and (by is None or divisor):
            values[name] = value if by is None or divisor is None else value * by.scale / divisor
    if not values:
        raise InputError("the catalog has no accelerator with both figures", _DIVIDED)
    return _ordered(values, figure, by, least)


def _case(name: str) -> Case:
    return Case(SERVING, (f"accelerators/{name}",))


def _ordered(
    values: Mapping[str, float], figure: Figure, by: Figure | None, least: bool
) -> Outcome:
    ordered = sorted(values, key=lambda name: values[name] * (1 if least else -1))
    unit = "" if by is None else by.divided
    times = 1.0 if by is None else by.times

    def text(name: str) -> str:
        value = times * values[name] / figure.scale
        return (
            f"{amount(value, 'USD')}{unit}"
            if figure is PRICE
            else f"{rounded(value)} {figure.unit}{unit}"
        )

    first, second = ordered[:2]
    ratio = max(values[first], values[second]) / min(values[first], values[second])
    same = [
        name
        for name in ordered
        if max(values[name] / values[first], values[first] / values[name]) < _SAME
    ]
    lead = f"{', '.join(same)}: each" if len(same) > 1 else f"{first}:"
    result = _case(first).resolve(figure.variable, intervals=False).run()
    commands: list[Command] = [result.command]
    if by is not None:
        commands.append(_case(first).resolve(by.variable, intervals=False))
    assumed = [f"of {count(len(values), 'accelerator')} of the catalog, each alone"]
    if COMPUTE in (by, figure):
        assumed.append("dense, in 16 bits")
    if PRICE in (by, figure):
        assumed.append("prices to buy, of those that the catalog has one of")
    if by is POWER:
        assumed.append("by the limit of board power")
    return Outcome(
        f"{lead} {text(first)}; then {ordered[len(same)]}, {text(ordered[len(same)])}" if len(same) < len(ordered)
        else f"{lead} {text(first)}",
        result, tuple(commands), tuple(assumed), choice=first, ratio=ratio,
        value=times * values[first] / figure.scale, unit=figure.unit if by is None else f"{figure.unit}{unit}",
        rows=[(name, text(name)) for name in ordered[:_SHOWN]],
    )  # fmt: skip


def _as_sold(name: str, capacity: float) -> float:
    """The GB that an accelerator is sold with: those of its title, else GiB where they are whole."""
    if match := _SOLD.search(entries.read("accelerators", name).title):
        return float(match[1])
    size = capacity / 2**30
    return round(size) if math.isclose(size, round(size)) else capacity / 1e9


def listed(reading: Reading) -> Outcome:
    """The accelerators with at least so much memory, or that are rented out for less than a limit."""
    size, limit = reading.get("memory"), reading.get("rent_limit")
    bound = next((part.words for part in reading.mentions if part.slot == "bound"), "")
    if bound and not bound.startswith(("more", "greater", "larger")):
        raise InputError(f'"{bound}": at least or more than so much is listed', "say so")
    if size is not None and not bound and not _AT_LEAST.search(reading.rest):
        raise InputError("how much memory at least?", 'such as "GPUs with at least 80 GB"')
    rows: list[tuple[float, str, str]] = []
    for name in _names(reading):
        own = entries.read("accelerators", name).given.get("gpu.memory.capacity", 0.0)
        offer = offers.usual(name)
        if offer is not None and offer.provider in _STUDIES:
            offer = None
        if size is not None and max(own / 1e9, own / 2**30) < size - 0.5:
            continue
        if size is not None and bound and _as_sold(name, own) <= size:
            continue
        if limit is not None and (offer is None or offer.usd_per_hour > limit):
            continue
        price = "" if offer is None else f", {offer.text}"
        order = -own if limit is None or offer is None else offer.usd_per_hour
        rows.append((order, name, f"{rounded(own / 1e9)} GB{price}"))
    if not rows:
        raise InputError("no accelerator of the catalog is so", "assay catalog list accelerators")
    rows.sort()
    names = [name for _, name, _ in rows]
    result = _case(names[0]).resolve("gpu.memory.capacity", intervals=False).run()
    assumed = ("rents are the usual offers of the catalog",) if limit is not None else ()
    return Outcome(
        f"{count(len(names), 'accelerator')}: {', '.join(names)}", result, (), assumed,
        value=len(names), unit="1", rows=[(name, text) for _, name, text in rows],
    )  # fmt: skip


def offers_within(reading: Reading) -> Outcome:
    """The offers of an accelerator below a limit of its rent."""
    accelerator, limit = str(reading.get("accelerator")), float(reading.get("rent_limit"))
    terms, provider = reading.get("offer"), reading.get("provider")
    every = sorted(
        (
            offer
            for offer in offers.offers(accelerator)
            if terms in (None, offer.terms)
            and provider in (None, offer.provider)
            and offer.provider not in _STUDIES
        ),
        key=lambda offer: offer.usd_per_hour,
    )
    if not every:
        raise InputError(
            f"the catalog has no such offer of {accelerator}", "assay catalog list rents"
        )
    within = [offer for offer in every if offer.usd_per_hour <= limit]
    case = Case(SERVING, (f"accelerators/{accelerator}", "finance/rented"), offer=every[0].name)
    result = case.resolve("econ.rent.price", intervals=False).run()
    texts = ", ".join(f"{offer.name} at ${offer.usd_per_hour:.4g}" for offer in within)
    text = f"{texts} per GPU-hour"
    if not within:
        text = f"none: the cheapest of the catalog is {every[0].name} at {result.text}"
    on_demand = [offer for offer in within if offer.terms == "on-demand"]
    said = () if on_demand or not within else (f"none on demand below ${limit:g}",)
    return Outcome(
        text, result, assumed=said, verdict="yes" if within else "no",
        rows=[(offer.name, f"${offer.usd_per_hour:.4g} per GPU-hour") for offer in every],
    )  # fmt: skip


def ridge(reading: Reading) -> Outcome:
    """Operations by byte at which an accelerator's compute takes as long as its memory."""
    compute = peak(reading)
    rate, unit = compute.number
    own = _case(str(reading.get("accelerator")))
    bandwidth = own.resolve("gpu.memory.bandwidth", intervals=False).run()
    (moved,) = own.values("gpu.memory.bandwidth")
    if rate is None or not moved:
        raise InputError(f"the catalog has no bandwidth of {reading.get('accelerator')}")
    value = rate * float(parse_unit(unit.replace("/(s*GPU)", "/s")).scale) / moved
    text = f"{rounded(value)} FLOP/byte: {compute.text.rpartition(': ')[2]} over {bandwidth.text}"
    said = f"dense, in {reading.get('format', '16 bits')}"
    commands = (*(compute.commands or (compute.result.command,)), bandwidth.command)
    return Outcome(text, compute.result, commands, (said,), value=value, unit="FLOP/byte")


def equivalent(reading: Reading) -> Outcome:
    """How many of one accelerator have as much of something as another."""
    many, one = reading.values("accelerator")
    gpus = int(reading.get("gpus", 1))
    figure = next(figure for figure in FIGURES if figure.words.search(reading.rest))
    (each,), (whole,) = (_case(name).values(figure.variable) for name in (many, one))
    ratio = gpus * (whole or math.nan) / (each or math.nan)
    result = _case(one).resolve(figure.variable, intervals=False).run()
    commands = (result.command, _case(many).resolve(figure.variable, intervals=False))
    number = math.ceil(ratio - 1e-9)
    text = f"{number:,} x {many} ({ratio:.3g}): {gpus} x {one} {'has' if gpus == 1 else 'have'} {result.text}"
    return Outcome(text, result, commands, value=number, unit="GPU", ratio=ratio)
