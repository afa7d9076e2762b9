"""Checks of a registry, and rankings of its inputs and open work."""
