"""Boxes around cars, cyclists and pedestrians, from lidar scans: PointPillars on arrays of the runtime."""
