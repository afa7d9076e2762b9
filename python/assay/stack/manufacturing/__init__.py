"""Manufacturing of a GPU: wafers, yield, interposers, and how many can be made."""

from assay.stack.manufacturing.packages import gpu_cost, gpu_rate, interposer_area, package_yield
from assay.stack.manufacturing.wafers import die_area, die_cost, die_yield, good_dies, scope

__all__ = [
    "die_area",
    "die_cost",
    "die_yield",
    "good_dies",
    "gpu_cost",
    "gpu_rate",
    "interposer_area",
    "package_yield",
    "scope",
]
