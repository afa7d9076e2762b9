"""The table of units: data only.

Base units are those of the SI, plus byte, FLOP, USD and the counted things token, request, GPU and
node, so that a sum in dollars is never taken for one in FLOP, nor GPU-hours for hours.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

BASE_UNITS: Final = (
    "m", "kg", "s", "A", "K", "mol", "cd",
    "B", "FLOP", "USD", "token", "request", "GPU", "node",
)  # fmt: skip

DECIMAL: Final = {
    "y": -24, "z": -21, "a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "c": -2,
    "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21, "Y": 24,
}  # fmt: skip
"""Prefixes and their powers of ten."""

BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
"""Prefixes of bits and bytes and their powers of 1024."""

DEFINITIONS: Final[dict[str, tuple[str, Fraction | int, bool]]] = {
    "g": ("kg", Fraction(1, 1000), True),
    "bit": ("B", Fraction(1, 8), True),
    "b": ("B", Fraction(1, 8), True),
    "byte": ("B", 1, True),
    "$": ("USD", 1, False),
    "tok": ("token", 1, True),
    "req": ("request", 1, True),
    "rad": ("1", 1, False),
    "%": ("1", Fraction(1, 100), False),
    "percent": ("1", Fraction(1, 100), False),
    "ppm": ("1", Fraction(1, 10**6), False),
    "Hz": ("1/s", 1, True),
    "N": ("kg*m/s^2", 1, True),
    "Pa": ("N/m^2", 1, True),
    "bar": ("Pa", 10**5, True),
    "atm": ("Pa", 101325, False),
    "J": ("N*m", 1, True),
    "W": ("J/s", 1, True),
    "C": ("A*s", 1, True),
    "V": ("W/A", 1, True),
    "F": ("C/V", 1, True),
    "ohm": ("V/A", 1, True),
    "S": ("A/V", 1, True),
    "H": ("V*s/A", 1, True),
    "Wb": ("V*s", 1, True),
    "T": ("Wb/m^2", 1, True),
    "min": ("s", 60, False),
    "h": ("s", 3600, False),
    "hour": ("s", 3600, False),
    "d": ("s", 86400, False),
    "day": ("s", 86400, False),
    "week": ("s", 604800, False),
    "year": ("s", 31557600, False),
    "yr": ("s", 31557600, False),
    "month": ("s", 2629800, False),
    "L": ("m^3", Fraction(1, 1000), True),
    "t": ("kg", 1000, True),
    "eV": ("J", Fraction(1602176634, 10**28), True),
    "Wh": ("J", 3600, True),
    "VA": ("V*A", 1, True),
}
"""By name: the definition in terms of names above it, the scale, whether it takes decimal prefixes."""

PREFIXED_BASES: Final = {
    "m", "s", "A", "K", "mol", "cd", "B", "FLOP", "USD", "token", "request",
}  # fmt: skip
"""Base units that take decimal prefixes; kg has one already, and nobody counts thousandths of GPUs."""

NOT_UNITS: Final = {
    "FLOPS": "FLOP/s", "FLOPs": "FLOP", "flops": "FLOP or FLOP/s", "bps": "bit/s", "Bps": "B/s",
    "hr": "h", "hrs": "h", "hours": "hour", "days": "day", "sec": "s", "tokens": "token",
    "gpu": "GPU", "GPUs": "GPU", "gpus": "GPU", "nodes": "node", "usd": "USD", "EUR": "USD",
    "requests": "request", "bytes": "byte", "bits": "bit", "flop": "FLOP", "watts": "W",
    "GPUh": "GPU*h",
}  # fmt: skip
"""Common misspellings and their corrections."""
