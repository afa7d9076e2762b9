"""What questions say of silicon, light and heat: temperatures, areas, defects, doses, wavelengths."""

from __future__ import annotations

import re
from typing import Final

from assay.asking.numbers import IS, NUMBER, Convert, constant, kelvin, number

_ROOM: Final = 300.0
"""Room temperature, as literature on devices has it, in kelvins."""
_AREA: Final = r"(?:mm ?2|mm\^2|square mm|square millimet(?:er|re)s?)\b"
_BY_AREA: Final = r"\s*(?:/|per)\s*(?:cm ?2|cm\^2|square cm|square centimet(?:er|re)s?)\b"


def _sides(match: re.Match[str]) -> float:
    """The area of a rectangle by its sides."""
    return float(match["n"]) * float(match["n2"])


SILICON: Final[tuple[tuple[str, str, Convert, str], ...]] = (
    ("temperature", r"(?:at )?(?:about )?\broom temperature\b", constant(_ROOM), ""),
    (
        "temperature",
        r"(?:at |of )?"
        + NUMBER
        + r"\s*(?P<t>c|celsius|deg(?:rees?)?(?: c| celsius)?|kelvin)\b(?!\s*(?:/|per\b))",
        kelvin,
        "",
    ),
    # Of a model 128 k are a context.
    ("temperature", r"\bat (?P<n>\d{1,3}(?:\.\d+)?)\s*(?P<t>k)\b", kelvin, "model"),
    ("die_area", NUMBER + r"\s*" + _AREA, number, ""),
    (
        "die_area",
        r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s*(?:mm)?\s*(?:x|by)\s*(?P<n2>\d+(?:\.\d+)?)\s*mm\b",
        _sides,
        "",
    ),
    ("defect_density", NUMBER + r"\s*(?:killer )?(?:defects?)?" + _BY_AREA, number, ""),
    ("defect_density", r"\bd_?0" + IS + NUMBER, number, ""),
    ("defect_density", r"(?<=defect density)" + IS + NUMBER, number, ""),
    ("dose", NUMBER + r"\s*mj\s*(?:/|per)\s*(?:cm ?2|cm\^2|square cm)\b", number, ""),
    ("aperture", r"\b(?:na|numerical aperture)\s*(?:of|is|=|:)?\s*" + NUMBER, number, ""),
    ("aperture", NUMBER + r"\s*na\b", number, ""),
    ("aperture", r"\bhigh[ -]na\b", constant(0.55), ""),
    ("process_factor", r"\bk_?1\s*(?:of|is|=|:)?\s*" + NUMBER, number, ""),
    ("wavelength", NUMBER + r"\s*nm(?= (?:photons?|light|wavelength|source|laser))", number, ""),
    ("wavelength", r"(?<=wavelength)" + IS + NUMBER + r"\s*nm\b", number, ""),
    (
        "feature",
        NUMBER
        + r"\s*nm\s*(?:x\s*\d+(?:\.\d+)?\s*nm )?(?=(?:square|feature|contact|via|hole|pixel)s?\b)",
        number,
        "",
    ),
)
"""Slots, what their numbers look like, what a match means, and a slot with which it means another thing."""
