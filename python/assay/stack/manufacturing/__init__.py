"""Manufacturing of a GPU: wafers, yield, interposers, and how many can be made."""

from assay.stack.manufacturing import packages, wafers
from assay.stack.manufacturing.wafers import scope

__all__ = ["packages", "scope", "wafers"]
