"""Measures the ceilings of a machine for the planner, in under a minute."""

from assay.bench.calibration.run import calibrate

__all__ = ["calibrate"]
