"""Causal profiling by delay injection: which nodes of a step the step waits for."""

from assay.diagnose.delays.engine_target import EngineTarget
from assay.diagnose.delays.graph_target import GraphTarget
from assay.diagnose.delays.profiling import profile
from assay.diagnose.delays.records import DelayExperiment, DelayProfile
from assay.diagnose.delays.target import Run, Target, TargetNode

__all__ = [
    "DelayExperiment",
    "DelayProfile",
    "EngineTarget",
    "GraphTarget",
    "Run",
    "Target",
    "TargetNode",
    "profile",
]
