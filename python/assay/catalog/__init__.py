"""Sourced numbers: scenario packs and, with time, devices, models, tariffs and published runs."""

from assay.catalog.files import scenarios

__all__ = ["scenarios"]
