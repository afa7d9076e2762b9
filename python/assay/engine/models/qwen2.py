"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values.

`llama.build` uses the biases that the file has; the loader has checked that the file has exactly
the tensors of a Qwen2 model.
"""

from assay.engine.models.llama import build

__all__ = ["build"]
