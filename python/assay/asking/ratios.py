"""One figure of an accelerator by another: FLOP/s for a dollar, memory for a watt, the price of a GB."""

from __future__ import annotations

from typing import Final

from assay.asking.amounts import amount, rounded
from assay.asking.case import Case
from assay.asking.cases import accelerator_of
from assay.asking.commands import SERVING
from assay.asking.dividing import division
from assay.asking.facts import operations, peak, rent
from assay.asking.figures import COMPUTE, POWER, PRICE, Figure
from assay.asking.outcome import Outcome, of_entry
from assay.asking.reading import Reading
from assay.catalog import entries
from assay.errors import InputError

_HINT: Final = 'such as "FLOPs per dollar of an H100", or "memory per watt of H100 and B200"'
_UNITS: Final = {"TFLOP/s": 1e12, "TFLOP/(s*GPU)": 1e12}


def ratio(reading: Reading) -> Outcome:
    """A figure of an accelerator by another of the same one, with where a price comes from."""
    divided = division(reading.rest)
    if divided is None:
        raise InputError("expected one figure of an accelerator by one other", _HINT)
    hired = divided.hourly or reading.get("finance") == "rent"
    if hired and PRICE not in (divided.figure, divided.by):
        raise InputError("a rent, and no price in the figure", _HINT)
    top, top_value = _figure(reading, divided.figure, hired)
    bottom, bottom_value = _figure(reading, divided.by, hired)
    times = 1.0 if hired else divided.by.times
    value = times * top_value / bottom_value
    below = " per USD/h" if hired and divided.by is PRICE else divided.by.divided
    unit = "USD/h" if hired and divided.figure is PRICE else divided.figure.unit
    if divided.figure is PRICE:
        written = f"{amount(value, 'USD')}{' an hour' if hired else ''}{_by_format(reading, below)}"
    else:
        written = f"{rounded(value)} {_by_format(reading, unit)}{_by_format(reading, below)}"
    commands = tuple(
        command
        for outcome in (top, bottom)
        for command in (outcome.commands or (outcome.result.command,))
    )
    assumed = (*top.assumed, *bottom.assumed, *_said(reading, divided.figure, divided.by, hired))
    return Outcome(
        f"{written}: {_short(top)} over {_short(bottom)}", top.result, commands,
        tuple(dict.fromkeys(assumed)), value=value, unit=f"{unit}{below}",
    )  # fmt: skip


def _by_format(reading: Reading, unit: str) -> str:
    """A unit as it is written of the question's format."""
    return unit.replace("TFLOP/s", operations(reading.get("format")))


def _figure(reading: Reading, figure: Figure, hired: bool) -> tuple[Outcome, float]:
    """A figure of one accelerator, and its value in the unit that it is written in."""
    name = accelerator_of(reading)
    # Of one GPU by the same GPU: as many of both are the same.
    one = reading.with_values({"gpus": None, "nodes": None})
    if figure is COMPUTE:
        outcome = peak(one)
        value, unit = outcome.number
        return outcome, _known(value, name, figure.variable) * _UNITS[unit] / figure.scale
    if figure is PRICE and hired:
        outcome = rent(one.with_values({"finance": "rent", "format": None}))
        return outcome, _known(outcome.result.value, name, "rent")
    case = Case(SERVING, (f"accelerators/{name}",))
    what = "price" if figure is PRICE else figure.variable
    own = _known(case.value(figure.variable), name, what)
    return of_entry(case, figure.variable), own / figure.scale


def _known(value: float | None, name: str, what: str) -> float:
    if not value:
        raise InputError(f"the catalog has no {what} of {name}", "assay catalog list accelerators")
    return value


def _short(outcome: Outcome) -> str:
    """The figure alone, without what it means."""
    return outcome.text.rpartition(": ")[2]


def _said(reading: Reading, figure: Figure, by: Figure, hired: bool) -> list[str]:
    """What the figures are, beside their values."""
    said = []
    pair = (figure, by)
    if COMPUTE in pair:
        said.append("dense" if reading.get("format") else "dense, in 16 bits")
    if POWER in pair:
        said.append("by the limit of board power")
    if PRICE in pair and not hired:
        name = accelerator_of(reading)
        price = entries.read("prices", name).values["econ.gpu.price"]
        said.append(f"price to buy one {name}, {price.text}: {price.source}")
    return said
