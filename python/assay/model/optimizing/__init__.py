"""Minimizing over discrete and continuous choices; sweeps."""
