"""Mistral: Llama with an explicit head size, and in its first version a sliding window.

Sliding-window attention is full attention while the text fits into the window, so such a model is
served up to that length (`model_shape.llama_shape`).
"""

from assay.engine.models.llama import build

__all__ = ["build"]
