"""Static memory: the cell, its arrays, and how spare parts and check bits make a die that works."""

from assay.stack.sram import array, cell, repair
from assay.stack.sram.cell import scope

__all__ = ["array", "cell", "repair", "scope"]
