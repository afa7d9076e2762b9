"""Scaling laws and the life of a model."""

from assay.stack.scaling import laws, life
from assay.stack.scaling.laws import scope

__all__ = ["laws", "life", "scope"]
