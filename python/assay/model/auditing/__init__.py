"""Checking a registry and ranking what to do next."""
