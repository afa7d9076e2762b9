"""Traces of other tools, read into the tables of this package."""
