"""What must hold of a healthy trace, with intervals from prediction and calibration."""
