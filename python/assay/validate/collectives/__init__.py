"""Measured collectives."""
