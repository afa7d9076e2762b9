"""Extreme-ultraviolet lithography: from a droplet of tin to a printed wafer, its price and its noise."""

from assay.stack.lithography import optics, plasma, resist, scanner, source
from assay.stack.lithography.source import scope

__all__ = ["optics", "plasma", "resist", "scanner", "scope", "source"]
