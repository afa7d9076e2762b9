"""Comparing answers: what moves a value, and what carries the difference between two of them."""

from assay.model.comparing.difference import Contribution, Difference, difference
from assay.model.comparing.sensitivity import InputSensitivity, Sensitivities, sensitivities

__all__ = [
    "Contribution",
    "Difference",
    "InputSensitivity",
    "Sensitivities",
    "difference",
    "sensitivities",
]
