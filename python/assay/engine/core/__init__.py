"""Engines: scheduling, the step loop, outputs, and settings."""
