"""What questions say of collectives: the operation, the bytes of a message, the ranks."""

from __future__ import annotations

import re
from typing import Final

from assay.asking.numbers import COUNTED, Convert, tokens

OPERATIONS: Final = {
    "all-reduce": "all_reduce", "all-gather": "all_gather", "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
}  # fmt: skip
"""Operations by the words of a normalized question."""
OPERATION: Final = rf"\b(?:{'|'.join(OPERATIONS)})\b"
_UNITS: Final = {
    "": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30,
    "ti": 2.0**40, "kilo": 1e3, "mega": 1e6, "giga": 1e9,
}  # fmt: skip


def _bytes(match: re.Match[str]) -> float:
    """Bytes of a message; a letter alone counts in powers of two, as in options of nccl-tests."""
    unit, digits = match["u"], match["n"]
    number = 1.0 if digits in ("a", "one") else float(digits)
    if unit in ("k", "m", "g"):
        return number * _UNITS[f"{unit}i"]
    return number * _UNITS[_BYTE.sub("", unit)]


_BYTE: Final = re.compile(r"(?:b|bytes?)$")
_OF_SIZE: Final = r"(?:\b(?:message|buffer|payload|data)s?(?: size)?(?: of| is|:|=)? )?"
_MESSAGE: Final = r"(?:[ -](?:messages?|buffers?|payloads?|of data)(?: size)?\b)?"

COLLECTIVES: Final[tuple[tuple[str, str, Convert, str, str], ...]] = (
    (
        "message",
        _OF_SIZE + r"(?<![\w.])(?P<n>\d+(?:\.\d+)?(?:e\+?\d+)?)[ -]?"
        r"(?P<u>[kmgt]?i?(?:b|bytes?)|(?:kilo|mega|giga)bytes?|[kmg])\b(?!\s*(?:/|per\b))"
        + _MESSAGE,
        _bytes,
        "",
        OPERATION,
    ),
    (
        "message",
        r"\b(?P<n>a|one) (?P<u>(?:kilo|mega|giga)byte)\b" + _MESSAGE,
        _bytes,
        "",
        OPERATION,
    ),
    ("gpus", r"(?<![\w.])" + COUNTED + r"\s*ranks\b", tokens, "", OPERATION),
)
"""Slots, what their numbers look like, what a match means, a slot with which it means another thing, and the
words without which it does."""
