"""Manufacturing of a GPU: wafers, yield, interposers, and how many can be made."""

from assay.stack.manufacturing import footprint, packages, wafers
from assay.stack.manufacturing.wafers import scope

__all__ = ["footprint", "packages", "scope", "wafers"]
