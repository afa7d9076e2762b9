"""Models from files: GGUF, Hugging Face folders, tokenizers, chat templates, pulled models."""

from assay.engine.loading.model_files import ModelFiles, Tensor
from assay.engine.loading.opening import open_model

__all__ = ["ModelFiles", "Tensor", "open_model"]
