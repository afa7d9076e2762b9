"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values.

`llama.build` takes biases where the file has them; the file's loader has made sure that it has
all that a Qwen2 model needs and nothing else.
"""

from assay.engine.models.llama import build

__all__ = ["build"]
