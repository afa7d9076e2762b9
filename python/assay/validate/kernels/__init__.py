"""Measured kernels and data sheets."""
