"""Predictions of what a candidate does to the objective, one file a mechanism."""
