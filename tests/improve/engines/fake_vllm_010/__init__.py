"""Shaped like vLLM 0.10, which has knobs that later releases dropped, and lacks others."""

__version__ = "0.10.0"
