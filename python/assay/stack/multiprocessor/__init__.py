"""A multiprocessor: what is resident on it, what hides its latencies, and the caches behind it."""

from assay.stack.multiprocessor import caches, latency, residency, rooflines
from assay.stack.multiprocessor.residency import scope

__all__ = ["caches", "latency", "residency", "rooflines", "scope"]
