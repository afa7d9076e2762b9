"""Answers about energy, emissions, water and power of serving."""

from __future__ import annotations

import math
from dataclasses import replace

from assay.asking.cases import require_place
from assay.asking.costs import for_tokens
from assay.asking.outcome import Outcome
from assay.asking.reading import Reading
from assay.asking.serving import figure


def efficiency(reading: Reading) -> Outcome:
    """Energy of an output token, and its inverse."""
    outcome = figure(reading, "econ.energy.per_output_token")
    per_joule = 1 / (outcome.result.value or math.nan)
    if reading.points_only:
        # What is lower beside another is the energy.
        text = f"{outcome.result.text} at the meter, that is {per_joule:.3g} tokens/s a watt"
        return replace(outcome, text=text)
    text = f"{per_joule:.3g} tokens/J, that is tokens/s a watt at the meter ({outcome.result.text})"
    return replace(outcome, text=text)


def energy(reading: Reading) -> Outcome:
    """Energy of output tokens at the meter."""
    outcome = figure(reading, "econ.energy.per_output_token")
    return for_tokens(reading, outcome, 1 / 3.6e6, "kWh")


def emissions(reading: Reading) -> Outcome:
    """Emissions of output tokens."""
    require_place(reading, "grids")
    return for_tokens(reading, figure(reading, "carbon.per_output_token"), 1e-9, "kg")


def water(reading: Reading) -> Outcome:
    """Water of output tokens."""
    require_place(reading, "grids")
    return for_tokens(reading, figure(reading, "carbon.water.per_output_token"), 1e-3, "L")


def power(reading: Reading) -> Outcome:
    """Power at the meter of the deployment."""
    return figure(reading, "econ.serving.dc_power")
