"""Assay: what a GPU workload should do, what it does, and why they differ."""

from assay._native import build_info

__version__: str = build_info()["version"]

__all__ = ["__version__", "build_info"]
