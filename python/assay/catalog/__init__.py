"""Sourced numbers: accelerators, models, sites, prices, fitted constants and scenario packs.

Modules are imported where they are used, so that a question that needs no catalog reads none.
"""

from assay.catalog.files import scenarios

__all__ = ["scenarios"]
