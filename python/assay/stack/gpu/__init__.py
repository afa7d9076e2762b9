"""One GPU: peak FLOP/s, memory, links, power and clock."""

from assay.stack.gpu import power, rates, reference
from assay.stack.gpu.rates import scope

__all__ = ["power", "rates", "reference", "scope"]
