"""Predictions beside published measurements, in-sample and held-out apart.

Part of the published cases entered the fits of the constants that Assay ships. Scores keep these
apart, and predict them once more with constants fitted without them.
"""
