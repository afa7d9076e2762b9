"""Causal profiling by delay injection: which nodes of a step the step waits for."""

from assay.diagnose.delays.engine_target import EngineTarget as EngineTarget
from assay.diagnose.delays.graph_target import GraphTarget as GraphTarget
from assay.diagnose.delays.profiling import profile as profile
from assay.diagnose.delays.records import (
    DelayExperiment as DelayExperiment,
    DelayProfile as DelayProfile,
)
from assay.diagnose.delays.target import Run as Run, Target as Target, TargetNode as TargetNode
