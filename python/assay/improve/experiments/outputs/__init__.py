"""Answers of the workload compared: which changed, which changed wrongly, and how often at most."""
