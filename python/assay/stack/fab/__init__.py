"""A fab: silicon from sand, tools and masks, cycle time and learning, and what a wafer costs and emits."""

from assay.stack.fab import flow, footprint, silicon, tools, wafer
from assay.stack.fab.silicon import scope

__all__ = ["flow", "footprint", "scope", "silicon", "tools", "wafer"]
