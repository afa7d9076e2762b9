"""Mistral: Llama with heads of a size of their own, and in its first version a window.

Attention over a window is the same as full attention while the text fits into the window, so a
model with a window is served up to that length (`shape.llama_shape`).
"""

from assay.engine.models.llama import build

__all__ = ["build"]
