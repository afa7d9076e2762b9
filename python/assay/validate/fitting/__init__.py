"""Fits of the constants in `catalog/calibration`: `python -m assay.validate.fitting.NAME`.

The product imports none of it. Most fits need the extra `validate`.
"""
