"""One GPU: peak FLOP/s, memory, links, power and clock."""

from assay.stack.gpu import power, rates
from assay.stack.gpu.rates import scope

__all__ = ["power", "rates", "scope"]
