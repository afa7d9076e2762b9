"""Solving for unknowns under requirements on computed variables."""
