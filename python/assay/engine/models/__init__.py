"""The architectures, one small file each over shared layers."""

from assay.engine.models.building import ARCHITECTURES, build_model
from assay.engine.models.model import Model
from assay.engine.models.shape import ModelShape

__all__ = ["ARCHITECTURES", "Model", "ModelShape", "build_model"]
