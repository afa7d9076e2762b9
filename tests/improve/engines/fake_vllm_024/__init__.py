"""Shaped like vLLM 0.24: fields, types and defaults of its EngineArgs, as its source has them."""

__version__ = "0.24.0"
