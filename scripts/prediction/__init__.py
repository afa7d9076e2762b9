"""Predictions of published training and serving figures, and the fits of their constants."""
