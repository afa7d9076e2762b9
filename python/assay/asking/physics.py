"""Answers from below the pins of a GPU: processes, droplets, wafers, yield, refresh, leakage, reticles."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from assay.asking.amounts import amount
from assay.asking.case import Case
from assay.asking.commands import SERVING, TRAINING
from assay.asking.outcome import Outcome, of_case
from assay.asking.reading import Reading
from assay.asking.silicon import of_dies, stated
from assay.errors import InputError

_NODE: Final = re.compile(r"\b(?:n ?)?([23457])(?: ?nm|e|p)?\b")
_PROCESSES: Final = {"2": "n2", "3": "n3e", "4": "n4", "5": "n5", "7": "n7"}
"""Entries of the catalog by the length in a process's name."""
_SCANNER: Final = ("processes/n5", "scanners/nxe_3600d")
_HEADLINES: Final = (
    (re.compile(r"\bsteps?\b|\bfast|\bspeed|\bslow|\btime\b"), "training.step_time"),
    (re.compile(r"\bcarbon|\bemission|\bco2\b"), "carbon.per_token"),
    (re.compile(r"\benergy\b"), "econ.energy.per_token"),
    (re.compile(r"\bpower\b|\bwatts?\b"), "gpu.power"),
    (re.compile(r"\bdies?\b|\barea\b"), "manufacturing.die.area"),
)
"""What a shrink is asked for, by words; else the cost of a token."""


def _case(reading: Reading, *entries: str, of: str = "", assumed: tuple[str, ...] = ()) -> Case:
    """A training run on the accelerator of the question, else on H100s, which `of` says."""
    accelerator = reading.get("accelerator")
    if accelerator is None:
        return Case(TRAINING, entries, assumed=(*((of,) if of else ()), *assumed))
    return Case(TRAINING, (f"accelerators/{accelerator}", *entries), assumed=assumed)


def _process(reading: Reading) -> str | None:
    match = _NODE.search(reading.rest)
    return None if match is None else f"processes/{_PROCESSES[match.group(1)]}"


def shrink(reading: Reading) -> Outcome:
    """What another process does to an H100 and what it computes."""
    process = _process(reading)
    if process is None:
        raise InputError("which process?", "2, 3, 4, 5 or 7 nm: assay catalog list processes")
    asked = (target for cue, target in _HEADLINES if cue.search(reading.rest))
    target = next(asked, "econ.cost.per_token")
    assumed = ("a training run of Llama 3 8B", "as many transistors, switched as often")
    before, after = (
        of_case(_case(reading, *entries, of="on H100s", assumed=assumed), target)
        for entries in ((), (process,))
    )
    old, new = before.result.value, after.result.value
    assert old is not None
    assert new is not None
    change = new / old - 1
    words = f"{abs(change):.1%} {'more' if change > 0 else 'less'} than in its own process"
    return Outcome(
        f"{after.text}, {words}", after.result, (before.result.command, after.result.command),
        after.assumed, ratio=new / old,
    )  # fmt: skip


def droplets(reading: Reading) -> Outcome:
    """Droplets of tin that print a GPU, or one of the tokens that it trains on."""
    of_token = re.search(r"\btokens?\b", reading.rest)
    target = "lithography.token.droplets" if of_token else "lithography.gpu.droplets"
    return of_case(_case(reading, *_SCANNER, of="an H100", assumed=("wafers of N5",)), target)


def wafer(reading: Reading) -> Outcome:
    """The price of a wafer, or the good dies on one."""
    process = _process(reading)
    dies = re.search(r"\b(?:dies|chips|gpus)\b", reading.rest)
    of = "dies of an H100" if dies or process is None else ""
    case = _case(reading, *(() if process is None else (process,)), of=of)
    if not dies:
        # A quantity of dies is none of a wafer's price.
        case = stated(case, "manufacturing.wafer.price", reading, "die_area defect_density")
        return of_case(case, "manufacturing.wafer.price")
    case = of_dies(case, "manufacturing.wafer.good_dies", reading)
    every, good = (of_case(case, f"manufacturing.wafer.{kind}_dies") for kind in ("gross", "good"))
    if re.search(r"\b(?:good|working|sellable)\b", reading.rest):
        return good
    text = f"{every.text}, {good.result.text} of them good"
    return replace(every, text=text, commands=(every.result.command, good.result.command))


def wafer_emissions(reading: Reading) -> Outcome:
    """The emissions of making a wafer of logic."""
    process = _process(reading)
    of = "the wafer of an H100" if process is None else ""
    return of_case(
        _case(reading, *(() if process is None else (process,)), of=of),
        "manufacturing.footprint.wafer",
    )


def embodied(reading: Reading) -> Outcome:
    """The emissions of making GPUs, or of a node with its GPUs."""
    if "node" in reading.slots:
        raise InputError("the embodied emissions of a node", "ask for those of its GPUs: of 8 H100")
    outcome = of_case(_case(reading, of="an H100"), "carbon.gpu.embodied")
    gpus = int(reading.get("gpus", 1))
    if gpus == 1:
        return outcome
    whole = gpus * (outcome.result.value or math.nan)
    text = f"{amount(whole, 'kg')}: {gpus:,} x {outcome.result.text}"
    return replace(outcome, text=text, value=whole, unit="kg")


def die_yield(reading: Reading) -> Outcome:
    """The share of dies that work."""
    case = _case(reading, of="dies of an H100")
    return of_case(of_dies(case, "manufacturing.die.yield", reading), "manufacturing.die.yield")


def reticle(reading: Reading) -> Outcome:
    """The largest field of a scanner, or the share of it that a die takes."""
    share = re.search(r"\b(?:share|fraction|much|full|fills?)\b", reading.rest)
    target = "manufacturing.die.reticle_share" if share else "manufacturing.reticle.area"
    return of_case(_case(reading, of="a die of an H100" if share else ""), target)


def refresh(_: Reading) -> Outcome:
    """The share of time in which what is asked of memory is being refreshed."""
    case = Case(SERVING, ("memories/hbm3e",), assumed=("HBM3E, bank by bank",))
    return of_case(case, "dram.refresh.share")


def leakage(reading: Reading) -> Outcome:
    """The leakage of a die at its temperature under load."""
    case = _case(reading, of="an H100", assumed=("a training run of Llama 3 8B",))
    return of_case(stated(case, "gpu.power.leakage", reading, "temperature"), "gpu.power.leakage")


def coolant(reading: Reading) -> Outcome:
    """The temperature of the coolant at a GPU."""
    return of_case(_case(reading, of="an air-cooled H100"), "gpu.coolant_temperature")


def density(reading: Reading) -> Outcome:
    """The densest logic of a process."""
    process = _process(reading)
    if process is None:
        raise InputError("of which process?", "2, 3, 4, 5 or 7 nm: assay catalog list processes")
    return of_case(Case(TRAINING, (process,)), "manufacturing.process.density")
