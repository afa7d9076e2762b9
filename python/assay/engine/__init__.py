"""The engine: a language model served on the runtime, every kernel a model operation."""

from assay.engine.core.encoder import Encoder
from assay.engine.core.engine import Engine
from assay.engine.core.knobs import Knob, Settings, Undo
from assay.engine.core.kv_memory import KvSnapshot
from assay.engine.core.outputs import Chunk, Completion, FinishReason, StepOutput, Summary, Timing
from assay.engine.core.sampling_params import SamplingParams
from assay.engine.core.structured_output import StructuredOutput

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
