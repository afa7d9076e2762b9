"""Cooling, losses between meter and machines, PUE and water."""

from assay.stack.thermal import chillers, flows, site, supply, water, weather
from assay.stack.thermal.supply import scope

__all__ = ["chillers", "flows", "scope", "site", "supply", "water", "weather"]
