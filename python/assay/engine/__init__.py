"""The engine: a language model served on the runtime, every kernel a model operation."""

from assay.engine.core.encoder import Encoder as Encoder
from assay.engine.core.engine import Engine as Engine
from assay.engine.core.knobs import Knob as Knob, Settings as Settings, Undo as Undo
from assay.engine.requests.outputs import (
    Chunk as Chunk,
    Completion as Completion,
    FinishReason as FinishReason,
    StepOutput as StepOutput,
    Summary as Summary,
    Timing as Timing,
)
from assay.engine.requests.sampling_params import SamplingParams as SamplingParams
from assay.engine.requests.structured_output import StructuredOutput as StructuredOutput
from assay.engine.runner.kv_memory import KvSnapshot as KvSnapshot
