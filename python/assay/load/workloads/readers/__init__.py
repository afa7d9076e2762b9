"""Readers of recorded requests, one file a format."""
