"""Timelines of traces: lanes, tracks and time windows, drawn in a terminal or as a page."""
