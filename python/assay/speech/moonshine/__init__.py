"""Moonshine: speech to text from raw samples, in time that grows with their length."""
