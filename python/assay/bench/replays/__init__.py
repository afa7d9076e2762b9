"""Experiments and searches over recorded blocks: every method meets the same machine and noise."""
