"""What a model should do on some hardware: a graph of operations with floors and intervals."""

from assay.planner.graph import Graph, Node
from assay.planner.predict import predict_graph
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig, Ceiling, HardwareSpec, LayerSpec, ModelSpec

__all__ = [
    "BatchConfig",
    "Ceiling",
    "Graph",
    "HardwareSpec",
    "LayerSpec",
    "ModelSpec",
    "Node",
    "hardware_spec",
    "model_spec",
    "predict_graph",
]
