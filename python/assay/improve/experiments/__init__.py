"""Experiments: paired blocks, confidence sequences, correctness gates, verdicts."""
