"""Changes below the pins of a GPU: yield, voltage, coolant, light and wafers, and what they move above."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from assay.asking.case import Case
from assay.asking.commands import TRAINING
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.errors import InputError

FLOOR: Final = "packs/h100_floor"
"""An H100 whose figures follow from those of its silicon."""
_H100: Final = "h100_sxm"


@dataclass(frozen=True)
class _Driver:
    """What changes: its words, its variable, the slot that gives a new value of it, and the unit."""

    words: re.Pattern[str]
    variable: str
    slot: str
    unit: str


_DRIVERS: Final = (
    _Driver(
        re.compile(r"\beuv\b|\bsource power\b|\bscanner power\b"), "lithography.power", "", "W"
    ),
    _Driver(re.compile(r"\byields?\b"), "manufacturing.die.yield", "yield_share", ""),
    _Driver(re.compile(r"\bcoolant\b|\bcooling\b"), "gpu.coolant_temperature", "kelvin", "K"),
    _Driver(
        re.compile(r"\bvolt(?:s|age)?\b|\bsupply\b|\bvdd\b"), "transistor.supply", "volts", "V"
    ),
    _Driver(re.compile(r"\bwafers?\b"), "manufacturing.wafer.price", "wafer_price", "USD"),
)
_TARGETS: Final = (
    (re.compile(r"\bgood dies\b"), "manufacturing.wafer.good_dies"),
    (
        re.compile(r"\bwafers?\b.*\b(?:price|cost)|\b(?:price|cost)s?\b.*\bwafers?\b"),
        "manufacturing.wafer.price",
    ),
    (re.compile(r"\btokens?\b"), "econ.cost.per_token"),
    (re.compile(r"\bsteps?\b|\bfast|\bspeed|\bslow|\btime\b"), "training.step_time"),
    (re.compile(r"\bcarbon|\bemission|\bco2\b"), "carbon.per_token"),
    (re.compile(r"\benergy\b"), "econ.energy.per_token"),
    (
        re.compile(
            r"\b(?:price|cost)s? of (?:an? |the )?(?:gpu|\ue001)|\b(?:gpu|\ue001+) (?:price|costs?)"
        ),
        "econ.gpu.price",
    ),
    (
        re.compile(r"\b(?:what|how much)\b.*\b(?:gpu|\ue001+) cost|\bmake (?:an? )?\ue001"),
        "econ.gpu.price",
    ),
    (re.compile(r"(?<!euv )(?<!source )\bpower\b|\bwatts?\b"), "gpu.power"),
)
"""What a change is asked for, by words; else the cost of a token."""


def change(reading: Reading) -> Outcome:
    """What a change below the pins does to a figure above them."""
    if reading.get("accelerator", _H100) != _H100:
        raise InputError(
            f"{reading.get('accelerator')}: only an H100 is followed down to its silicon",
            "assay catalog show packs/h100_floor",
        )
    driver = _driver(reading)
    asked = (
        target
        for words, target in _TARGETS
        if target != driver.variable and words.search(reading.rest)
    )
    target = next(asked, "econ.cost.per_token")
    case = Case(TRAINING, (FLOOR,))
    value = reading.get(driver.slot) if driver.slot else None
    if value is None:
        now = case.value(driver.variable)
        if now is None or "factor" not in reading.slots:
            raise InputError(f"{driver.variable}: a change to what?", "say the new value")
        value = now * float(reading.get("factor"))
    given = case.given(**{driver.variable.replace(".", "__"): f"{value:.6g} {driver.unit}".strip()})
    before, after = case.known(target), given.known(target)
    old, new = before.value or 0.0, after.value or 0.0
    shift = new / old - 1
    words = "as without the change" if not shift else (
        f"{abs(shift):.2%} {'more' if shift > 0 else 'less'} than without the change"
    )  # fmt: skip
    return Outcome(
        f"{after.meaning}: {after.text}, {words} ({before.text})", after,
        (after.command, before.command), ("an H100 by its silicon", "a training run of Llama 3 8B on 8 H100"),
        ratio=new / old, rows=[("with the change", after.text), ("without", before.text)],
    )  # fmt: skip


def price_by_silicon(reading: Reading) -> Outcome:
    """The price of a GPU from what its wafer, memory, package and maker cost."""
    if reading.get("accelerator", _H100) != _H100:
        raise InputError(
            f"{reading.get('accelerator')}: only an H100 is followed down to its wafer"
        )
    result = Case(TRAINING, (FLOOR,)).known("econ.gpu.price")
    said = ("an H100 by its silicon: wafer, yield, memory, package and margin of its maker",)
    return Outcome(f"{result.meaning}: {result.text}", result, assumed=said)


def _driver(reading: Reading) -> _Driver:
    named = [driver for driver in _DRIVERS if driver.slot and driver.slot in reading.slots]
    named = named or [driver for driver in _DRIVERS if driver.words.search(reading.rest)]
    if not named:
        raise InputError("a change of what?", "such as the yield, the voltage or the coolant")
    return named[0]
