"""The engine: a language model served on the runtime, every kernel a model operation."""

from assay.engine.core.encoder import Encoder
from assay.engine.core.engine import Engine
from assay.engine.core.knobs import Knob, Settings, Undo
from assay.engine.requests.outputs import (
    Chunk,
    Completion,
    FinishReason,
    StepOutput,
    Summary,
    Timing,
)
from assay.engine.requests.sampling_params import SamplingParams
from assay.engine.requests.structured_output import StructuredOutput
from assay.engine.runner.kv_memory import KvSnapshot

__all__ = [
    "Chunk",
    "Completion",
    "Encoder",
    "Engine",
    "FinishReason",
    "Knob",
    "KvSnapshot",
    "SamplingParams",
    "Settings",
    "StepOutput",
    "StructuredOutput",
    "Summary",
    "Timing",
    "Undo",
]
