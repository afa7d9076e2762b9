"""The engine: a language model served on the runtime, every kernel a model operation."""

from assay.engine.engine import Engine
from assay.engine.knobs import Knob, Settings, Undo
from assay.engine.kv_memory import KvSnapshot
from assay.engine.outputs import Chunk, Completion, FinishReason, StepOutput, Summary, Timing
from assay.engine.params import SamplingParams

__all__ = [
    "Chunk",
    "Completion",
    "Engine",
    "FinishReason",
    "Knob",
    "KvSnapshot",
    "SamplingParams",
    "Settings",
    "StepOutput",
    "Summary",
    "Timing",
    "Undo",
]
