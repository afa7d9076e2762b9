"""What a model should do on some hardware: a graph of operations with floors and intervals."""

from assay.planner.graph import Graph as Graph, Node as Node
from assay.planner.predict import predict_graph as predict_graph
from assay.planner.sources import hardware_spec as hardware_spec, model_spec as model_spec
from assay.planner.specs import (
    BatchConfig as BatchConfig,
    Ceiling as Ceiling,
    HardwareSpec as HardwareSpec,
    LayerSpec as LayerSpec,
    ModelSpec as ModelSpec,
)
