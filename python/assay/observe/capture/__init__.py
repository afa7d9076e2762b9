"""Capture of what runs in this process: Assay's own engine, step by step and node by node."""

from assay.observe.capture.session import Capture, capture

__all__ = ["Capture", "capture"]
