"""Measured ceilings of a machine as hardware of a prediction."""

from assay.planner.calibrate.calibration import Calibration
from assay.planner.calibrate.store import load, read, save, stored

__all__ = ["Calibration", "load", "read", "save", "stored"]
