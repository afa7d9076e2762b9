"""Qwen3: Llama with QK norm: an RMSNorm of each query and key head before RoPE.

`llama.build` uses the norms that the file has; the loader has checked that the file has exactly
the tensors of a Qwen3 model.
"""

from assay.engine.models.llama import build

__all__ = ["build"]
