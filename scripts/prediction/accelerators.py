"""Data-sheet figures of the accelerators that the predictions cover."""

from __future__ import annotations

from dataclasses import dataclass

Constants = dict[str, float]


@dataclass(frozen=True)
class Accelerator:
    """One accelerator: dense tensor peaks by bits of the operands, per second, and its memories."""

    family: str
    launched: float
    multiprocessors: int
    peak: dict[int, float]
    bandwidth: float
    capacity: float
    link: float
    """NVLink bytes per second in one direction."""


def _ampere(bandwidth: float, capacity: float) -> Accelerator:
    return Accelerator(
        "A100", 2020.4, 108, {16: 312e12, 8: 312e12, 4: 312e12}, bandwidth, capacity, 300e9
    )


def _hopper(family: str, bandwidth: float, capacity: float) -> Accelerator:
    peak = {16: 989e12, 8: 1979e12, 4: 989e12}
    return Accelerator(family, 2022.8, 132, peak, bandwidth, capacity, 450e9)


ACCELERATORS = {
    "A100-40": _ampere(1555e9, 40e9),
    "A100-80": _ampere(2039e9, 80e9),
    "H100": _hopper("H100", 3350e9, 80e9),
    "H200": _hopper("H200", 4800e9, 141e9),
    "B200": Accelerator(
        "B200", 2024.9, 148, {16: 2250e12, 8: 4500e12, 4: 9000e12}, 7700e9, 180e9, 900e9
    ),
}


def accelerator_named(name: str) -> str | None:
    """The key of an accelerator as published cases spell it, or None when it is not covered.

    >>> accelerator_named("A100-SXM-40GB"), accelerator_named("H800-SXM-80GB")
    ('A100-40', 'H100')
    """
    if name.startswith("A100"):
        return "A100-40" if "40" in name.removeprefix("A100") else "A100-80"
    if name.startswith(("H100", "H800")):
        return "H100"
    return next((key for key in ("H200", "B200") if name.startswith(key)), None)
