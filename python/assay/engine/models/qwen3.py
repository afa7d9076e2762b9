"""Qwen3: Llama with a norm on every head of queries and keys before it is rotated.

`llama.build` takes these norms where the file has them; the file's loader has made sure that it
has all that a Qwen3 model needs and nothing else.
"""

from assay.engine.models.llama import build

__all__ = ["build"]
