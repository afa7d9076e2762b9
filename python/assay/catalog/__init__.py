"""Sourced numbers: accelerators, models, sites, prices and fitted constants.

Modules are imported where they are used, so that a question that needs no catalog reads none.
"""
