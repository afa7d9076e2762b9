"""A decoder's shapes: parameters, FLOPs per token, and KV-cache elements per token."""

from assay.stack.architecture import cache, operations, parameters, positions, shapes
from assay.stack.architecture.shapes import scope

__all__ = ["cache", "operations", "parameters", "positions", "scope", "shapes"]
