"""Figures of silicon, light and heat: with the quantities of the question, and those of the scenario named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from assay import stack
from assay.asking.case import Case
from assay.asking.cases import accelerator_of
from assay.asking.commands import SERVING, TRAINING
from assay.asking.outcome import Outcome, of_case
from assay.asking.physical_changes import FLOOR
from assay.asking.reading import Reading
from assay.errors import InputError

_H100: Final = "h100_sxm"
_KELVIN: Final = 273.15


@dataclass(frozen=True)
class _Quantity:
    """What a figure is computed from: the slot that gives it, the variables that may be it, and its unit."""

    slot: str
    variables: tuple[str, ...]
    unit: str
    words: str


_QUANTITIES: Final = (
    _Quantity("temperature", ("transistor.temperature", "gpu.temperature"), "K", "at {}"),
    _Quantity("ideality", ("transistor.ideality",), "", "an ideality of {}"),
    _Quantity("kelvin", ("gpu.coolant_temperature",), "K", "coolant of {}"),
    _Quantity("die_area", ("manufacturing.die.area",), "mm^2", "a die of {}"),
    _Quantity(
        "defect_density", ("manufacturing.process.defect_density",), "1/cm^2", "killer defects: {}"
    ),
    _Quantity(
        "critical_share", ("manufacturing.die.critical_share",), "", "{} of a die where a defect kills it"
    ),
    _Quantity("clustering", ("manufacturing.process.clustering",), "", "clustering of defects {}"),
    _Quantity("dose", ("lithography.dose",), "mJ/cm^2", "a dose of {}"),
    _Quantity("wavelength", ("lithography.wavelength",), "nm", "light of {}"),
    _Quantity("aperture", ("lithography.optics.aperture",), "", "an aperture of {}"),
    _Quantity("process_factor", ("lithography.optics.process_factor",), "", "k_1 of {}"),
    _Quantity("feature", ("lithography.resist.feature",), "nm", "a square of {}"),
)  # fmt: skip


def stated(case: Case, target: str, reading: Reading, slots: str) -> Case:
    """The case with the quantities of the question; what the scenario has instead is assumed.

    `slots` are those that the figure is said with, such as a temperature.
    """
    for quantity in (known for known in _QUANTITIES if known.slot in slots.split()):
        used, near = case.used_by(target)
        among = [name for name in quantity.variables if name in used]
        name = next((name for name in among if name in near), among[0] if among else None)
        value = reading.get(quantity.slot)
        if name is None and value is not None:
            raise InputError(f"{target} does not depend on {quantity.variables[0]}", "leave it out")
        if name is None:
            continue
        if value is not None:
            case = case.given(**{name.replace(".", "__"): f"{value:.10g} {quantity.unit}".strip()})
            continue
        now = case.value(name)
        if now is not None:
            figure = stack.registry().variables[name].figure(now).text
            case = replace(case, assumed=(*case.assumed, quantity.words.format(figure)))
    return case


def of_dies(case: Case, target: str, reading: Reading) -> Case:
    """The case of dies on a wafer: those of the accelerator, or any die of the question's area."""
    slots = "die_area defect_density clustering critical_share"
    if "die_area" in reading.slots and "accelerator" not in reading.slots:
        # No unit of it is known to be spare.
        case = replace(
            case.given(manufacturing__die__critical_share=1), assumed=("no spare units",)
        )
        slots = "die_area defect_density clustering"
    return stated(case, target, reading, slots)


def of_euv(target: str, slots: str) -> Callable[[Reading], Outcome]:
    """The answer that is a figure of a scanner and its resist."""
    case = Case(TRAINING, ("processes/n5", "scanners/nxe_3600d"))
    return lambda reading: of_case(stated(case, target, reading, slots), target)


def of_transistor(target: str) -> Callable[[Reading], Outcome]:
    """The answer that is a figure of the transistors of an H100 that trains."""

    def answer(reading: Reading) -> Outcome:
        assumed = () if "temperature" in reading.slots else ("an H100 that trains Llama 3 8B",)
        case = Case(TRAINING, (FLOOR,), assumed=assumed)
        return of_case(stated(case, target, reading, "temperature ideality"), target)

    return answer


def of_h100(target: str) -> Callable[[Reading], Outcome]:
    """The answer that only an H100 is followed down to."""

    def answer(reading: Reading) -> Outcome:
        if accelerator_of(reading, "training") != _H100:
            raise InputError(
                f"{reading.get('accelerator')}: only an H100 is followed down to its silicon",
                "assay catalog show packs/h100_floor",
            )
        case = Case(TRAINING, (FLOOR,), assumed=("an H100 that trains Llama 3 8B",))
        return of_case(case, target)

    return answer


def of_package(target: str) -> Callable[[Reading], Outcome]:
    """The answer that is a figure of an accelerator's dies and stacks."""

    def answer(reading: Reading) -> Outcome:
        name = accelerator_of(reading)
        assumed = () if "accelerator" in reading.slots else (f"accelerator {name}",)
        return of_case(Case(SERVING, (f"accelerators/{name}",), assumed=assumed), target)

    return answer


def transistors(reading: Reading) -> Outcome:
    """Transistors of all compute dies of an accelerator."""
    case = Case(SERVING, (f"accelerators/{accelerator_of(reading)}",))
    each, dies = (
        case.known(f"manufacturing.{name}") for name in ("die.transistors", "package.dies")
    )
    count = (each.value or 0.0) * (dies.value or 0.0)
    text = f"{count / 1e9:,.4g} billion transistors: {dies.value:g} x {each.text} of a compute die"
    return Outcome(text, each, (each.command, dies.command), value=count, unit="1")


def die_temperature(reading: Reading) -> Outcome:
    """The temperature of a die under load, in degrees Celsius, too."""
    accelerator = reading.get("accelerator")
    case = Case(TRAINING, () if accelerator is None else (f"accelerators/{accelerator}",))
    case = replace(case, assumed=("a training run of Llama 3 8B",))
    outcome = of_case(stated(case, "gpu.temperature", reading, "kelvin"), "gpu.temperature")
    return replace(outcome, text=f"{outcome.text} ({(outcome.number[0] or 0.0) - _KELVIN:.0f} C)")
