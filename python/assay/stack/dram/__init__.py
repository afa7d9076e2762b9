"""Dynamic memory: the cell that stores a bit, and the device that reads rows of them."""

from assay.stack.dram import cell, device
from assay.stack.dram.cell import scope

__all__ = ["cell", "device", "scope"]
