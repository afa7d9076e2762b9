"""Predictions beside published measurements, in-sample and held-out apart.

Part of the published cases entered the fits of the constants that Assay ships. Scores keep these
apart, and predict them once more with constants fitted without them.

`training/`, `serving/`, `kernels/` and `collectives/` map a case to inputs of the graph and predict it;
`fitting/` fits the constants of `catalog/calibration` and the weights of `assay ask`, one module a fit
(`python -m assay.validate.fitting.NAME`).
"""
