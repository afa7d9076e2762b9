"""Prices in a question, their limits, and what a site or a wafer has: the first patterns that are tried."""

from __future__ import annotations

from typing import Final

from assay.asking.numbers import (
    AMOUNT,
    AMOUNT_OF,
    GPU_NAME,
    IS,
    LIMIT,
    NUMBER,
    PER,
    TARIFF,
    USD,
    Convert,
    cents,
    dollars,
    kelvin,
    kilowatt_hours,
    kilowatts,
    number,
    per_hour,
    share,
    thousandth,
)

PAID: Final[tuple[tuple[str, str, Convert], ...]] = (
    # What is below the pins.
    ("volts", r"(?:at |of |to )?" + NUMBER + r"\s*(?:v|volts?)\b", number),
    (
        "kelvin",
        r"(?<=coolant)[a-z ]{0,24}?\b(?:of|at|is|to)\s+"
        + NUMBER
        + r"\s*(?P<t>k|kelvin|c|celsius|degrees?(?: c| celsius)?)\b",
        kelvin,
    ),
    (
        "kelvin",
        NUMBER + r"\s*(?P<t>k|kelvin|c|celsius|degrees?(?: c| celsius)?)"
        r"(?= (?:hot |warm |cold )?(?:coolant|inlet|supply|air|water))",
        kelvin,
    ),
    (
        "yield_share",
        r"(?:at |with )?(?:an? )?" + NUMBER + r"\s*%\s*(?:die |wafer )?(?=yields?\b)",
        share,
    ),
    ("yield_share", r"(?<=yield)s?" + IS + NUMBER + r"\s*%", share),
    (
        "wafer_price",
        r"(?<=wafer)s?(?: prices?)?\s*(?:costs?|costing|is|are|at|of|rises? to|goes up to)\s*"
        + USD,
        dollars,
    ),
    # What is paid.
    ("electricity_price", TARIFF + USD + PER + r"kwh", number),
    ("electricity_price", TARIFF + NUMBER + r"\s*(?:cents?|ct|c)" + PER + r"kwh", cents),
    ("electricity_price", TARIFF + USD + PER + r"mwh", thousandth),
    ("electricity_price", TARIFF + r"(?<![\w.$])(?P<n>0?\.\d{1,3})\s*(?:/|per)\s*kwh", number),
    # What a run takes, stated as such.
    ("flop_count", r"(?<![\w.])(?P<n>\d+(?:\.\d+)?e\+?\d+)\s*flops?\b(?!/s| ?per)", number),
    ("mfu_share", NUMBER + r"\s*%\s*(?:of )?mfu\b", share),
    ("mfu_share", r"\bmfu" + IS + NUMBER + r"\s*%", share),
    (
        "electricity_price",
        r"\b(?:electricity|power|energy)(?: prices?| costs?| rates?| tariffs?)?\s*(?:is|are|at|of|=|:)?\s*"
        + NUMBER
        + r"\s*cents?\b(?!\s*(?:/|per|an?\b))",
        cents,
    ),
    # A limit of a price is no price: what costs more is left out.
    (
        "rent_limit",
        LIMIT + USD + PER + r"(?:gpu[- ]?)?(?:h|hr|hour)\b(?:" + PER + r"(?:gpu|card))?",
        number,
    ),
    ("cost_limit", LIMIT + USD + PER + r"(?P<u>day|week|month|year)\b", per_hour),
    ("cost_limit", LIMIT + USD + r"\s*(?P<u>dai|week|month|year)ly\b", per_hour),
    (
        "rent",
        r"\b(?:rent|rental|hourly)(?: price| rate| cost)?s?"
        + IS
        + USD
        + r"(?!\s*(?:/|per|an?\b|k))",
        number,
    ),
    (
        "rent",
        USD + PER + r"(?:gpu[- ]?)?(?:h|hr|hour)\b(?:" + PER + r"(?:gpu|card|" + GPU_NAME + r"))?",
        number,
    ),
    ("rent", USD + PER + r"(?:gpu|card|" + GPU_NAME + r")" + PER + r"(?:h|hr|hour)\b", number),
    (
        "rent",
        r"(?<![\w.$])(?P<n>\d{1,3}\.\d{1,3})\s*(?:/|per|an)\s*(?:gpu[- ]?)?(?:h|hr|hour)\b(?:"
        + PER
        + r"(?:gpu|card|"
        + GPU_NAME
        + r"))?",
        number,
    ),
    (
        "gpu_price",
        r"(?:gpu|card|"
        + GPU_NAME
        + r")\s*(?:price|costs?)"
        + IS
        + USD
        + r"(?!\s*/)(?:"
        + PER
        + r"(?:gpu|card))?",
        dollars,
    ),
    ("gpu_price", USD + PER + r"(?:gpu|card|piece)\b", dollars),
    # Energy and power that are there to be used.
    ("energy_amount", AMOUNT_OF + r"\s*(?P<e>[kmg]?)wh\b", kilowatt_hours),
    ("power_amount", AMOUNT_OF + r"\s*(?P<e>[kmg])w\b", kilowatts),
    ("gpu_hours", AMOUNT + r"[ -]*(?:gpu|(?=" + GPU_NAME + r"))[ -]*(?:hours?|hrs?)\b", number),
)
"""Slots, what their numbers look like, and what a match means, as in `quantities`."""
